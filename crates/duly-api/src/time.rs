//! Points in time: RFC 3339 text or integer Unix milliseconds in JSON, `google.protobuf.Timestamp` in
//! protobuf. Digits below a millisecond round up.

use std::time::{SystemTime, UNIX_EPOCH};

use duly_core::{
    Invalid, Timestamp,
    time::{ALLOWED, allowed_for_fraction},
};

use crate::{number::integers, schema};

/// Nanoseconds of a millisecond.
const NS_PER_MS: i32 = 1_000_000;
/// Nanoseconds of a second.
const NS_PER_S: i64 = 1_000_000_000;
/// Most nanoseconds beside the seconds.
pub(crate) const NANOS_MAX: i32 = 999_999_999;
/// Seconds from which on a number is likely to count seconds: 1973.
const SECONDS_LIKELY_MIN: i64 = 100_000_000;

/// A time as its sender wrote it; [`Time::check`] knows its field and returns the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Time {
    /// RFC 3339 text.
    Text(String),
    /// A number, from JSON or a query.
    Bare(i128),
    /// Seconds and nanoseconds, from protobuf and from the server.
    Unix(prost_types::Timestamp),
}

impl Time {
    /// Returns the time.
    ///
    /// # Errors
    /// When it is not a valid time from 1970 to 2200; the error names `field`.
    pub fn check(&self, field: &str) -> Result<Timestamp, Invalid> {
        match self {
            Self::Text(text) => Timestamp::parse(text),
            Self::Bare(number) => Timestamp::from_bare_integer(*number),
            Self::Unix(unix) => of_unix(*unix),
        }
        .map_err(|invalid| invalid.within(field))
    }

    /// Returns the time, or `None` if it is not a valid time from 1970 to 2200.
    pub fn to_system_time(&self) -> Option<SystemTime> {
        let time = self.check("").ok()?;
        Some(UNIX_EPOCH + std::time::Duration::from_millis(time.unix_ms()))
    }

    /// Returns the time as protobuf has it. An invalid time stays invalid: the check refuses it.
    fn unix(&self) -> prost_types::Timestamp {
        let none = prost_types::Timestamp { seconds: i64::MIN, nanos: 0 };
        match self {
            Self::Unix(unix) => *unix,
            other => other.check("").map_or(none, unix),
        }
    }
}

fn of_unix(unix: prost_types::Timestamp) -> Result<Timestamp, Invalid> {
    let prost_types::Timestamp { seconds, nanos } = unix;
    if !(0..=NANOS_MAX).contains(&nanos) {
        return Err(Invalid::new("nanos", nanos, integers(0, NANOS_MAX)));
    }
    Timestamp::from_integer(ms(seconds, nanos)).map_err(|_| {
        let most = i64::try_from(Timestamp::MAX.unix_ms() / 1_000).unwrap_or(i64::MAX);
        let mut allowed = integers(0, most);
        // A sender may have taken another unit for seconds.
        let units =
            [("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", NS_PER_S)];
        let likely = |(_, per_second): &(_, i64)| {
            (SECONDS_LIKELY_MIN..=most).contains(&(seconds / per_second))
        };
        if let Some((unit, per_second)) = units.into_iter().find(likely) {
            allowed = format!("{allowed} ({unit}? {} is in seconds)", seconds / per_second);
        } else if seconds == most {
            allowed = format!("{allowed}, with nanos 0 for the last of them");
        }
        Invalid::new("seconds", seconds, allowed)
    })
}

/// Returns whole milliseconds, rounded up.
pub(crate) fn ms(seconds: i64, nanos: i32) -> i128 {
    let part = nanos.div_euclid(NS_PER_MS) + i32::from(nanos.rem_euclid(NS_PER_MS) != 0);
    i128::from(seconds) * 1_000 + i128::from(part)
}

