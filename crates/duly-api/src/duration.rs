//! Durations: `"2h30m"` or 0 in JSON, `google.protobuf.Duration` in protobuf. Digits below a millisecond
//! round up.

use std::time;

use duly_core::{
    Invalid, Millis,
    duration::{ALLOWED, allowed_for_fraction},
};

use crate::{
    number::integers,
    schema,
    time::{NANOS_MAX, ms, parts},
};

/// A duration as its sender wrote it; [`Duration::check`] knows its field and returns the value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Duration {
    /// Text such as `"2h30m"`.
    Text(String),
    /// A number without a unit, from JSON or a query.
    Bare(i128),
    /// Seconds and nanoseconds, from protobuf and from the server.
    Span(prost_types::Duration),
}

impl Duration {
    /// Returns the duration.
    ///
    /// # Errors
    /// When the value is not a valid duration; the error names `field`.
    pub fn check(&self, field: &str) -> Result<Millis, Invalid> {
        match self {
            Self::Text(text) => Millis::parse(text),
            Self::Bare(number) => Millis::from_bare_integer(*number),
            Self::Span(span) => of_span(*span),
        }
        .map_err(|invalid| invalid.within(field))
    }

    /// Returns the duration, which must be in `low..=high`.
    ///
    /// # Errors
    /// The errors of [`Duration::check`], and when the duration is out of range.
    pub fn check_within(&self, field: &str, low: Millis, high: Millis) -> Result<Millis, Invalid> {
        self.check(field)?.within(low, high).map_err(|invalid| invalid.within(field))
    }

    /// Returns the duration, or `None` if it is invalid.
    pub fn to_std(&self) -> Option<time::Duration> {
        self.check("").ok().map(Millis::to_std)
    }

    /// Returns the duration as protobuf has it. An invalid duration stays invalid: the check refuses it.
    fn span(&self) -> prost_types::Duration {
        let none = prost_types::Duration { seconds: i64::MIN, nanos: 0 };
        match self {
            Self::Span(span) => *span,
            other => other.check("").map_or(none, span),
        }
    }
}

fn of_span(span: prost_types::Duration) -> Result<Millis, Invalid> {
    let (seconds, nanos) = (span.seconds, span.nanos);
    let refuse = |most| Invalid::new("seconds", seconds, integers(0, most));
    if seconds < 0 {
        // The longest duration that its field allows is shorter than the longest of all.
        return Err(refuse(u64::MAX));
    }
    if !(0..=NANOS_MAX).contains(&nanos) {
        return Err(Invalid::new("nanos", nanos, integers(0, NANOS_MAX)));
    }
    Millis::from_integer(ms(seconds, nanos)).map_err(|_| refuse(u64::MAX / 1_000))
}

fn span(duration: Millis) -> prost_types::Duration {
    let (seconds, nanos) = parts(duration.ms());
    prost_types::Duration { seconds, nanos }
}

impl From<Millis> for Duration {
    fn from(duration: Millis) -> Self {
        Self::Span(span(duration))
    }
}

/// Converts a duration; one that is too long for protobuf becomes the longest.
impl From<time::Duration> for Duration {
    fn from(duration: time::Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(duration.subsec_nanos()).unwrap_or(0);
        Self::Span(prost_types::Duration { seconds, nanos })
    }
}

dual_form!(
    Duration: Span(prost_types::Duration),
    span,
    (ALLOWED, allowed_for_fraction),
    schema::duration,
    "DurationOrZero"
);

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn lasting(seconds: i64, nanos: i32) -> Result<Millis, Invalid> {
        Duration::Span(prost_types::Duration { seconds, nanos }).check("delay")
    }

    #[test]
    fn p12_digits_below_a_millisecond_round_up() {
        for (nanos, ms) in [(0, 1_000), (1, 1_001), (999_999, 1_001), (1_000_000, 1_001)] {
            assert_eq!(lasting(1, nanos), Ok(Millis::from_ms(ms)));
        }
    }

    #[test]
    fn p12_no_duration_becomes_another_one() {
        for (seconds, nanos) in
            [(-1, -1), (-1, 0), (-1, 5), (-1, i32::MAX), (i64::MIN, 0), (i64::MAX, 0)]
        {
            let invalid = lasting(seconds, nanos).unwrap_err();
            assert_eq!(invalid.field, "delay.seconds");
            let to = if seconds < 0 { "" } else { " to 18446744073709551" };
            assert_eq!(invalid.allowed, format!("an integer from 0{to}"));
        }
        assert_eq!(lasting(18_446_744_073_709_551, 615_000_000), Ok(Millis::MAX));
        for nanos in [-1, 1_000_000_000, i32::MIN, i32::MAX] {
            for seconds in [0, 1] {
                assert_eq!(lasting(seconds, nanos).unwrap_err().field, "delay.nanos");
            }
        }
        let longest = Duration::from(time::Duration::MAX);
        for none in [longest, Duration::Text("soon".to_owned()), Duration::Bare(7)] {
            assert!(none.check("delay").is_err(), "{none}");
            let sent = Duration::decode(&*none.encode_to_vec()).unwrap();
            assert!(sent.check("delay").is_err(), "{none}");
        }
    }

    #[test]
    fn written_values_can_be_read_again() {
        for ms in [0, 1, 999, 1_000, 1_700_000_000_123].map(Millis::from_ms) {
            assert_eq!(Duration::from(ms).check("delay"), Ok(ms));
            let bytes = Duration::from(ms).encode_to_vec();
            assert_eq!(Duration::decode(&*bytes).unwrap().check("delay"), Ok(ms));
            let text = serde_json::to_string(&Duration::from(ms)).unwrap();
            let back: Duration = serde_json::from_str(&text).unwrap();
            assert_eq!(back.check("delay"), Ok(ms), "{text}");
        }
    }
}
