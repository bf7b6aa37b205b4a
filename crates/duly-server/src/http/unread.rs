//! Adds `connection: close` to a response that is made before the request was read to its end.
//!
//! HTTP/1.1 cannot skip the rest of a body: the server reads it, or closes the connection after the
//! response. Without the header, a caller sends its next request into a closing connection, and does not
//! learn whether that request was carried out (RFC 9112, 9.3 and 9.6).
//!
//! 1. A rest that is known to be short is read and dropped, so that a refusal costs no connection.
//! 2. A stream of lines gets its response while it is read, and no header.
//! 3. HTTP/2 resets only the stream, and needs no header. A short rest is read all the same: some callers take
//!    a reset of a body that they are sending for the loss of the response.
//!
//! The layers in front of the handlers call it for every response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use bytes::Bytes;
use http::{
    HeaderValue, Version,
    header::{CONNECTION, EXPECT},
};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Most bytes of a body that are read and dropped after a refusal.
const DROPPED_BYTES_MAX: u64 = 64 * 1024;
/// Time limit for that: the bytes are on their way.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// The rest of the body of one request when its response is made.
pub(super) struct Unread {
    rest: Option<Arc<Mutex<UnreadRest>>>,
    is_http2: bool,
}

#[derive(Default)]
enum UnreadRest {
    /// The body is being read, or was read to its end.
    #[default]
    Nothing,
    /// The rest, which its reader has dropped.
    Rest(Body),
    /// A body that its sender holds back until `100 Continue`.
    Unsent,
}

/// Watches how far the body of a request is read.
pub(super) fn watch(request: Request) -> (Request, Unread) {
    let is_http2 = request.version() >= Version::HTTP_2;
    if request.body().is_end_stream() {
        return (request, Unread { rest: None, is_http2 });
    }
    let rest = Arc::new(Mutex::new(UnreadRest::Nothing));
    let unread = Unread { rest: Some(Arc::clone(&rest)), is_http2 };
    let awaits_continue = request.headers().contains_key(EXPECT);
    let watched = |inner| WatchedRequest { inner, has_ended: false, awaits_continue, rest };
    (request.map(|inner| Body::new(watched(inner))), unread)
}

impl Unread {
    /// Reads a short rest of the body, or adds the header to the response.
    pub(super) async fn settle(self, response: &mut Response) {
        let rest = self.rest.map(|rest| std::mem::take(&mut *rest.lock())).unwrap_or_default();
        let is_read = match rest {
            UnreadRest::Nothing => true,
            UnreadRest::Rest(body) => is_dropped(body).await,
            UnreadRest::Unsent => false,
        };
        if !is_read && !self.is_http2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Reads a body to its end if it is known to be short. Returns `true` if it did.
async fn is_dropped(mut body: Body) -> bool {
    if body.size_hint().upper().is_none_or(|bytes| bytes > DROPPED_BYTES_MAX) {
        return false;
    }
    let read = async {
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    timeout(DROPPED_WITHIN, read).await.unwrap_or(false)
}

/// A body that keeps its unread rest.
struct WatchedRequest {
    inner: Body,
    has_ended: bool,
    /// `true`: its sender waits for `100 Continue`.
    awaits_continue: bool,
    rest: Arc<Mutex<UnreadRest>>,
}

impl Drop for WatchedRequest {
    fn drop(&mut self) {
        if !self.is_end_stream() {
            let body = std::mem::take(&mut self.inner);
            *self.rest.lock() =
                if self.awaits_continue { UnreadRest::Unsent } else { UnreadRest::Rest(body) };
        }
    }
}

impl HttpBody for WatchedRequest {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        self.has_ended |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn closes(unread: Unread) -> bool {
        let mut response = Response::new(Body::empty());
        unread.settle(&mut response).await;
        response.headers().get(CONNECTION).is_some_and(|value| value == "close")
    }

    fn in_parts() -> Body {
        Body::from_stream(futures::stream::iter(["a", "b"].map(Ok::<_, axum::Error>)))
    }

    fn of_length(bytes: u64) -> Body {
        Body::from(vec![b'x'; usize::try_from(bytes).expect("it is short")])
    }

    #[tokio::test]
    async fn early_responses_close_the_connection() {
        for body in [in_parts(), of_length(DROPPED_BYTES_MAX + 1)] {
            let (request, unread) = watch(Request::new(body));
            drop(request);
            assert!(closes(unread).await);
        }
        let (mut request, unread) = watch(Request::new(in_parts()));
        request.body_mut().frame().await.expect("a part").expect("read");
        drop(request);
        assert!(closes(unread).await, "one part of two was read");

        let waiting = Request::builder().header(EXPECT, "100-continue").body(of_length(1));
        let (request, unread) = watch(waiting.expect("a request"));
        drop(request);
        assert!(closes(unread).await, "its body would be asked for only to be dropped");
    }

    #[tokio::test]
    async fn responses_after_the_request_keep_the_connection() {
        let (request, unread) = watch(Request::new(in_parts()));
        request.into_body().collect().await.expect("read");
        assert!(!closes(unread).await);

        let (request, unread) = watch(Request::new(Body::empty()));
        drop(request);
        assert!(!closes(unread).await, "there was nothing to read");

        let (request, unread) = watch(Request::new(of_length(DROPPED_BYTES_MAX)));
        drop(request);
        assert!(!closes(unread).await, "it is short");

        let (request, unread) = watch(Request::new(in_parts()));
        assert!(!closes(unread).await, "it is still being read");
        drop(request);

        let mut request = Request::new(in_parts());
        *request.version_mut() = Version::HTTP_2;
        let (request, unread) = watch(request);
        drop(request);
        assert!(!closes(unread).await, "HTTP/2 has no such header");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_short_rest_times_out() {
        struct Silent;

        impl HttpBody for Silent {
            type Data = Bytes;
            type Error = axum::Error;

            fn poll_frame(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
                Poll::Pending
            }

            fn size_hint(&self) -> SizeHint {
                SizeHint::with_exact(1)
            }
        }

        let (request, unread) = watch(Request::new(Body::new(Silent)));
        drop(request);
        assert!(closes(unread).await);
    }
}
