//! Options of a node.

use std::time::Duration;

use crate::{ReasonLimit, Traces};

/// Limits and times of a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the node, for operators who look at the deployment.
    pub name: String,
    /// Push attempts under way at once, over all lanes.
    pub workers_max: usize,
    /// Bytes of payload and headers of push attempts under way, over all lanes.
    pub bytes_max: u64,
    /// Lease calls that may wait at once, over all namespaces.
    pub pull_waiters_max: usize,
    /// Time that a drain gives attempts under way to finish.
    pub drain_timeout: Duration,
    /// Time without progress after which a loop, a store call or a delivery past its time-out is
    /// stopped, restarted and reported. The time-out of a call that settles doubles with each try.
    pub stall_after: Duration,
    /// Time between two audits: searches for lanes that have due firings and make no progress.
    pub audit_every: Duration,
    /// Most firings in one push claim.
    pub claim_batch_max: usize,
    /// Most bytes of payload and headers in one push claim.
    pub claim_bytes_max: u64,
    /// Creates the spans of timers.
    pub traces: Traces,
    /// The namespaces that may keep further reasons of failed attempts.
    pub reasons: ReasonLimit,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "node".to_owned(),
            workers_max: 1024,
            bytes_max: 256 * 1024 * 1024,
            pull_waiters_max: 10_000,
            drain_timeout: Duration::from_secs(25),
            stall_after: Duration::from_secs(10),
            audit_every: Duration::from_secs(10),
            claim_batch_max: 256,
            claim_bytes_max: 8 * 1024 * 1024,
            traces: Traces::default(),
            reasons: ReasonLimit::default(),
        }
    }
}
