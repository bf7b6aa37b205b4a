//! The bytes that come in: no message is larger than it may be, and what has arrived of one counts
//! against the memory of bodies (P10).
//!
//! A message that announces too much is refused before any of it is kept. Its share is given back
//! when the next message begins, or when nothing is read any more.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use duly_core::Code;
use futures::{FutureExt, future::BoxFuture};
use hyper::body::{Frame, SizeHint};
use tonic::Status;

use super::message_bytes_max;
use crate::http::{
    App, Problem,
    budget::{Budget, Share},
};

/// Bytes in front of each message: a flag and its length.
const HEAD_BYTES: usize = 5;

/// Bounds the messages of a request, which count against `budget`.
pub(super) fn bounded(app: &App, budget: &Budget, request: Request) -> Request {
    // Whoever asks for descriptors and never ends would hold up a stop.
    let ends_at_stop = request.uri().path().starts_with("/grpc.reflection.");
    let stopping = ends_at_stop.then(|| {
        let app = app.clone();
        async move { app.stopping().await }.boxed()
    });
    let messages = Messages::new(budget.share(), message_bytes_max(app));
    request.map(|inner| Body::new(Inbound { inner, messages, stopping }))
}

struct Inbound {
    inner: Body,
    messages: Messages,
    stopping: Option<BoxFuture<'static, ()>>,
}

/// Where in the messages of a request its bytes are.
struct Messages {
    share: Share,
    bytes_max: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that are here, and that are to come.
    here: usize,
    to_come: usize,
}

impl Messages {
    fn new(share: Share, bytes_max: usize) -> Self {
        Self { share, bytes_max, head: [0; HEAD_BYTES], head_bytes: 0, here: 0, to_come: 0 }
    }

    /// Follows the bytes of a part.
    fn follow(&mut self, mut part: &[u8]) -> Result<(), Problem> {
        while !part.is_empty() {
            if self.to_come == 0 {
                part = self.follow_head(part)?;
                continue;
            }
            let count = part.len().min(self.to_come);
            self.here += count;
            self.to_come -= count;
            self.share.grow_to(self.here)?;
            part = &part[count..];
        }
        Ok(())
    }

    fn follow_head<'p>(&mut self, part: &'p [u8]) -> Result<&'p [u8], Problem> {
        if self.head_bytes == 0 {
            self.here = 0;
            self.share.shrink_to(0);
        }
        let count = part.len().min(HEAD_BYTES - self.head_bytes);
        let (of_head, rest) = part.split_at(count);
        self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(of_head);
        self.head_bytes += count;
        if self.head_bytes == HEAD_BYTES {
            self.head_bytes = 0;
            let [_, length @ ..] = self.head;
            self.to_come = u32::from_be_bytes(length) as usize;
            if self.to_come > self.bytes_max {
                return Err(too_large(self.to_come, self.bytes_max));
            }
        }
        Ok(rest)
    }
}

fn too_large(bytes: usize, bytes_max: usize) -> Problem {
    let allowed = format!("at most {bytes_max} bytes");
    let detail = format!(
        "a message must be {allowed}; this one has {bytes}: split the request, or raise \
         server.body_bytes_max, up to 32 MiB"
    );
    Problem::new(Code::RequestTooLarge, detail).at(
        "message",
        Some(format!("{bytes} bytes")),
        &allowed,
    )
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
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.data_ref().map(|part| this.messages.follow(part)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend_from_slice(&u32::try_from(bytes).unwrap().to_be_bytes());
        message.resize(HEAD_BYTES + bytes, 7);
        message
    }

    #[test]
    fn p10_a_message_counts_from_its_first_byte_to_the_next_message() {
        const MIB: usize = 1024 * 1024;
        let budget = Budget::new(MIB);
        let mut messages = Messages::new(budget.share(), MIB);
        let text = [message(700_000), message(0), message(10)].concat();
        for part in text.chunks(999) {
            messages.follow(part).unwrap();
        }
        assert!(budget.take(MIB - 10).is_err() && budget.take(60_000).is_ok());
        assert!(budget.take(MIB * 3 / 4 - 10).is_ok(), "the first one is given back");
        let other = budget.take(600_000).unwrap();
        let refused = messages.follow(&message(700_000)).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        drop((messages, other));
        assert!(budget.take(MIB * 3 / 4).is_ok());
    }

    #[test]
    fn p10_a_message_that_announces_too_much_is_refused_by_its_head() {
        let mut messages = Messages::new(Budget::new(1 << 20).share(), 1_000);
        messages.follow(&message(1_000)).unwrap();
        let head = message(1_001);
        messages.follow(&head[..4]).unwrap();
        let refused = messages.follow(&head[4..5]).unwrap_err();
        assert_eq!(refused.code(), Code::RequestTooLarge);
    }
}
