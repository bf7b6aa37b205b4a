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
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::{Problem, message_bytes_max};
use crate::{
    memory::budget::{Budget, Reservation},
    operations::{CallKind, Operation, TimeLimit},
    service::App,
};

/// Bytes in front of each message: a flag and its length.
const HEAD_BYTES: usize = 5;
/// Most bytes of a message to a probe: a name, with space to spare.
const PROBE_BYTES_MAX: usize = 4 * 1024;
/// Bytes that the library may keep for the next message without being counted.
const UNCOUNTED_BUFFER_BYTES_MAX: usize = 16 * 1024;

/// Bounds the messages of a call of an operation, which count against `budget`.
pub(super) fn bounded(
    app: &App,
    operation: &Operation,
    budget: &Budget,
    request: Request,
) -> Request {
    // A reflection stream that never ends would delay a stop.
    let ends_at_stop = operation.kind == CallKind::Static;
    let stopping = ends_at_stop.then(|| {
        let app = app.clone();
        async move { app.stopping().await }.boxed()
    });
    let bounds = match operation.kind {
        CallKind::Probe | CallKind::Health | CallKind::Static => {
            MessageBounds { bytes_max: PROBE_BYTES_MAX, remedy: "ask for one name at a time" }
        }
        CallKind::Read | CallKind::Change => MessageBounds {
            bytes_max: message_bytes_max(app),
            remedy: "split the request, or raise server.body_bytes_max, up to 32 MiB",
        },
    };
    let messages = MessageCounter::new(budget.empty_reservation(), bounds);
    let request_timeout = app.limits.request_timeout;
    let is_stream = operation.time_limit == TimeLimit::Stream;
    let deadline = is_stream.then(|| Box::pin(sleep(request_timeout)));
    let (mut head, inner) = request.into_parts();
    let inbound = Inbound { inner, messages, stopping, request_timeout, deadline };
    let incoming = Incoming(Arc::new(Mutex::new(inbound)));
    if is_stream {
        head.extensions.insert(incoming.clone());
    }
    Request::from_parts(head, Body::new(incoming))
}

/// The incoming side of a call, shared with the reader of a stream; cheap to clone.
#[derive(Clone)]
pub(super) struct Incoming(Arc<Mutex<Inbound>>);

impl Incoming {
    /// Returns `true` if the library holds a large buffer that is empty after this number of messages.
    pub(super) fn holds_empty_buffer(&self, messages: u64) -> bool {
        let inbound = self.0.lock();
        let MessageCounter { begun, largest, .. } = inbound.messages;
        largest > UNCOUNTED_BUFFER_BYTES_MAX
            && inbound.messages.is_between_messages()
            && begun == messages
    }

    /// Notes that the library has released its buffer.
    pub(super) fn note_buffer_release(&self) {
        let messages = &mut self.0.lock().messages;
        messages.largest = 0;
        messages.release();
    }

    /// Returns the most bytes of a message.
    pub(super) fn bytes_max(&self) -> usize {
        self.0.lock().messages.bounds.bytes_max
    }
}

struct Inbound {
    inner: Body,
    messages: MessageCounter,
    stopping: Option<BoxFuture<'static, ()>>,
    request_timeout: Duration,
    /// Deadline of the incomplete message.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// The bounds of a message.
#[derive(Debug, Clone, Copy)]
struct MessageBounds {
    bytes_max: usize,
    /// The remedy for a larger message.
    remedy: &'static str,
}

/// The position of the received bytes in the messages of a request.
struct MessageCounter {
    reservation: Reservation,
    bounds: MessageBounds,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the message that have arrived, and that are missing.
    arrived: usize,
    missing: usize,
    /// Messages that have begun.
    begun: u64,
    /// Bytes of the largest message so far.
    largest: usize,
}

impl MessageCounter {
    fn new(reservation: Reservation, bounds: MessageBounds) -> Self {
        let head = [0; HEAD_BYTES];
        Self {
            reservation,
            bounds,
            head,
            head_bytes: 0,
            arrived: 0,
            missing: 0,
            begun: 0,
            largest: 0,
        }
    }

