//! Bounds incoming messages (P10).
//!
//! 1. A message that announces more bytes than the limit is refused before any of it is kept.
//! 2. The arrived bytes of a message count against the request memory. They are released when the
//!    library polls for more, because the message is handled then, or when it stops reading. A stream
//!    between two messages uses no memory.
//! 3. The library keeps its buffer for the next message. A large buffer still counts until the reader of
//!    the stream releases it ([`Incoming`]).
//! 4. A message that has begun must be complete within the time limit of a body. For the first message
//!    of a stream, the time begins with the head of the call; for a later one, with its first byte. A
//!    stream may be idle between two messages without a limit.
//! 5. Other calls have one time limit as a whole.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use duly_core::{Code, error_code::Retry};
use futures::{FutureExt, future::BoxFuture};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::{
    message_bytes_max,
    methods::{Known, Takes},
};
use crate::http::{
    App, Made, Problem,
    budget::{Budget, Share},
};

/// Bytes in front of each message: a flag and its length.
const HEAD_BYTES: usize = 5;
/// Most bytes of a message to a probe: a name, with space to spare.
const PROBE_BYTES_MAX: usize = 4 * 1024;
/// Bytes that the library may keep for the next message without being counted.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Bounds the messages of a call to `method`, which count against `budget`.
pub(super) fn bounded(app: &App, method: &Known, budget: &Budget, request: Request) -> Request {
    // A reflection stream that never ends would delay a stop.
    let ends_at_stop = request.uri().path().starts_with("/grpc.reflection.");
    let stopping = ends_at_stop.then(|| {
        let app = app.clone();
        async move { app.stopping().await }.boxed()
    });
    let bounds = match method.made {
        Made::Probe | Made::Health => {
            Bounds { bytes_max: PROBE_BYTES_MAX, instead: "ask for one name at a time" }
        }
        Made::Reading | Made::Change => Bounds {
            bytes_max: message_bytes_max(app),
            instead: "split the request, or raise server.body_bytes_max, up to 32 MiB",
        },
    };
    let messages = Messages::new(budget.share(), bounds);
    let patience = app.limits().request_timeout;
    let is_stream = method.takes == Takes::Stream;
    let whole_by = is_stream.then(|| Box::pin(sleep(patience)));
    let (mut head, inner) = request.into_parts();
    let inbound = Inbound { inner, messages, stopping, patience, whole_by };
    if !is_stream {
        return Request::from_parts(head, Body::new(inbound));
    }
    let incoming = Incoming(Arc::new(Mutex::new(inbound)));
    head.extensions.insert(incoming.clone());
    Request::from_parts(head, Body::new(incoming))
}

/// The incoming side of a stream, shared with its reader; cheap to clone.
#[derive(Clone)]
pub(super) struct Incoming(Arc<Mutex<Inbound>>);

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl Incoming {
    /// Returns `true` if the library holds a large buffer that is empty after this number of messages.
    pub(super) fn is_kept_for_nothing(&self, messages: u64) -> bool {
        let inbound = self.0.lock();
        let Messages { begun, largest, .. } = inbound.messages;
        largest > KEPT_BYTES_MAX && inbound.messages.is_between() && begun == messages
    }

    /// Notes that the library has released its buffer.
    pub(super) fn forget(&self) {
        let messages = &mut self.0.lock().messages;
        messages.largest = 0;
        messages.let_go();
    }

    /// Returns the most bytes of a message.
    pub(super) fn bytes_max(&self) -> usize {
        self.0.lock().messages.bounds.bytes_max
    }
}

struct Inbound {
    inner: Body,
    messages: Messages,
    stopping: Option<BoxFuture<'static, ()>>,
    patience: Duration,
    /// Deadline of the incomplete message.
    whole_by: Option<Pin<Box<Sleep>>>,
}

/// The bounds of a message.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    bytes_max: usize,
    /// The remedy for a larger message.
    instead: &'static str,
}

