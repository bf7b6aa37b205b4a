//! Times and durations: protobuf's own kinds, digits below a millisecond rounded up.

use duly_core::{Invalid, Millis, Timestamp};

use super::super::{Duration, Time};

/// Nanoseconds of a millisecond.
const NS_PER_MS: i128 = 1_000_000;

/// A time as a caller wrote it.
pub(crate) fn time_in(field: &str, time: prost_types::Timestamp) -> Result<Time, Invalid> {
    if !(0..1_000_000_000).contains(&time.nanos) {
        let path = format!("{field}.nanos");
        return Err(Invalid::new(path, time.nanos, "an integer from 0 to 999999999"));
    }
    Ok(Time::Ms(ms(time.seconds, time.nanos)))
}

/// A duration as a caller wrote it.
pub(crate) fn duration_in(
    field: &str,
    duration: prost_types::Duration,
) -> Result<Duration, Invalid> {
    let (seconds, nanos) = (duration.seconds, duration.nanos);
    let same_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
    if nanos.unsigned_abs() >= 1_000_000_000 || !same_sign {
        let allowed = "an integer from 0 to 999999999, of the sign of the seconds";
        return Err(Invalid::new(format!("{field}.nanos"), nanos, allowed));
    }
    Ok(Duration::Ms(ms(seconds, nanos)))
}

/// A duration that may be absent.
pub(crate) fn maybe_duration_in(
    field: &str,
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Invalid> {
    duration.map(|duration| duration_in(field, duration)).transpose()
}

fn ms(seconds: i64, nanos: i32) -> i128 {
    let whole = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    whole.div_euclid(NS_PER_MS) + i128::from(whole.rem_euclid(NS_PER_MS) != 0)
}

/// A time in an answer.
pub(crate) fn time_out(time: impl Into<Timestamp>) -> prost_types::Timestamp {
    let (seconds, nanos) = parts(time.into().unix_ms());
    prost_types::Timestamp { seconds, nanos }
}

/// A duration in an answer.
pub(crate) fn duration_out(duration: Millis) -> prost_types::Duration {
    let (seconds, nanos) = parts(duration.ms());
    prost_types::Duration { seconds, nanos }
}

/// Seconds and nanoseconds; a number of milliseconds has few enough seconds for both.
fn parts(ms: u64) -> (i64, i32) {
    let nanos = (ms % 1_000) * 1_000_000;
    (i64::try_from(ms / 1_000).unwrap_or(i64::MAX), i32::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: i32) -> Result<Time, Invalid> {
        time_in("due_at", prost_types::Timestamp { seconds, nanos })
    }

    fn lasting(seconds: i64, nanos: i32) -> Result<Duration, Invalid> {
        duration_in("delay", prost_types::Duration { seconds, nanos })
    }

    #[test]
    fn p12_digits_below_a_millisecond_round_up() {
        for (nanos, ms) in [(0, 1_000), (1, 1_001), (999_999, 1_001), (1_000_000, 1_001)] {
            assert_eq!(at(1, nanos), Ok(Time::Ms(ms)));
            assert_eq!(lasting(1, nanos), Ok(Duration::Ms(ms)));
        }
        assert_eq!(at(1, 999_999_999), Ok(Time::Ms(2_000)));
    }

    #[test]
    fn p12_no_time_becomes_another_one() {
        assert_eq!(at(-1, 999_999_999), Ok(Time::Ms(0)));
        assert_eq!(at(-1, 1), Ok(Time::Ms(-999)));
        assert!(at(i64::MAX, 0).unwrap().check("due_at").is_err());
        assert!(at(i64::MIN, 0).unwrap().check("due_at").is_err());
        assert!(lasting(-1, -1).unwrap().check("delay").is_err());
        for nanos in [-1, 1_000_000_000, i32::MIN, i32::MAX] {
            assert_eq!(at(1, nanos).unwrap_err().field, "due_at.nanos");
            assert_eq!(lasting(1, nanos).unwrap_err().field, "delay.nanos");
        }
    }

    #[test]
    fn what_goes_out_comes_in_again() {
        for ms in [0, 1, 999, 1_000, 1_700_000_000_123, Timestamp::MAX.unix_ms()] {
            let time = Timestamp::from_unix_ms(ms).unwrap();
            let back = time_in("due_at", time_out(time)).unwrap();
            assert_eq!(back.check("due_at"), Ok(time));
            let back = duration_in("delay", duration_out(Millis::from_ms(ms))).unwrap();
            assert_eq!(back.check("delay"), Ok(Millis::from_ms(ms)));
        }
    }
}
