//! The bytes that come in: no message is larger than it may be, what has arrived of one counts against
//! the memory of bodies, and one that has begun is not waited for longer than a body (P10).
//!
//! A message that announces too much is refused before any of it is kept. Its share is given back
//! when more is asked for behind it, which is when it has been dealt with, or when nothing is read any
//! more: a stream between two messages has none. The library that reads them keeps its buffer for the
//! next one, though; where that is more than a little it goes on counting until whoever reads the
//! stream lets go of the buffer ([`Incoming`]).
//!
//! The first message of a stream has its time from the head of the call on, each later one from its
//! first byte: a stream may rest between two of them for as long as it likes. Other calls have a time
//! limit as a whole.

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
/// Bytes of a message of a probe: a name, with room to spare.
const PROBE_BYTES_MAX: usize = 4 * 1024;
/// Bytes that the library may keep of a message for the next one without their being counted.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Bounds the messages of a call to `method`, which count against `budget`.
pub(super) fn bounded(app: &App, method: &Known, budget: &Budget, request: Request) -> Request {
    // Whoever asks for descriptors and never ends would hold up a stop.
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

/// What comes in over a stream, beside what reads it; cheap to clone.
#[derive(Clone)]
pub(super) struct Incoming(Arc<Mutex<Inbound>>);

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl Incoming {
    /// Whether the library holds a large buffer and, after so many messages, nothing in it.
    pub(super) fn is_kept_for_nothing(&self, messages: u64) -> bool {
        let inbound = self.0.lock();
        let Messages { begun, largest, .. } = inbound.messages;
        largest > KEPT_BYTES_MAX && inbound.messages.is_between() && begun == messages
    }

    /// The library has let go of its buffer.
    pub(super) fn forget(&self) {
        let messages = &mut self.0.lock().messages;
        messages.largest = 0;
        messages.let_go();
    }

    /// Most bytes of a message.
    pub(super) fn bytes_max(&self) -> usize {
        self.0.lock().messages.bounds.bytes_max
    }
}

struct Inbound {
    inner: Body,
    messages: Messages,
    stopping: Option<BoxFuture<'static, ()>>,
    patience: Duration,
    /// By when the message under way must be whole.
    whole_by: Option<Pin<Box<Sleep>>>,
}

/// What a message may be.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    bytes_max: usize,
    /// What to do with one that is larger.
    instead: &'static str,
}

/// Where in the messages of a request its bytes are.
struct Messages {
    share: Share,
    bounds: Bounds,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that are here, and that are to come.
    here: usize,
    to_come: usize,
    /// Messages that have begun.
    begun: u64,
    /// Bytes of the largest one so far.
    largest: usize,
}

impl Messages {
    fn new(share: Share, bounds: Bounds) -> Self {
        let head = [0; HEAD_BYTES];
        Self { share, bounds, head, head_bytes: 0, here: 0, to_come: 0, begun: 0, largest: 0 }
    }

    /// Whether no message is under way.
    const fn is_between(&self) -> bool {
        self.to_come == 0 && self.head_bytes == 0
    }

    /// Gives back what the last message took, but not what is kept of it.
    fn let_go(&mut self) {
        self.here = 0;
        let kept = if self.largest > KEPT_BYTES_MAX { self.largest } else { 0 };
        self.share.shrink_to(kept);
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
    /// Follows a part, and the clock of the message that it ends in.
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
            // What is here already counts as in time: whoever reads may have been held up.
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
