//! What of a request has not left yet.
//!
//! A receiver can answer before it has read the request: the exchange is over then, but the client
//! still holds the payload and goes on sending it. So the body is given out with an [`Unsent`] that
//! sees its last byte go. A connection that still holds one when its attempt ends is not used again,
//! and an HTTP/2 connection that others go on using holds no more than a bounded number of such bytes
//! (see `connection`). Called by `request`, `exchange` and the sink itself.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::{Instant, timeout_at},
};

/// How long a connection whose exchange is over has to send what is left of its request.
pub(super) const FLUSHED_WITHIN: Duration = Duration::from_millis(100);

/// The body of a request that the client still holds, or not.
#[derive(Debug)]
pub(super) struct Unsent {
    payload_bytes: usize,
    held: oneshot::Receiver<Infallible>,
}

/// Bytes that say when the last holder lets go of them.
struct Held {
    bytes: Bytes,
    _held: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Unsent {
    /// The same bytes, uncopied, and what watches them.
    pub(super) fn watch(bytes: Bytes) -> (Bytes, Self) {
        let (holding, held) = oneshot::channel();
        let payload_bytes = bytes.len();
        let bytes = Bytes::from_owner(Held { bytes, _held: holding });
        (bytes, Self { payload_bytes, held })
    }

    /// Waits until the client has let go of all bytes; `false` where it holds them at `until`.
    pub(super) async fn is_gone_by(&mut self, until: Instant) -> bool {
        self.is_gone() || timeout_at(until, &mut self.held).await.is_ok()
    }

    pub(super) fn is_gone(&mut self) -> bool {
        matches!(self.held.try_recv(), Err(TryRecvError::Closed))
    }

    pub(super) const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }
}
