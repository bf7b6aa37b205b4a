//! What the loops and handles of one node have in common.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{env::Clock, shard::ShardId};
use duly_sink::Sink;
use duly_store::{Lane, Store};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::{
    Options,
    health::LoopTurns,
    lanes::{Lanes, Permit, Reception},
    log_limit::LogLimit,
    nodes::Nodes,
    phase::Phases,
    pull::Pull,
    record::Recorder,
    settler::Entry,
    waker::Waker,
    watchdog::Watch,
};

/// One node: its ports, its decisions, its bells.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    /// The other nodes, and by which run this one claims.
    pub(crate) nodes: Nodes,
    pub(crate) lanes: Mutex<Lanes>,
    /// Rung when a part of a lane's limits is to be asked for now.
    pub(crate) asks: Notify,
    pub(crate) pull: Pull,
    pub(crate) phases: Phases,
    pub(crate) bells: Arc<[Bell]>,
    pub(crate) waker: Box<dyn Waker>,
    /// By shard; bounded by the workers and by what consumers have leased.
    pub(crate) settlers: Vec<mpsc::UnboundedSender<Entry>>,
    /// Verdicts that the store has not taken yet, by shard.
    pub(crate) unsettled: Vec<AtomicUsize>,
    /// Rung when a slot is freed or a verdict is taken: a drain waits for it.
    pub(crate) quieter: Notify,
    pub(crate) recorder: Recorder,
    pub(crate) failed_attempts: LogLimit,
    pub(crate) store_errors: LogLimit,
    pub(crate) shard_beats: Vec<LoopTurns>,
    pub(crate) settler_beats: Vec<LoopTurns>,
    pub(crate) watchdog_beat: LoopTurns,
    pub(crate) auditor_beat: LoopTurns,
    pub(crate) watch: Watch,
}

impl Shared {
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.store.shards()).map(ShardId)
    }

    pub(crate) fn bell(&self, shard: ShardId) -> &Bell {
        &self.bells[usize::from(shard.0)]
    }

    /// Verdicts that the store has not taken yet.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn ring_all(&self) {
        for bell in self.bells.iter() {
            bell.ring_due();
        }
    }

    /// Frees a slot, and rings where somebody waits for one.
    pub(crate) fn free(&self, lane: &Lane, permit: Permit) {
        let woken = self.lanes.lock().free(lane, permit, self.clock.boot());
        for shard in woken {
            self.bell(shard).ring_freed();
        }
        self.quieter.notify_waiters();
    }

    /// Tells a lane how an attempt went, and rings where that lets others begin.
    pub(crate) fn report(&self, lane: &Lane, permit: Permit, reception: Reception) {
        let woken = self.lanes.lock().report(lane, permit, reception, self.clock.boot());
        for shard in woken {
            self.bell(shard).ring_freed();
        }
    }

    /// The loop of a shard makes progress.
    pub(crate) fn shard_turned(&self, shard: ShardId) {
        self.shard_beats[usize::from(shard.0)].turn(self.clock.boot());
    }

    /// Says that a call to the store failed, at most a few times a minute.
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

/// What wakes the loop of a shard. A ring is never lost: it waits for the loop.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    due: AtomicBool,
    timed: AtomicBool,
    rung: Notify,
}

impl Bell {
    /// Something may be claimable now.
    pub(crate) fn ring_due(&self) {
        self.due.store(true, Ordering::Release);
        self.rung.notify_one();
    }

    /// A time has come at which somebody wanted to look.
    pub(crate) fn ring_timed(&self) {
        self.timed.store(true, Ordering::Release);
        self.rung.notify_one();
    }

    /// A lane that waited may have a slot now.
    pub(crate) fn ring_freed(&self) {
        self.rung.notify_one();
    }

    /// Whether the store is to be asked; answers once for any number of rings.
    pub(crate) fn take_due(&self) -> bool {
        self.due.swap(false, Ordering::AcqRel)
    }

    /// Whether it was rung by the clock.
    pub(crate) fn take_timed(&self) -> bool {
        self.timed.swap(false, Ordering::AcqRel)
    }

    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }
}

/// The wall time that lies `after` from now.
pub(crate) fn wall_after(clock: &dyn Clock, after: Duration) -> Duration {
    clock.wall().saturating_add(after)
}
