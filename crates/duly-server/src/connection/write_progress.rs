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

use super::streams::OpenStream;

/// Bytes a second that a caller must read in the long run.
const BYTES_PER_SECOND_MIN: u32 = 16 * 1024;
/// Bytes of one part: of a long response, progress shows only in whole parts.
const PART_BYTES_MAX: usize = 64 * 1024;

/// The write progress of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WriteProgress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    write_timeout: Duration,
    state: Mutex<ProgressState>,
    /// Notified when something starts to wait for the caller and no task watches the deadline.
    write_began: Notify,
}

#[derive(Debug)]
struct ProgressState {
    /// Calls under way.
    calls: usize,
    /// Start of the time without a call and without anything that waits for the caller.
    idle_since: Instant,
    /// Number of responses and parts that wait for the caller.
    pending_writes: usize,
    /// The deadline, if anything waits for the caller.
    deadline: Instant,
    /// `true`: the watching task waits for the deadline; otherwise for a notification.
    watches_deadline: bool,
}

impl WriteProgress {
    /// Creates the progress of a connection; `write_timeout` is its write timeout.
    pub(crate) fn new(write_timeout: Duration) -> Self {
        let now = Instant::now();
        let state = ProgressState {
            calls: 0,
            idle_since: now,
            pending_writes: 0,
            deadline: now,
            watches_deadline: true,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Inner { write_timeout, state, write_began: Notify::new() }))
    }

    /// Waits until the caller has read too little for too long.
    pub(crate) async fn wait_for_write_timeout(&self) {
        loop {
            let deadline = {
                let mut state = self.0.state.lock();
                state.watches_deadline = state.pending_writes > 0;
                state.watches_deadline.then_some(state.deadline)
            };
            match deadline {
                None => self.0.write_began.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => sleep_until(deadline).await,
            }
        }
    }

    /// Waits until no call has been under way for `time`, all of it after `from`.
    pub(crate) async fn wait_for_idle_timeout(&self, time: Duration, from: Instant) {
        loop {
            let now = Instant::now();
            let deadline = match self.0.state.lock().idle_since() {
                Some(since) => since.max(from) + time,
                None => now + time,
            };
            if deadline <= now {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    /// Returns `true` while no call is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.state.lock().idle_since().is_some()
    }

    /// Counts a new call, and holds what its stream has reserved.
    pub(crate) fn begin_call(&self, stream: Option<OpenStream>) -> CallGuard {
        self.0.state.lock().calls += 1;
        CallGuard(Arc::new(CallInner { progress: self.clone(), _stream: stream }))
    }

    /// Watches a response until its last part is released.
    pub(crate) fn watch(&self, response: Response, call: CallGuard) -> Response {
        if response.body().is_end_stream() {
            return response;
        }
        let waiting = Some(self.begin_write(&call, 0));
        response.map(|inner| Body::new(WatchedBody { inner, rest: Bytes::new(), call, waiting }))
    }

    fn begin_write(&self, call: &CallGuard, bytes: usize) -> PendingWrite {
        let mut state = self.0.state.lock();
        if state.pending_writes == 0 {
            state.deadline = Instant::now() + self.0.write_timeout;
            if !std::mem::replace(&mut state.watches_deadline, true) {
                self.0.write_began.notify_one();
            }
        }
        state.pending_writes += 1;
        PendingWrite { call: call.clone(), bytes }
    }
}

impl ProgressState {
    fn idle_since(&self) -> Option<Instant> {
        (self.calls == 0 && self.pending_writes == 0).then_some(self.idle_since)
    }
}

/// A call that is under way until this value and all its copies are dropped.
#[derive(Debug, Clone)]
pub(crate) struct CallGuard(Arc<CallInner>);

#[derive(Debug)]
struct CallInner {
    progress: WriteProgress,
    _stream: Option<OpenStream>,
}

impl Drop for CallInner {
    fn drop(&mut self) {
        let mut state = self.progress.0.state.lock();
        state.calls -= 1;
        state.idle_since = Instant::now();
    }
}

/// A response or part that waits for the caller until this value is dropped.
#[derive(Debug)]
struct PendingWrite {
    call: CallGuard,
    bytes: usize,
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        let progress = &self.call.0.progress;
        let mut state = progress.0.state.lock();
        state.pending_writes -= 1;
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1).saturating_mul(bytes) / BYTES_PER_SECOND_MIN;
        state.idle_since = Instant::now();
        let whole = state.idle_since + progress.0.write_timeout;
        state.deadline = whole.min(state.deadline + earned);
    }
}

/// A part of a response that waits for the caller.
struct PendingPart {
    bytes: Bytes,
    _pending: PendingWrite,
}

impl AsRef<[u8]> for PendingPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A watched response, in parts.
struct WatchedBody {
    inner: Body,
    /// Bytes that are made and not polled yet.
    rest: Bytes,
    call: CallGuard,
    /// Held until the connection polls for more, which it does when the caller has capacity.
    waiting: Option<PendingWrite>,
}

impl WatchedBody {
    fn part(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        self.rest = bytes.split_off(bytes.len().min(PART_BYTES_MAX));
        let progress = &self.call.0.progress;
        self.waiting = Some(progress.begin_write(&self.call, 0));
        let _pending = progress.begin_write(&self.call, bytes.len());
        Frame::data(Bytes::from_owner(PendingPart { bytes, _pending }))
    }
}

impl hyper::body::Body for WatchedBody {
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
