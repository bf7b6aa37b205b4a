//! Whether the caller of a connection takes its answers.
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
        let clock = Mutex::new(Clock { count: 0, until: Instant::now(), watch: Watch::Runs });
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

    /// Watches an answer until the last of it is let go.
    pub(crate) fn watch(&self, answer: Response) -> Response {
        if answer.body().is_end_stream() {
            return answer;
        }
        let waiting = Some(self.give(0));
        let taken = self.clone();
        answer.map(|inner| Body::new(Watched { inner, rest: Bytes::new(), taken, waiting }))
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
        let whole = Instant::now() + self.taken.0.patience;
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
    taken: Taken,
    /// Until the connection asks for more, which it does when the caller has room for it.
    waiting: Option<Given>,
}

impl Watched {
    fn part(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        self.rest = bytes.split_off(bytes.len().min(PART_BYTES_MAX));
        self.waiting = Some(self.taken.give(0));
        let _given = self.taken.give(bytes.len());
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
