//! Notices steps of the wall clock against the boot-time clock: what is due follows the wall clock, so
//! a step makes timers early or late by the world's clock although nothing is wrong here.
//!
//! A clock that is set little by little, as by NTP, does not step: between two looks that is far less.
//! Nor does that of a machine that slept: the boot-time clock goes on meanwhile.
//!
//! A clock that is more than a minute further on than it was when the store was opened can make a
//! year's timers due at once. [`OnClockJump`] says what comes then: they fire, as everything that is
//! due, or nothing is claimed and nothing expires until the clock is back or the store is opened
//! again, which takes the clock as it is. Called by the tick.

use std::time::Duration;

use duly_core::{Millis, metric_names};

use crate::options::OnClockJump;

use super::Engine;

/// A wall clock that is so far off from one look to the next was set.
const STEP_MS: u64 = 1_000;
/// Steps that come to more than this ahead are a jump.
const JUMP_MS: i64 = 60_000;
/// How soon somebody who waits for what is held asks again.
pub(super) const HELD_WAIT: Duration = Duration::from_secs(1);

/// What was seen of the clocks since the opening.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// How far the wall clock was ahead of the boot-time clock at the last look.
    ahead_ms: Option<u64>,
    /// The steps there were, added up.
    stepped_ms: i64,
    is_held: bool,
}

impl ClockWatch {
    /// Looks, and counts and logs a step.
    fn look(&mut self, wall_ms: u64, boot_ms: u64, on_jump: OnClockJump) {
        if let Some(step_ms) = self.step_ms(wall_ms, boot_ms) {
            tracing::warn!(step_ms, "the wall clock has stepped; timers follow it");
            metrics::counter!(metric_names::CLOCK_STEPS_TOTAL).increment(1);
            self.stepped_ms = self.stepped_ms.saturating_add(step_ms);
            let is_held = on_jump == OnClockJump::Hold && self.stepped_ms > JUMP_MS;
            if self.is_held != is_held {
                self.is_held = is_held;
                tracing::warn!(is_held, "firing is held while the wall clock is ahead");
            }
        }
    }

    /// How far the wall clock has stepped since the last look, if it has.
    fn step_ms(&mut self, wall_ms: u64, boot_ms: u64) -> Option<i64> {
        let ahead_ms = wall_ms.wrapping_sub(boot_ms);
        let before_ms = self.ahead_ms.replace(ahead_ms)?;
        let step_ms = ahead_ms.wrapping_sub(before_ms).cast_signed();
        (step_ms.unsigned_abs() >= STEP_MS).then_some(step_ms)
    }
}

impl Engine {
    /// Looks at the clocks; answers whether firing is held.
    pub(super) fn watch_clock(&mut self) -> bool {
        let on_jump = self.options.on_clock_jump;
        self.clock_watch.look(self.now.wall_ms, self.now.boot_ms, on_jump);
        self.clock_watch.is_held
    }

    /// Whether nothing is claimed because of the wall clock.
    pub(super) const fn is_clock_held(&self) -> bool {
        self.clock_watch.is_held
    }

    /// Why firing is held, for a person.
    pub(super) fn clock_reason(&self) -> Option<String> {
        self.clock_watch.is_held.then(|| {
            let ahead = Millis::from_ms(self.clock_watch.stepped_ms.unsigned_abs());
            format!(
                "the wall clock has stepped forward by {ahead}; firing is held, as \
                 store.on_clock_jump says: put the clock right, or restart the server if it is right"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockWatch, OnClockJump};

    #[test]
    fn only_what_the_boot_time_clock_does_not_do_as_well_is_a_step() {
        let mut watch = ClockWatch::default();
        let mut check = |wall_ms, boot_ms, step| {
            assert_eq!(watch.step_ms(wall_ms, boot_ms), step, "{wall_ms} {boot_ms}");
        };
        check(1_000_000, 10, None);
        check(1_000_250, 260, None);
        // The machine slept for an hour.
        check(4_600_250, 3_600_260, None);
        // A clock that is slewed.
        check(4_600_501, 3_600_510, None);
        check(4_605_501, 3_600_510, Some(5_000));
        check(4_605_601, 3_600_610, None);
        check(605_601, 3_600_610, Some(-4_000_000));
        // The wall clock is behind the boot-time clock.
        check(605_701, 3_600_710, None);
        check(606_700, 3_600_710, None);
        check(607_700, 3_600_710, Some(1_000));
    }

    #[test]
    fn only_a_clock_that_stepped_more_than_a_minute_ahead_is_held_and_only_until_it_is_back() {
        let held = |on_jump, walls: &[u64]| {
            let mut watch = ClockWatch::default();
            let look = |wall_ms: &u64| {
                watch.look(*wall_ms, 0, on_jump);
                watch.is_held
            };
            walls.iter().map(look).collect::<Vec<_>>()
        };
        let hold = |walls: &[u64]| held(OnClockJump::Hold, walls);
        assert_eq!(hold(&[500_000, 560_000, 560_001]), [false; 3]);
        assert_eq!(hold(&[500_000, 560_001, 600_000, 559_000]), [false, true, true, false]);
        assert_eq!(hold(&[500_000, 550_000, 590_000]), [false, false, true], "little by little");
        assert_eq!(hold(&[500_000, 100_000, 500_000]), [false; 3], "back, and right again");
        assert_eq!(held(OnClockJump::Fire, &[500_000, 900_000]), [false; 2]);
    }
}
