//! The watchdog: restarts a loop that stalls or panics, counts the restart and logs it.
//!
//! How it works:
//!
//! 1. Each loop counts its iterations. [`MISSES_MAX`] times in [`crate::Options::stall_after`] the
//!    watchdog checks the counts.
//! 2. It notifies a loop that has made no progress since the last check. So a lost wake-up costs no more
//!    than the time between two checks.
//! 3. It stops and restarts a loop that made no progress at [`MISSES_MAX`] checks in a row.
//! 4. It counts checks and reads no clock. So a machine that slept, or a server that was stopped for a
//!    while, raises no alarm.
//! 5. The waker thread is watched in the same way: the watchdog requests a wake-up between two checks.
//!
//! Calls of the settler and deliveries have time-outs of their own. The watchdog itself is restarted if
//! it panics, like every loop. A loop that no restart helps is shown in `/readyz` as stalled.

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

/// Pause before a loop that panicked is restarted.
const RESTART_AFTER: Duration = Duration::from_millis(100);
/// Checks without progress after which a loop is stopped.
const MISSES_MAX: u32 = 4;

/// The findings of watchdog and auditor, and the notifiers that stop stalled loops.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    restarts: AtomicU64,
    /// By shard: notified when its loop must be stopped and restarted.
    pub(crate) stalled: Vec<Arc<Notify>>,
    /// Names of lanes with due firings that make no progress.
    pub(crate) neglected: Mutex<Vec<String>>,
    /// Namespaces with due firings and no consumer that leases them.
    pub(crate) unleased: Mutex<Vec<NamespaceName>>,
}

impl Watch {
    pub(crate) fn new(shards: u16) -> Self {
        Self { stalled: (0..shards).map(|_| Arc::default()).collect(), ..Self::default() }
    }

    /// Counts and logs a restart.
    pub(crate) fn restarted(&self, what: &str, why: &str) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        metrics::counter!(metric_names::WATCHDOG_RESTARTS_TOTAL).increment(1);
        tracing::error!(what, why, "node task restarted");
    }

    /// Returns the number of restarts.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// The last known iteration count of one loop, and its misses in a row.
#[derive(Debug, Default)]
struct Watched {
    iterations: u64,
    misses: u32,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq)]
enum CheckResult {
    Progressed,
    Missed,
    Stalled,
}

impl Watched {
    fn check(&mut self, iterations: u64) -> CheckResult {
        if std::mem::replace(&mut self.iterations, iterations) != iterations {
            self.misses = 0;
            return CheckResult::Progressed;
        }
        self.misses += 1;
        if self.misses < MISSES_MAX {
            return CheckResult::Missed;
        }
        self.misses = 0;
        CheckResult::Stalled
    }
}

/// Spawns `run` and restarts it each time it panics or `stalled` is notified. Supervision ends when
/// `run` returns.
///
/// A loop that stalls inside a call that never yields cannot be stopped at once. It ends at its next
/// `await`; its replacement does not wait for that.
pub(crate) fn supervise<F, R>(
    name: impl Into<String>,
    shared: &Arc<Shared>,
    stalled: Arc<Notify>,
    run: F,
) where
    F: Fn(Arc<Shared>) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (name, shared) = (name.into(), Arc::clone(shared));
    tokio::spawn(async move {
        loop {
            let mut task = tokio::spawn(run(Arc::clone(&shared)));
            tokio::select! {
                ended = &mut task => match ended {
                    Err(failure) if failure.is_panic() => {
                        shared.watch.restarted(&name, "panicked");
                        tokio::time::sleep(RESTART_AFTER).await;
                    }
                    _ => return,
                },
                () = stalled.notified() => {
                    shared.watch.restarted(&name, "made no progress");
                    task.abort();
                }
            }
        }
    });
}

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let every = (shared.options.stall_after / MISSES_MAX).max(Duration::from_millis(1));
    let mut loops: Vec<Watched> = shared.shards().map(|_| Watched::default()).collect();
    let mut waker = Watched::default();
    while shared.phases.now() == Phase::Running {
        shared.watchdog_progress.record_iteration(shared.clock.boot());
        for (shard, watched) in (0_u16..).map(ShardId).zip(&mut loops) {
            let at = usize::from(shard.0);
            match watched.check(shared.shard_progress[at].iterations()) {
                CheckResult::Progressed => {}
                CheckResult::Missed => shared.notifier(shard).notify_due(),
                CheckResult::Stalled => shared.watch.stalled[at].notify_one(),
            }
        }
        if let Some(iterations) = shared.waker.iterations()
            && waker.check(iterations) == CheckResult::Stalled
        {
            shared.watch.restarted("the waker thread", "made no progress");
            if let Err(error) = shared.waker.restart() {
                tracing::error!(
                    %error,
                    "waker thread cannot be restarted, will retry; timers may be a few seconds late"
                );
            }
        }
        // A loop that hangs or may not claim requests no wake-up. So the watchdog requests one: the
        // waker makes progress before the next check.
        shared.waker.wake_by(ShardId(0), wall_after(&*shared.clock, every / 2));
        shared.phases.sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t27_only_consecutive_misses_are_a_stall() {
        let mut watched = Watched::default();
        let checks = [1, 1, 1, 1, 2, 2, 2, 2, 2, 2].map(|iterations| watched.check(iterations));
        let expected = [
            CheckResult::Progressed,
            CheckResult::Missed,
            CheckResult::Missed,
            CheckResult::Missed,
            CheckResult::Progressed,
            CheckResult::Missed,
            CheckResult::Missed,
            CheckResult::Missed,
            CheckResult::Stalled,
            CheckResult::Missed,
        ];
        assert_eq!(checks, expected);
    }
}