/// Returns seconds and nanoseconds. The seconds of a number of milliseconds always fit.
pub(crate) fn parts(ms: u64) -> (i64, i32) {
    let nanos = (ms % 1_000) * 1_000_000;
    (i64::try_from(ms / 1_000).unwrap_or(i64::MAX), i32::try_from(nanos).unwrap_or(0))
}

fn unix(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = parts(time.unix_ms());
    prost_types::Timestamp { seconds, nanos }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self::Unix(unix(time))
    }
}

/// Converts a time; one before 1970 becomes a value that the check refuses.
impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        Self::Unix(prost_types::Timestamp::from(time))
    }
}

dual_form!(
    Time: Unix(prost_types::Timestamp),
    unix,
    (ALLOWED, allowed_for_fraction),
    schema::time,
    "TimeOrMillis"
);

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn at(seconds: i64, nanos: i32) -> Result<Timestamp, Invalid> {
        Time::Unix(prost_types::Timestamp { seconds, nanos }).check("due_at")
    }

    #[test]
    fn p12_digits_below_a_millisecond_round_up() {
        for (nanos, ms) in [(0, 1_000), (1, 1_001), (999_999, 1_001), (1_000_000, 1_001)] {
            assert_eq!(at(1, nanos).map(Timestamp::unix_ms), Ok(ms));
        }
        assert_eq!(at(1, 999_999_999).map(Timestamp::unix_ms), Ok(2_000));
        assert_eq!(at(-1, 999_999_999).map(Timestamp::unix_ms), Ok(0));
    }

    #[test]
    fn p12_no_time_becomes_another_one() {
        for (seconds, nanos, allowed) in [
            (-1, 1, "an integer from 0 to 7258118400"),
            (i64::MAX, 0, "an integer from 0 to 7258118400"),
            (i64::MIN, 0, "an integer from 0 to 7258118400"),
            (7_258_118_401, 0, "an integer from 0 to 7258118400"),
            (
                7_258_118_400,
                1,
                "an integer from 0 to 7258118400, with nanos 0 for the last of them",
            ),
            (
                1_795_287_316_000,
                0,
                "an integer from 0 to 7258118400 (milliseconds? 1795287316 is in seconds)",
            ),
            (
                1_795_287_316_000_000_000,
                0,
                "an integer from 0 to 7258118400 (nanoseconds? 1795287316 is in seconds)",
            ),
        ] {
            let invalid = at(seconds, nanos).unwrap_err();
            let seen = format!("\"{seconds}\"");
            assert_eq!((&*invalid.field, invalid.seen), ("due_at.seconds", Some(seen)));
            assert_eq!(invalid.allowed, allowed);
        }
        for nanos in [-1, 1_000_000_000, i32::MIN, i32::MAX] {
            assert_eq!(at(1, nanos).unwrap_err().field, "due_at.nanos");
        }
        let early = UNIX_EPOCH - std::time::Duration::from_nanos(1_000_000);
        for none in [Time::from(early), Time::Text("soon".to_owned()), Time::Bare(-1)] {
            assert!(none.check("due_at").is_err());
            let sent = Time::decode(&*none.encode_to_vec()).unwrap();
            assert!(sent.check("due_at").is_err(), "{none}");
        }
    }

    #[test]
    fn written_values_can_be_read_again() {
        for ms in [0, 1, 999, 1_000, 1_700_000_000_123, Timestamp::MAX.unix_ms()] {
            let time = Timestamp::from_unix_ms(ms).unwrap();
            assert_eq!(Time::from(time).check("due_at"), Ok(time));
            let bytes = Time::from(time).encode_to_vec();
            assert_eq!(Time::decode(&*bytes).unwrap().check("due_at"), Ok(time));
            let text = serde_json::to_string(&Time::from(time)).unwrap();
            let back: Time = serde_json::from_str(&text).unwrap();
            assert_eq!(back.check("due_at"), Ok(time), "{text}");
        }
    }
}
