//! Notices steps of the wall clock against the boot-time clock, and says so: what is due follows the
//! wall clock, so a step makes timers early or late by the world's clock although nothing is wrong
//! here.
//!
//! A clock that is set little by little, as by NTP, does not step: between two looks that is far less.
//! Nor does that of a machine that slept: the boot-time clock goes on meanwhile. Called by the tick.

use duly_core::metric_names;

/// A wall clock that is so far off from one look to the next was set.
const STEP_MS: u64 = 1_000;

/// How far the wall clock was ahead of the boot-time clock at the last look.
#[derive(Debug, Default)]
pub(super) struct ClockWatch(Option<u64>);

impl ClockWatch {
    /// Looks, and counts and logs a step.
    pub(super) fn look(&mut self, wall_ms: u64, boot_ms: u64) {
        if let Some(step_ms) = self.step_ms(wall_ms, boot_ms) {
            tracing::warn!(step_ms, "the wall clock has stepped; timers follow it");
            metrics::counter!(metric_names::CLOCK_STEPS_TOTAL).increment(1);
        }
    }

    /// How far the wall clock has stepped since the last look, if it has.
    fn step_ms(&mut self, wall_ms: u64, boot_ms: u64) -> Option<i64> {
        let ahead_ms = wall_ms.wrapping_sub(boot_ms);
        let before_ms = self.0.replace(ahead_ms)?;
        let step_ms = ahead_ms.wrapping_sub(before_ms).cast_signed();
        (step_ms.unsigned_abs() >= STEP_MS).then_some(step_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::ClockWatch;

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
}
