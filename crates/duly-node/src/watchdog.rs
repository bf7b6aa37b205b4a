//! The watchdog: a loop that stands still is begun again, and somebody hears of it.
//!
//! Each loop counts its turns. A few times in [`crate::Options::stall_after`] the watchdog looks at
//! the counts: a loop that has not turned since the last look gets its bell rung, so a lost wake-up
//! costs no more than that; one that does not answer [`MISSES_MAX`] rings in a row is stopped and
//! begun again. It counts looks and reads no clock, so a machine that slept, or a server that was
//! stopped for a while, is no alarm. The thread that wakes the loops is watched in the same way: the
//! watchdog asks it to turn between two looks.
//!
//! Calls of the settler and deliveries have time-outs of their own, and a watchdog that dies is begun
//! again like every loop; what none of this helps stands in `/readyz` as a loop that stands still.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use duly_core::{NamespaceName, metric_names, shard::ShardId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    phase::Phase,
    state::{Shared, wall_after},
};

/// Looks without a turn after which a loop is stopped.
const MISSES_MAX: u32 = 4;

/// What watchdog and auditor have found, and the bells of the loops that they watch.
#[derive(Debug)]
pub(crate) struct Watch {
    restarts: AtomicU64,
    /// By shard: rung when its loop is to be stopped and begun again.
    pub(crate) stalled: Vec<Arc<Notify>>,
    /// Lanes that nobody works on, by name.
    pub(crate) neglected: Mutex<Vec<String>>,
    /// Namespaces with something due that nobody leases.
    pub(crate) unleased: Mutex<Vec<NamespaceName>>,
}

impl Watch {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            restarts: AtomicU64::new(0),
            stalled: (0..shards).map(|_| Arc::default()).collect(),
            neglected: Mutex::default(),
            unleased: Mutex::default(),
        }
    }

    /// Counts and says that something was begun again.
    pub(crate) fn restarted(&self, what: &str, why: &str) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        metrics::counter!(metric_names::WATCHDOG_RESTARTS_TOTAL).increment(1);
        tracing::error!(what, why, "node task restarted");
    }

    /// How often something was begun again.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// One thing whose turns are counted.
#[derive(Debug, Default)]
struct Watched {
    turns: u64,
    misses: u32,
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Turns,
    Missed,
    Stalled,
}

impl Watched {
    fn look(&mut self, turns: u64) -> Look {
        if std::mem::replace(&mut self.turns, turns) != turns {
            self.misses = 0;
            return Look::Turns;
        }
        self.misses += 1;
        if self.misses < MISSES_MAX {
            return Look::Missed;
        }
        self.misses = 0;
        Look::Stalled
    }
}

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let every = (shared.options.stall_after / MISSES_MAX).max(Duration::from_millis(1));
    let mut loops: Vec<Watched> = shared.shards().map(|_| Watched::default()).collect();
    let mut waker = Watched::default();
    while shared.phases.now() == Phase::Running {
        shared.watchdog_beat.turn(shared.clock.boot());
        for (shard, watched) in (0_u16..).map(ShardId).zip(&mut loops) {
            let at = usize::from(shard.0);
            match watched.look(shared.shard_beats[at].turns()) {
                Look::Turns => {}
                Look::Missed => shared.bell(shard).ring_due(),
                Look::Stalled => shared.watch.stalled[at].notify_one(),
            }
        }
        if let Some(turns) = shared.waker.turns()
            && waker.look(turns) == Look::Stalled
        {
            shared.watch.restarted("the waker", "made no progress");
            if let Err(error) = shared.waker.restart() {
                tracing::error!(%error, "the waker cannot be begun again");
            }
        }
        // Loops that hang, or may not act, ask nothing of the waker; by the next look it has turned.
        shared.waker.wake_by(ShardId(0), wall_after(&*shared.clock, every / 2));
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = shared.phases.reached(Phase::Draining) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t27_only_looks_without_a_turn_in_a_row_are_a_stall() {
        let mut watched = Watched::default();
        let looks = [1, 1, 1, 1, 2, 2, 2, 2, 2, 2].map(|turns| watched.look(turns));
        let expected = [
            Look::Turns,
            Look::Missed,
            Look::Missed,
            Look::Missed,
            Look::Turns,
            Look::Missed,
            Look::Missed,
            Look::Missed,
            Look::Stalled,
            Look::Missed,
        ];
        assert_eq!(looks, expected);
    }
}
