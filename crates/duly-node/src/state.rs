//! The state that the loops and handles of one node share.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{env::Clock, shard::ShardId};
use duly_sink::{ReceiverHealth, Sink};
use duly_store::{Lane, Store};
use tokio::sync::{Notify, mpsc};

use crate::{
    Options,
    health::LoopProgress,
    lanes::{Permit, Pools},
    log_limit::LogLimit,
    nodes::{Nodes, ShardRole},
    phase::Phases,
    pull::Pull,
    recorder::Recorder,
    settler::UnsettledVerdict,
    waker::Waker,
    watchdog::Watch,
};

/// One node: its ports, its decisions and its notifiers.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    /// The other nodes, and the member id by which this one claims.
    pub(crate) nodes: Nodes,
    pub(crate) pools: Pools,
    /// Notified when a lane's quota request must be sent at once.
    pub(crate) urgent_requests: Notify,
    pub(crate) pull: Pull,
    pub(crate) phases: Phases,
    pub(crate) notifiers: Arc<[Notifier]>,
    pub(crate) waker: Box<dyn Waker>,
    /// Verdicts to settle, by shard; bounded by the workers and by the leases of consumers.
    pub(crate) settlers: Vec<mpsc::UnboundedSender<UnsettledVerdict>>,
    /// Verdicts that the store has not accepted yet, by shard.
    pub(crate) unsettled: Vec<AtomicUsize>,
    /// Notified when a slot is freed or a verdict is settled: a drain waits for it.
    pub(crate) drain_progress: Notify,
    pub(crate) recorder: Recorder,
    pub(crate) failed_attempts: LogLimit,
    pub(crate) store_errors: LogLimit,
    pub(crate) shard_progress: Vec<LoopProgress>,
    pub(crate) settler_progress: Vec<LoopProgress>,
    pub(crate) watchdog_progress: LoopProgress,
    pub(crate) auditor_progress: LoopProgress,
    pub(crate) watch: Watch,
}

impl Shared {
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.store.shards()).map(ShardId)
    }

    /// Returns the shards to which this node has `role`.
    pub(crate) fn shards_as(
        &self,
        role: ShardRole,
        now: Duration,
    ) -> impl Iterator<Item = ShardId> {
        self.shards().filter(move |shard| self.nodes.shard_role(*shard, now) == role)
    }

    pub(crate) fn notifier(&self, shard: ShardId) -> &Notifier {
        &self.notifiers[usize::from(shard.0)]
    }

    /// Returns the number of verdicts that the store has not accepted yet, over all shards.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn notify_all_shards(&self) {
        for notifier in self.notifiers.iter() {
            notifier.notify_due();
        }
    }

    /// Frees a slot, and notifies the shards that wait for one.
    pub(crate) fn free(&self, lane: &Lane, permit: Permit) {
        let woken = self.pools.webhooks().free(lane, permit, self.clock.boot());
        for shard in woken {
            self.notifier(shard).notify_slot_freed();
        }
        self.drain_progress.notify_waiters();
    }

    /// Reports the result of an attempt to the breaker of its lane, and notifies shards that may start
    /// more.
    pub(crate) fn report(&self, lane: &Lane, permit: Permit, health: ReceiverHealth) {
        let woken = self.pools.webhooks().report(lane, permit, health, self.clock.boot());
        for shard in woken {
            self.notifier(shard).notify_slot_freed();
        }
    }

    /// Records that the loop of a shard made progress.
    pub(crate) fn record_shard_iteration(&self, shard: ShardId) {
        self.shard_progress[usize::from(shard.0)].record_iteration(self.clock.boot());
    }

    /// Logs a failed store call; the rate of these log lines is limited.
    pub(crate) fn log_store_error(&self, operation: &str, error: &duly_store::Error) {
        if let Some(held_back) = self.store_errors.admit(self.clock.boot()) {
            tracing::warn!(operation, %error, held_back, "store call failed, will retry");
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The notifier of a shard's loop. A notification is stored until the loop takes it, so none is lost.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    due: AtomicBool,
    timed: AtomicBool,
    wake: Notify,
}

impl Notifier {
    /// Notifies the loop that something may be claimable now.
    pub(crate) fn notify_due(&self) {
        self.due.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Notifies the loop that a requested wake-up time has come.
    pub(crate) fn notify_timed(&self) {
        self.timed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Notifies the loop that a waiting lane may have a slot now.
    pub(crate) fn notify_slot_freed(&self) {
        self.wake.notify_one();
    }

    /// Returns `true` if the store must be polled; any number of notifications returns `true` once.
    pub(crate) fn take_due(&self) -> bool {
        self.due.swap(false, Ordering::AcqRel)
    }

    /// Returns `true` if the waker notified the loop since the last call.
    pub(crate) fn take_timed(&self) -> bool {
        self.timed.swap(false, Ordering::AcqRel)
    }

    pub(crate) async fn notified(&self) {
        self.wake.notified().await;
    }
}

/// Returns the wall time that is `after` from now.
pub(crate) fn wall_after(clock: &dyn Clock, after: Duration) -> Duration {
    clock.wall().saturating_add(after)
}
