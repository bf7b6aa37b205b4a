//! The health of a node.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use duly_core::NamespaceName;

/// The health of a node; available at once, also while its store is busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealth {
    /// Each loop with the time since its last iteration. Shard loops, watchdog and auditor iterate every
    /// few seconds, except during a store call. Settlers are listed only while they have unsettled
    /// verdicts, and iterate at every store call.
    pub loops: Vec<LoopHealth>,
    /// Lease calls that wait.
    pub waiters: usize,
    /// Push attempts under way, including those not yet settled.
    pub deliveries_in_flight: usize,
    /// Verdicts that the store has not accepted yet.
    pub unsettled: usize,
    /// `true`: the node has stopped claiming.
    pub draining: bool,
    /// Loops, calls and deliveries that stalled or failed and were restarted, since the start.
    pub restarts: u64,
    /// Lanes with due firings that made no progress at the last two audits; names of a few of them.
    pub neglected: Vec<String>,
    /// Namespaces with due firings and no consumer that leases them; a few of them.
    pub unleased: Vec<NamespaceName>,
    /// Time since the last acknowledged heartbeat. Set while the node may start nothing, because the
    /// other nodes cannot know that it is alive.
    pub cut_off_for: Option<Duration>,
    /// Names of members of an older version. Until they have left, this node starts nothing. It is ready
    /// all the same, so that a rolling upgrade continues.
    pub waits_for: Vec<String>,
}

/// One loop of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopHealth {
    /// Name of the loop.
    pub name: String,
    /// Time since the loop's last iteration.
    pub idle_for: Duration,
}

/// The progress of one loop: the number of its iterations, and the time of the last one by the boot-time
/// clock.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    last_ms: AtomicU64,
    iterations: AtomicU64,
}

impl LoopProgress {
    /// Creates the progress of a loop that starts now.
    pub(crate) fn started(boot: Duration) -> Self {
        let iterations = Self::default();
        iterations.record_iteration(boot);
        iterations
    }

    pub(crate) fn record_iteration(&self, boot: Duration) {
        let ms = u64::try_from(boot.as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
        self.iterations.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of iterations.
    pub(crate) fn iterations(&self) -> u64 {
        self.iterations.load(Ordering::Relaxed)
    }

    pub(crate) fn idle_for(&self, boot: Duration) -> Duration {
        boot.saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }
}