    /// Returns `true` if no message is incomplete.
    const fn is_between_messages(&self) -> bool {
        self.missing == 0 && self.head_bytes == 0
    }

    /// Releases the memory of the last message, but not that of a kept buffer.
    fn release(&mut self) {
        self.arrived = 0;
        let kept = if self.largest > UNCOUNTED_BUFFER_BYTES_MAX { self.largest } else { 0 };
        self.reservation.shrink_to(kept);
    }

    /// Counts the bytes of a part.
    fn count(&mut self, mut part: &[u8]) -> Result<(), Problem> {
        while !part.is_empty() {
            if self.missing == 0 {
                part = self.count_head(part)?;
                continue;
            }
            let bytes = part.len().min(self.missing);
            self.arrived += bytes;
            self.missing -= bytes;
            self.largest = self.largest.max(self.arrived);
            self.reservation.grow_to(self.arrived)?;
            part = &part[bytes..];
        }
        Ok(())
    }

    fn count_head<'p>(&mut self, part: &'p [u8]) -> Result<&'p [u8], Problem> {
        if self.head_bytes == 0 {
            self.begun += 1;
            self.release();
        }
        let bytes = part.len().min(HEAD_BYTES - self.head_bytes);
        let (of_head, rest) = part.split_at(bytes);
        self.head[self.head_bytes..self.head_bytes + bytes].copy_from_slice(of_head);
        self.head_bytes += bytes;
        if self.head_bytes == HEAD_BYTES {
            self.head_bytes = 0;
            let [_, length @ ..] = self.head;
            self.missing = u32::from_be_bytes(length) as usize;
            if self.missing > self.bounds.bytes_max {
                return Err(too_large(self.missing, self.bounds));
            }
        }
        Ok(rest)
    }
}

fn too_large(bytes: usize, bounds: MessageBounds) -> Problem {
    let MessageBounds { bytes_max, remedy } = bounds;
    let allowed = format!("at most {bytes_max} bytes");
    let detail = format!("a message must be {allowed}; this one has {bytes}: {remedy}");
    let seen = Some(format!("{bytes} bytes"));
    Problem::new(Code::RequestTooLarge, detail).at("message", seen, &allowed)
}

fn too_slow(request_timeout: Duration) -> Problem {
    let detail = format!(
        "the message was not complete within {} s (server.request_timeout): repeat the call, and \
         send each message without pauses",
        request_timeout.as_secs()
    );
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

impl Inbound {
    /// Counts a part, and sets the deadline of the message that it ends in.
    fn count(&mut self, part: &[u8]) -> Result<(), Problem> {
        let before = self.messages.begun;
        self.messages.count(part)?;
        if self.messages.is_between_messages() {
            self.deadline = None;
        } else if self.messages.begun != before && (before > 0 || self.messages.begun > 1) {
            self.deadline = Some(Box::pin(sleep(self.request_timeout)));
        }
        Ok(())
    }
}

impl hyper::body::Body for Incoming {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self.0.lock();
        if this.stopping.as_mut().is_some_and(|it| it.poll_unpin(context).is_ready()) {
            return Poll::Ready(None);
        }
        if this.messages.is_between_messages() {
            this.messages.release();
        }
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            // Bytes that are already here count as in time: the reader may have been delayed.
            ready!(this.deadline.as_mut().map_or(Poll::Pending, |it| it.poll_unpin(context)));
            this.deadline = None;
            return Poll::Ready(Some(Err(Status::from(too_slow(this.request_timeout)).into())));
        };
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(part) = frame.data_ref() {
                this.count(part).map_err(Status::from)?;
            }
            Ok(frame)
        }))
    }
}

#[cfg(test)]
mod tests;
