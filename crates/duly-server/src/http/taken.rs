//! Detects slow readers and idle connections.
//!
//! A caller of HTTP/2 that opens no flow-control window leaves no write waiting, and its responses would
//! hold the request memory for ever. So each connection counts what waits for its caller: responses that
//! are ready, and parts that are not written yet.
//!
//! ```text
//!   response made ──► waits for the caller ──► more is polled ──► server makes more: no deadline
//!                            ▲                                       │
//!                            └───────────────────────────────────────┘
//! ```
//!
//! 1. While anything waits for the caller, the time until the deadline runs. Each written byte adds some
//!    time, up to the whole timeout. At the deadline the connection is closed.
//! 2. A call is under way from its head until the last part of its response is released: also a waiting
//!    lease call, and a stream of lines.
//! 3. A connection without a call is idle, and is closed after a while. Otherwise an HTTP/2 caller could
//!    keep its connection for ever by answering pings.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Bytes a second that a caller must read in the long run.
const BYTES_PER_SECOND_MIN: u32 = 16 * 1024;
/// Bytes of one part: of a long response, progress shows only in whole parts.
const PART_BYTES_MAX: usize = 64 * 1024;

/// The write progress of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Taken(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    patience: Duration,
    clock: Mutex<Clock>,
    /// Notified when something starts to wait for the caller and no task watches the deadline.
    begun: Notify,
}

#[derive(Debug)]
struct Clock {
    /// Calls under way.
    calls: usize,
    /// Start of the time without a call and without anything that waits for the caller.
    rests_since: Instant,
    /// Number of responses and parts that wait for the caller.
    count: usize,
    /// The deadline, if anything waits for the caller.
    until: Instant,
    watch: Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// The watching task waits for a notification.
    Rests,
    /// The watching task waits for the deadline.
    Runs,
}

impl Taken {
    /// Creates the progress of a connection; `patience` is its write timeout.
    pub(crate) fn new(patience: Duration) -> Self {
        let now = Instant::now();
        let watch = Watch::Runs;
        let clock = Clock { calls: 0, rests_since: now, count: 0, until: now, watch };
        let clock = Mutex::new(clock);
        Self(Arc::new(Inner { patience, clock, begun: Notify::new() }))
    }

    /// Waits until the caller has read too little for too long.
    pub(crate) async fn given_up(&self) {
        loop {
            let until = {
                let mut clock = self.0.clock.lock();
                clock.watch = if clock.count == 0 { Watch::Rests } else { Watch::Runs };
                (clock.count > 0).then_some(clock.until)
            };
            match until {
                None => self.0.begun.notified().await,
                Some(until) if until <= Instant::now() => return,
                Some(until) => sleep_until(until).await,
            }
        }
    }

    /// Waits until no call has been under way for `time`, all of it after `from`.
    pub(crate) async fn rested(&self, time: Duration, from: Instant) {
        loop {
            let now = Instant::now();
            let until = match self.0.clock.lock().rests_since() {
                Some(since) => since.max(from) + time,
                None => now + time,
            };
            if until <= now {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Counts a new call.
    pub(crate) fn begin(&self) -> UnderWay {
        self.0.clock.lock().calls += 1;
        UnderWay(self.clone())
    }

    /// Watches a response until its last part is released.
    pub(crate) fn watch(&self, answer: Response, call: UnderWay) -> Response {
        if answer.body().is_end_stream() {
            return answer;
        }
        let waiting = Some(self.give(0));
        answer.map(|inner| Body::new(Watched { inner, rest: Bytes::new(), call, waiting }))
    }

    fn give(&self, bytes: usize) -> Given {
        let mut clock = self.0.clock.lock();
        if clock.count == 0 {
            clock.until = Instant::now() + self.0.patience;
            if clock.watch == Watch::Rests {
                clock.watch = Watch::Runs;
                self.0.begun.notify_one();
            }
        }
        clock.count += 1;
        Given { taken: self.clone(), bytes }
    }
}

impl Clock {
    fn rests_since(&self) -> Option<Instant> {
        (self.calls == 0 && self.count == 0).then_some(self.rests_since)
    }
}

/// A call that is under way until this value is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Taken);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut clock = self.0.0.clock.lock();
        clock.calls -= 1;
        clock.rests_since = Instant::now();
    }
}

/// A response or part that waits for the caller until this value is dropped.
#[derive(Debug)]
struct Given {
    taken: Taken,
    bytes: usize,
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut clock = self.taken.0.clock.lock();
        clock.count -= 1;
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1).saturating_mul(bytes) / BYTES_PER_SECOND_MIN;
        clock.rests_since = Instant::now();
        let whole = clock.rests_since + self.taken.0.patience;
        clock.until = whole.min(clock.until + earned);
    }
}

/// A part of a response that waits for the caller.
struct Part {
    bytes: Bytes,
    _given: Given,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A watched response, in parts.
struct Watched {
    inner: Body,
    /// Bytes that are made and not polled yet.
    rest: Bytes,
    call: UnderWay,
    /// Held until the connection polls for more, which it does when the caller has capacity.
    waiting: Option<Given>,
}

impl Watched {
    fn part(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        self.rest = bytes.split_off(bytes.len().min(PART_BYTES_MAX));
        self.waiting = Some(self.call.0.give(0));
        let _given = self.call.0.give(bytes.len());
        Frame::data(Bytes::from_owner(Part { bytes, _given }))
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            let rest = std::mem::take(&mut this.rest);
            return Poll::Ready(Some(Ok(this.part(rest))));
        }
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        // Polled: the server now has to make the next part.
        this.waiting = None;
        polled.map(|frame| {
            Some(frame?.map(|frame| match frame.into_data() {
                Ok(bytes) => this.part(bytes),
                Err(trailers) => trailers,
            }))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests;
