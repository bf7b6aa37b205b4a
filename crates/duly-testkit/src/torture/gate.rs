//! Standing still, as after SIGSTOP, of those who live in this process: the webhook receiver and
//! the pull consumers.
//!
//! What the server sees is the same as of a stopped process: sockets stay open, the kernel accepts
//! and buffers, and nothing is answered until everything is at once. Whoever may stand still passes
//! its gate between any two of its steps. (The server itself is another process and gets the real
//! signal; see [`super::faults`].)

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use tokio::sync::watch;

use super::world::{Phase, World};
use crate::clock::now_us;
use crate::history::{Stop, Who};

/// How long somebody stands still, in milliseconds: mostly longer than a lease (1 to 3 s) and than
/// the server waits for a webhook (3 s).
const STILL_MS: std::ops::Range<u64> = 1_500..6_000;

/// Of so many stops in here one is the receiver's.
const RECEIVER_OF: f64 = 0.4;

/// Where somebody may have to wait.
#[derive(Debug)]
pub(super) struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Gate {
    /// Waits until it is open.
    pub(super) async fn pass(&self) {
        if !*self.0.borrow() {
            self.0.subscribe().wait_for(|open| *open).await.ok();
        }
    }

    fn set(&self, open: bool) {
        self.0.send_replace(open);
    }
}

/// How long the next one stands still.
pub(super) fn still(rng: &mut SmallRng) -> Duration {
    Duration::from_millis(rng.random_range(STILL_MS))
}

/// The time until the next of things that happen so often on average, at random.
pub(super) fn until_next(rng: &mut SmallRng, per_minute: f64) -> Duration {
    let mean_s = 60.0 / per_minute.max(1e-6);
    Duration::from_secs_f64((-(1.0 - rng.random::<f64>()).ln() * mean_s).min(1e6))
}

/// How often it is looked whether this process runs.
const PULSE: Duration = Duration::from_millis(100);

/// So long without a pulse, this process stood still.
const SILENCE: Duration = Duration::from_millis(700);

/// Notices when this process itself stood still, and with it the receivers: what the server gave up
/// then is explained by it. On a thread of its own, so that busy tasks are no silence; it ends when
/// the world does.
pub(super) fn watch_own_pulse(world: &Arc<World>) {
    let world = Arc::downgrade(world);
    std::thread::spawn(move || {
        let mut last_us = now_us();
        loop {
            std::thread::sleep(PULSE);
            let Some(world) = world.upgrade() else { return };
            if let Some(stop) = silence(last_us, now_us()) {
                world.recorder.stop(stop);
            }
            last_us = now_us();
        }
    });
}

/// The stop between two pulses, if there was one.
fn silence(last_us: u64, now_us: u64) -> Option<Stop> {
    let silent = Duration::from_micros(now_us.saturating_sub(last_us)) >= SILENCE;
    silent.then_some(Stop { who: Who::Run, from_us: last_us, to_us: now_us })
}

/// Has the receiver or a consumer stand still, so often on average, until the load ends.
pub(super) async fn stop_and_go(world: Arc<World>, stops_per_minute: f64) {
    let mut rng = world.rng(998);
    loop {
        if world.load_ends_within(until_next(&mut rng, stops_per_minute)).await {
            return;
        }
        let worker = rng.random_range(0..world.worker_gates.len());
        let (who, gate) = if rng.random_bool(RECEIVER_OF) {
            (Who::Receiver, &world.receiver_gate)
        } else {
            (Who::Worker, &world.worker_gates[worker])
        };
        let from_us = now_us();
        gate.set(false);
        world.load_ends_within(still(&mut rng)).await;
        gate.set(true);
        world.recorder.stop(Stop { who, from_us, to_us: now_us() });
        if world.phase() != Phase::Load {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_that_stays_away_is_a_stop_of_the_run() {
        assert!(silence(1_000, 1_000 + 650_000).is_none());
        assert!(silence(5_000, 1_000).is_none());
        let stop = silence(1_000, 9_001_000).unwrap();
        assert_eq!((stop.who, stop.from_us, stop.to_us), (Who::Run, 1_000, 9_001_000));
    }
}
