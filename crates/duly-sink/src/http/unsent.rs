//! Detects requests that are not completely sent.
//!
//! A receiver can answer before it has read the request. Then the exchange is over, but the client still
//! holds the payload and continues to send it. So each body comes with an [`Unsent`] that detects when
//! its last byte was sent. If a body is not completely sent when its attempt ends:
//!
//! 1. The connection is not used again.
//! 2. An HTTP/2 connection that other exchanges still use may hold a bounded number of such bytes (see
//!    `connection`).
//!
//! Used by `request`, `exchange` and the sink itself.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::{Instant, timeout_at},
};

/// Time for which a connection whose exchange is over may send the rest of its request.
pub(super) const FLUSHED_WITHIN: Duration = Duration::from_millis(100);

/// A watch on a request body: detects whether the client still holds it.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) payload_bytes: usize,
    held: oneshot::Receiver<Infallible>,
}

/// Bytes that signal when their last holder drops them.
struct WatchedBytes {
    bytes: Bytes,
    _held: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for WatchedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Unsent {
    /// Wraps the bytes, without a copy, and returns the watch on them.
    pub(super) fn watch(bytes: Bytes) -> (Bytes, Self) {
        let (holding, held) = oneshot::channel();
        let payload_bytes = bytes.len();
        let bytes = Bytes::from_owner(WatchedBytes { bytes, _held: holding });
        (bytes, Self { payload_bytes, held })
    }

    /// Waits until the client has dropped all bytes; returns `false` if it still holds some at `until`.
    pub(super) async fn is_sent_by(&mut self, until: Instant) -> bool {
        self.is_sent() || timeout_at(until, &mut self.held).await.is_ok()
    }

    pub(super) fn is_sent(&mut self) -> bool {
        matches!(self.held.try_recv(), Err(TryRecvError::Closed))
    }
}
