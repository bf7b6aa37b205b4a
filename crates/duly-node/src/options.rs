//! What a node can be told.

use std::time::Duration;

/// Limits and times of a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the node is called, for people who look at the deployment.
    pub name: String,
    /// Push attempts under way at once, over all lanes.
    pub workers_max: usize,
    /// Bytes of payload and headers of push attempts under way, over all lanes.
    pub bytes_max: u64,
    /// Lease calls that wait at once, over all namespaces.
    pub pull_waiters_max: usize,
    /// How long a drain lets attempts finish.
    pub drain_timeout: Duration,
    /// How long a loop, a call to the store or a delivery past its time-out may stand still before it
    /// is stopped, begun again and alarmed. A call that settles is waited for twice as long each time.
    pub stall_after: Duration,
    /// Time between two looks for lanes that have something due and that nobody works on.
    pub audit_every: Duration,
    /// Most firings of one push claim.
    pub claim_batch_max: usize,
    /// Most bytes of payload and headers of one push claim.
    pub claim_bytes_max: u64,
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
        }
    }
}
