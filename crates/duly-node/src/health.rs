//! How a node feels.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use duly_core::NamespaceName;

/// How a node feels; answered at once, also while its store is busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHealth {
    /// Each loop and when it last turned: those of shards, watchdog and auditor every few seconds but
    /// for a call to the store, settlers (named only while something is unsettled) at every such call.
    pub loops: Vec<LoopHealth>,
    /// Lease calls that wait.
    pub waiters: usize,
    /// Push attempts under way, those not yet settled included.
    pub deliveries_in_flight: usize,
    /// Verdicts that the store has not taken yet.
    pub unsettled: usize,
    /// Whether it has stopped claiming.
    pub draining: bool,
    /// Loops, calls and deliveries that stood still or broke and were begun again, since the start.
    pub restarts: u64,
    /// Lanes with something due that nobody worked on at the last two looks, a few of them by name.
    pub neglected: Vec<String>,
    /// Namespaces with something due that nobody leases, a few of them.
    pub unleased: Vec<NamespaceName>,
    /// Set while the node may begin nothing because no other can know that it is alive: how long ago it
    /// was last heard.
    pub cut_off_for: Option<Duration>,
    /// Names of nodes of an older version that are members still: until they have left the node begins
    /// nothing. It is ready all the same, so that a rolling upgrade goes on.
    pub waits_for: Vec<String>,
}

/// One loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopHealth {
    /// Its name.
    pub name: String,
    /// How long ago it last turned.
    pub idle_for: Duration,
}

/// The turns of one loop: how many, and when the last was by the boot-time clock.
#[derive(Debug, Default)]
pub(crate) struct LoopTurns {
    last_ms: AtomicU64,
    turns: AtomicU64,
}

impl LoopTurns {
    /// The turns of a loop that begins now.
    pub(crate) fn begun(boot: Duration) -> Self {
        let turns = Self::default();
        turns.turn(boot);
        turns
    }

    pub(crate) fn turn(&self, boot: Duration) {
        let ms = u64::try_from(boot.as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has turned.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    pub(crate) fn idle_for(&self, boot: Duration) -> Duration {
        boot.saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }
}