/// The position of the received bytes in the messages of a request.
struct Messages {
    share: Share,
    bounds: Bounds,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that have arrived, and that are missing.
    here: usize,
    to_come: usize,
    /// Messages that have begun.
    begun: u64,
    /// Bytes of the largest message so far.
    largest: usize,
}

impl Messages {
    fn new(share: Share, bounds: Bounds) -> Self {
        let head = [0; HEAD_BYTES];
        Self { share, bounds, head, head_bytes: 0, here: 0, to_come: 0, begun: 0, largest: 0 }
    }

    /// Returns `true` if no message is incomplete.
    const fn is_between(&self) -> bool {
        self.to_come == 0 && self.head_bytes == 0
    }

    /// Releases the memory of the last message, but not that of a kept buffer.
    fn let_go(&mut self) {
        self.here = 0;
        let kept = if self.largest > KEPT_BYTES_MAX { self.largest } else { 0 };
        self.share.shrink_to(kept);
    }

    /// Counts the bytes of a part.
    fn follow(&mut self, mut part: &[u8]) -> Result<(), Problem> {
        while !part.is_empty() {
            if self.to_come == 0 {
                part = self.follow_head(part)?;
                continue;
            }
            let count = part.len().min(self.to_come);
            self.here += count;
            self.to_come -= count;
            self.largest = self.largest.max(self.here);
            self.share.grow_to(self.here)?;
            part = &part[count..];
        }
        Ok(())
    }

    fn follow_head<'p>(&mut self, part: &'p [u8]) -> Result<&'p [u8], Problem> {
        if self.head_bytes == 0 {
            self.begun += 1;
            self.let_go();
        }
        let count = part.len().min(HEAD_BYTES - self.head_bytes);
        let (of_head, rest) = part.split_at(count);
        self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(of_head);
        self.head_bytes += count;
        if self.head_bytes == HEAD_BYTES {
            self.head_bytes = 0;
            let [_, length @ ..] = self.head;
            self.to_come = u32::from_be_bytes(length) as usize;
            if self.to_come > self.bounds.bytes_max {
                return Err(too_large(self.to_come, self.bounds));
            }
        }
        Ok(rest)
    }
}

fn too_large(bytes: usize, bounds: Bounds) -> Problem {
    let Bounds { bytes_max, instead } = bounds;
    let allowed = format!("at most {bytes_max} bytes");
    let detail = format!("a message must be {allowed}; this one has {bytes}: {instead}");
    Problem::new(Code::RequestTooLarge, detail).at(
        "message",
        Some(format!("{bytes} bytes")),
        &allowed,
    )
}

fn too_slow(patience: Duration) -> Problem {
    let detail = format!(
        "the message did not come whole within {} s (server.request_timeout): begin the call anew, \
         and send each message at once",
        patience.as_secs()
    );
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

impl Inbound {
    /// Counts a part, and sets the deadline of the message that it ends in.
    fn follow(&mut self, part: &[u8]) -> Result<(), Problem> {
        let before = self.messages.begun;
        self.messages.follow(part)?;
        if self.messages.is_between() {
            self.whole_by = None;
        } else if self.messages.begun != before && (before > 0 || self.messages.begun > 1) {
            self.whole_by = Some(Box::pin(sleep(self.patience)));
        }
        Ok(())
    }
}

impl hyper::body::Body for Inbound {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.stopping.as_mut().is_some_and(|it| it.poll_unpin(context).is_ready()) {
            return Poll::Ready(None);
        }
        if this.messages.is_between() {
            this.messages.let_go();
        }
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            // Bytes that are already here count as in time: the reader may have been delayed.
            ready!(this.whole_by.as_mut().map_or(Poll::Pending, |it| it.poll_unpin(context)));
            this.whole_by = None;
            return Poll::Ready(Some(Err(Status::from(too_slow(this.patience)).into())));
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.data_ref().map(|part| this.follow(part)) {
                Some(Err(problem)) => Some(Err(Status::from(problem).into())),
                _ => Some(Ok(frame)),
            },
            Some(Err(error)) => Some(Err(error.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl hyper::body::Body for Incoming {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

#[cfg(test)]
mod tests;
