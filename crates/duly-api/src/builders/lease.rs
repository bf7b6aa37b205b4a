//! Lease requests and settlements.

use crate::{Ack, DeadVerdict, Duration, ExtendVerdict, LeaseRequest, RetryVerdict, Settlement};

impl LeaseRequest {
    /// Returns a request for at most this many firings.
    pub fn up_to(max: u32) -> Self {
        Self { max: Some(max), ..Self::default() }
    }

    /// Sets the most bytes of payloads and headers.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes: Some(max_bytes), ..self }
    }

    /// Sets the length of the lease.
    #[must_use]
    pub fn with_lease(self, lease: impl Into<Duration>) -> Self {
        Self { lease: Some(lease.into()), ..self }
    }

    /// Sets the time to wait for the first firing.
    #[must_use]
    pub fn with_wait(self, wait: impl Into<Duration>) -> Self {
        Self { wait: Some(wait.into()), ..self }
    }
}

impl Settlement {
    /// Returns the verdict that the firing is delivered.
    pub fn ack(token: impl Into<String>) -> Self {
        Self { token: token.into(), ack: Some(Ack {}), ..Self::default() }
    }

    /// Returns the verdict that the firing is to be tried again.
    pub fn retry(token: impl Into<String>, retry: RetryVerdict) -> Self {
        Self { token: token.into(), retry: Some(retry), ..Self::default() }
    }

    /// Returns the verdict that the firing is never to be tried again.
    pub fn dead(token: impl Into<String>, reason: impl Into<String>) -> Self {
        let dead = Some(DeadVerdict { reason: reason.into() });
        Self { token: token.into(), dead, ..Self::default() }
    }

    /// Returns an extension of the lease to `lease` from now.
    pub fn extend(token: impl Into<String>, lease: impl Into<Duration>) -> Self {
        let extend = Some(ExtendVerdict { lease: Some(lease.into()) });
        Self { token: token.into(), extend, ..Self::default() }
    }
}
