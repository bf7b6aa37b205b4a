//! Simulated stops, as after SIGSTOP, of tasks in this process: the webhook receiver and the
//! consumers.
//!
//! To the server they look like a stopped process: sockets stay open, the kernel accepts and
//! buffers, and all replies come at once after the stop. A task that can be stopped passes its gate
//! between any two of its steps. The server is another process and gets the real signal; see
//! [`super::faults`].

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::watch;

use super::world::{RunPhase, World};
use crate::clock::now_us;
use crate::history::{Stop, StoppedProcess};

/// Duration of a stop in milliseconds: mostly longer than a lease (1 to 3 s) and than the server's
/// time-out for webhooks (3 s).
const STOP_MS: std::ops::Range<u64> = 1_500..6_000;

/// Share of these stops that stop the receiver.
const RECEIVER_SHARE: f64 = 0.4;

/// A gate that a task waits at while it is stopped: `true` while it is closed.
#[derive(Debug, Default)]
pub(super) struct PauseGate(watch::Sender<bool>);

impl PauseGate {
    /// Waits until the gate is open.
    pub(super) async fn wait_until_open(&self) {
        self.0.subscribe().wait_for(|closed| !closed).await.ok();
    }
}

/// Returns a random duration of a stop.
pub(super) fn random_stop(rng: &mut SmallRng) -> Duration {
    Duration::from_millis(rng.random_range(STOP_MS))
}

/// Returns the random time until the next event of a kind with this average frequency.
pub(super) fn time_until_next(rng: &mut SmallRng, per_minute: f64) -> Duration {
    let mean_s = 60.0 / per_minute.max(1e-6);
    Duration::from_secs_f64((-(1.0 - rng.random::<f64>()).ln() * mean_s).min(1e6))
}

/// Time between two checks that this process runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time without a check after which this process counts as stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(700);

/// Detects stops of this process itself, and so of the receivers, and records them: they explain
/// webhooks that timed out. The checks have their own thread, so busy tasks do not count as a stop.
/// The thread ends with the world.
pub(super) fn watch_for_own_stops(world: &Arc<World>) {
    let world = Arc::downgrade(world);
    std::thread::spawn(move || {
        let mut last_us = now_us();
        loop {
            std::thread::sleep(CHECK_INTERVAL);
            let Some(world) = world.upgrade() else { return };
            if let Some(stop) = stop_between(last_us, now_us()) {
                world.recorder.stop(stop);
            }
            last_us = now_us();
        }
    });
}

/// Returns the stop between two checks, if there was one.
fn stop_between(last_us: u64, now_us: u64) -> Option<Stop> {
    let stopped = Duration::from_micros(now_us.saturating_sub(last_us)) >= STOPPED_AFTER;
    stopped.then_some(Stop { who: StoppedProcess::Run, from_us: last_us, to_us: now_us })
}

/// Stops the receiver or a consumer at random, with this average frequency, until the load ends.
pub(super) async fn inject_stops(world: Arc<World>, stops_per_minute: f64) {
    let mut rng = world.rng(998);
    loop {
        if world.load_ends_within(time_until_next(&mut rng, stops_per_minute)).await {
            return;
        }
        let consumer = rng.random_range(0..world.consumer_gates.len());
        let (who, gate) = if rng.random_bool(RECEIVER_SHARE) {
            (StoppedProcess::Receiver, &world.receiver_gate)
        } else {
            (StoppedProcess::Worker, &world.consumer_gates[consumer])
        };
        let from_us = now_us();
        gate.0.send_replace(true);
        world.load_ends_within(random_stop(&mut rng)).await;
        gate.0.send_replace(false);
        world.recorder.stop(Stop { who, from_us, to_us: now_us() });
        if world.phase() != RunPhase::Load {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_checks_count_as_a_stop_of_the_run() {
        assert!(stop_between(1_000, 1_000 + 650_000).is_none());
        assert!(stop_between(5_000, 1_000).is_none());
        let stop = stop_between(1_000, 9_001_000).unwrap();
        assert_eq!((stop.who, stop.from_us, stop.to_us), (StoppedProcess::Run, 1_000, 9_001_000));
    }
}
