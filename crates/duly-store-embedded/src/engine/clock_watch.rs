//! The clock watch: detects steps of the wall clock against the boot-time clock.
//!
//! Due times follow the wall clock. So a step of it makes timers early or late, although Duly works as it
//! should.
//!
//! 1. A clock that is slewed, as NTP does, is no step: between two checks it moves far less.
//! 2. A machine that slept is no step: the boot-time clock includes the sleep.
//! 3. A clock that is ahead by more than a minute, compared with the time when the store was opened, has
//!    jumped. It can make the timers of a year due at once. [`OnClockJump`] says what the store does: the
//!    timers fire like all that are due, or the store continues by the old time until the clock is back,
//!    however it gets there. A restart takes the clock as it is.
//!
//! Called at the beginning of a step.

use duly_core::{Millis, metric_names};

use crate::{clock::Times, options::OnClockJump};

use super::Engine;

/// Difference from one check to the next from which the wall clock counts as stepped.
const STEP_MS: u64 = 1_000;
/// Lead of the wall clock above which it counts as jumped.
const JUMP_MS: i64 = 60_000;

/// Observations since startup. Each is a lead of the wall clock over the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// Lead at the last check.
    last_ms: Option<i64>,
    /// Lead without the steps.
    usual_ms: i64,
    /// Lead over `usual_ms`, if it is a jump.
    jumped_ms: Option<u64>,
}

impl ClockWatch {
    /// Checks the clocks; counts and logs a step. Returns the time to use, if it is not that of the wall
    /// clock.
    fn check(&mut self, wall_ms: u64, boot_ms: u64, on_jump: OnClockJump) -> Option<u64> {
        let ahead_ms = wall_ms.cast_signed() - boot_ms.cast_signed();
        let last_ms = self.last_ms.replace(ahead_ms);
        let moved_ms = ahead_ms - last_ms.unwrap_or(ahead_ms);
        let is_step = moved_ms.unsigned_abs() >= STEP_MS;
        if last_ms.is_none() {
            self.usual_ms = ahead_ms;
        } else if is_step {
            tracing::warn!(step_ms = moved_ms, "wall clock stepped; timers follow it");
            metrics::counter!(metric_names::CLOCK_STEPS_TOTAL).increment(1);
        } else if self.jumped_ms.is_none() {
            self.usual_ms += moved_ms;
        }
        let jumped_ms = ahead_ms - self.usual_ms;
        let jumped_ms = (on_jump == OnClockJump::Hold && jumped_ms > JUMP_MS)
            .then_some(jumped_ms.unsigned_abs());
        if jumped_ms.is_some() != self.jumped_ms.is_some() {
            let is_held = jumped_ms.is_some();
            tracing::warn!(
                is_held,
                ahead_ms = jumped_ms,
                "wall clock jumped; the store keeps the earlier time while is_held is true"
            );
        }
        self.jumped_ms = jumped_ms;
        jumped_ms.map(|jumped_ms| wall_ms - jumped_ms)
    }
}

impl Engine {
    /// Returns the times of a step.
    pub(super) fn read_times(&mut self) -> Times {
        let mut now = Times::read(self.clock.as_ref(), self.anchor);
        let on_jump = self.options.on_clock_jump;
        if let Some(wall_ms) = self.clock_watch.check(now.wall_ms, now.boot_ms, on_jump) {
            now.wall_ms = wall_ms;
        }
        now
    }

    /// Returns the reason for which the store does not follow the wall clock, as text.
    pub(super) fn clock_reason(&self) -> Option<String> {
        self.clock_watch.jumped_ms.map(|jumped_ms| {
            let ahead = Millis::from_ms(jumped_ms / 1_000 * 1_000);
            format!(
                "the wall clock has jumped ahead by {ahead}; timers follow the earlier time \
                 (store.on_clock_jump): correct the clock, or restart the server if the clock is \
                 right"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockWatch, OnClockJump};

    /// Returns the lag of the used time behind the wall clock, for each check.
    fn behind(on_jump: OnClockJump, readings: &[(u64, u64)]) -> Vec<u64> {
        let mut watch = ClockWatch::default();
        let check = |&(wall_ms, boot_ms): &(u64, u64)| {
            watch.check(wall_ms, boot_ms, on_jump).map_or(0, |now_ms| wall_ms - now_ms)
        };
        readings.iter().map(check).collect()
    }

    #[test]
    fn a_clock_that_jumped_ahead_is_not_followed_until_it_is_back() {
        let hold = |walls: &[u64]| {
            let readings: Vec<_> = walls.iter().map(|wall_ms| (*wall_ms, 0)).collect();
            behind(OnClockJump::Hold, &readings)
        };
        assert_eq!(hold(&[500_000, 560_000]), [0, 0]);
        assert_eq!(hold(&[500_000, 560_001, 600_000, 559_000]), [0, 60_001, 100_000, 0]);
        assert_eq!(hold(&[500_000, 550_000, 590_000]), [0, 0, 90_000], "in two steps");
        assert_eq!(hold(&[500_000, 100_000, 500_000]), [0; 3], "back, and right again");
        let slewed = hold(&[500_000, 561_000, 560_400, 559_900, 559_400]);
        assert_eq!(slewed, [0, 61_000, 60_400, 0, 0], "little by little");
        assert_eq!(behind(OnClockJump::Fire, &[(500_000, 0), (900_000, 0)]), [0, 0]);
    }

    #[test]
    fn a_slow_drift_and_a_machine_that_slept_are_no_jump() {
        let drifts: Vec<_> =
            (0..200).map(|check| (1_000_000 + check * 10_900, check * 10_000)).collect();
        assert!(behind(OnClockJump::Hold, &drifts).iter().all(|behind| *behind == 0));
        let sleeps = [(1_000_000, 10), (4_600_250, 3_600_260), (4_600_501, 3_600_510)];
        assert_eq!(behind(OnClockJump::Hold, &sleeps), [0; 3]);
    }
}
