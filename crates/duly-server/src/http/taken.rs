//! Whether the caller of a connection takes its answers, and whether it wants anything at all.
//!
//! HTTP/2 has windows: a caller that opens none leaves no write waiting, and its answers would hold
//! the memory of bodies for ever. So each connection knows what is with its caller, answers that are
//! ready to be taken and parts that are not written yet, and closes when too little of that goes.
//!
//! ```text
//!   answer made ──► with the caller ──► asked for more ──► more is being made: with us, no clock
//!                         ▲                                       │
//!                         └───────────────────────────────────────┘
//! ```
//!
//! While anything is with the caller, its time runs out. Each byte that is let go gives some of it
//! back, up to the whole time; when nothing is left the connection is to be closed.
//!
//! A call is under way from its head to the last part of its answer that is let go: a lease call that
//! waits is, a stream of lines is. A connection without one rests, and is closed after a while: over
//! HTTP/2 it could keep its place for ever by answering pings.

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

/// Bytes a second that a caller must take in the long run.
const BYTES_PER_SECOND_MIN: u32 = 16 * 1024;
/// Bytes that are let go at once: what is less of a long answer does not show as taken.
const PART_BYTES_MAX: usize = 64 * 1024;

/// What is with the caller of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Taken(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    patience: Duration,
    clock: Mutex<Clock>,
    /// Something is with the caller, and nobody watches.
    begun: Notify,
}

#[derive(Debug)]
struct Clock {
    /// Calls under way.
    calls: usize,
    /// Since when there has been no call and nothing with the caller, if so it is.
    rests_since: Instant,
    /// Things that are with the caller.
    count: usize,
    /// When its time is over, if there is anything.
    until: Instant,
    watch: Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// Wants to be told when something begins.
    Rests,
    /// Looks at the clock by itself.
    Runs,
}

impl Taken {
    /// A connection whose caller may take nothing for so long.
    pub(crate) fn new(patience: Duration) -> Self {
        let now = Instant::now();
        let watch = Watch::Runs;
        let clock = Clock { calls: 0, rests_since: now, count: 0, until: now, watch };
        let clock = Mutex::new(clock);
        Self(Arc::new(Inner { patience, clock, begun: Notify::new() }))
    }

    /// Done when the caller has taken too little for too long.
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

    /// Done when nothing has been under way for so long, all of it after `from`.
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

    /// A call has come.
    pub(crate) fn begin(&self) -> UnderWay {
        self.0.clock.lock().calls += 1;
        UnderWay(self.clone())
    }

    /// Watches an answer until the last of it is let go.
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

/// A call that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Taken);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut clock = self.0.0.clock.lock();
        clock.calls -= 1;
        clock.rests_since = Instant::now();
    }
}

/// Something that is with the caller until this is dropped.
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

/// A part of an answer that is with the caller.
struct Part {
    bytes: Bytes,
    _given: Given,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer under watch, in parts.
struct Watched {
    inner: Body,
    /// What is made already and not asked for.
    rest: Bytes,
    call: UnderWay,
    /// Until the connection asks for more, which it does when the caller has room for it.
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
        // Asked for, so what comes next is for us to make.
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
