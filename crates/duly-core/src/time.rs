//! Points in time: Unix milliseconds, checked.
//!
//! A [`Timestamp`] lies between 1970-01-01 and 2200-01-01 (P12). The text form is RFC 3339: any offset is
//! accepted, and UTC with three decimals is written. Digits below a millisecond round **up**, so a timer
//! never fires before the given instant (P2). An integer counts milliseconds. An integer that is small
//! enough to be a count of seconds is refused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Millis, invalid::Invalid};

/// The forms that [`Timestamp`] accepts, for error messages.
pub const ALLOWED: &str = "an RFC 3339 time (\"2030-01-31T12:00:00Z\") from 1970-01-01 to 2200-01-01, or integer Unix milliseconds from 100000000000 on";

/// The smallest integer that is accepted as Unix milliseconds (1973-03-03). A count of seconds reaches it in
/// the year 5138, later than every allowed time.
const BARE_MS_MIN: i128 = 100_000_000_000;

/// A point in time in Unix milliseconds, at most [`Timestamp::MAX`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(into = "u64", try_from = "u64")]
pub struct Timestamp(u64);

impl From<Timestamp> for u64 {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

impl TryFrom<u64> for Timestamp {
    type Error = Invalid;

    fn try_from(ms: u64) -> Result<Self, Invalid> {
        Self::from_integer(ms.into())
    }
}

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const MIN: Self = Self(0);
    /// 2200-01-01T00:00:00.000Z, the latest due time of a timer.
    pub const MAX: Self = Self(7_258_118_400_000);

    /// Creates a time from Unix milliseconds; `None` past [`Timestamp::MAX`].
    pub const fn from_unix_ms(ms: u64) -> Option<Self> {
        if ms <= Self::MAX.0 { Some(Self(ms)) } else { None }
    }

    /// Creates a time from Unix milliseconds, capped at [`Timestamp::MAX`]. For clocks, and for times
    /// computed from a capped policy; never for a time that a caller asked for.
    pub const fn saturating_from_unix_ms(ms: u64) -> Self {
        if ms <= Self::MAX.0 { Self(ms) } else { Self::MAX }
    }

    /// Creates a time from an integer of Unix milliseconds, where the format itself names the unit.
    pub fn from_integer(ms: i128) -> Result<Self, Invalid> {
        u64::try_from(ms)
            .ok()
            .and_then(Self::from_unix_ms)
            .ok_or_else(|| Invalid::new("", ms, ALLOWED))
    }

    /// Creates a time from Unix milliseconds as a caller wrote them. A number that is likely to count
    /// seconds is refused.
    pub fn from_bare_integer(number: i128) -> Result<Self, Invalid> {
        if !(0..BARE_MS_MIN).contains(&number) {
            return Self::from_integer(number);
        }
        let ms = number * 1_000;
        let is_likely = Self::from_integer(ms).is_ok() && ms >= BARE_MS_MIN;
        let if_seconds =
            if is_likely { format!(" ({ms}, if it counts seconds)") } else { String::new() };
        let allowed = format!(
            "in milliseconds, from {BARE_MS_MIN} on{if_seconds}, or an RFC 3339 time, which may be \
             any from 1970-01-01 to 2200-01-01"
        );
        Err(Invalid::new("", number, allowed))
    }

    /// Parses RFC 3339 text; digits below a millisecond round up.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = || Invalid::new("", text, ALLOWED);
        let bytes = text.as_bytes();
        let shaped = bytes.len() >= 20
            && bytes[4] == b'-'
            && bytes[7] == b'-'
            && matches!(bytes[10], b'T' | b't' | b' ')
            && bytes[13] == b':'
            && bytes[16] == b':';
        if !shaped {
            return Err(refuse());
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| refuse())?;
        let nanoseconds = parsed.as_nanosecond();
        let ms =
            nanoseconds.div_euclid(1_000_000) + i128::from(nanoseconds.rem_euclid(1_000_000) != 0);
        Self::from_integer(ms).map_err(|_| refuse())
    }

    /// Returns the Unix milliseconds.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// Returns this time plus a duration; `None` past [`Timestamp::MAX`].
    pub const fn checked_add(self, duration: Millis) -> Option<Self> {
        match self.0.checked_add(duration.ms()) {
            Some(ms) => Self::from_unix_ms(ms),
            None => None,
        }
    }

    /// Returns this time plus a duration, capped at [`Timestamp::MAX`].
    pub const fn saturating_add(self, duration: Millis) -> Self {
        Self::saturating_from_unix_ms(self.0.saturating_add(duration.ms()))
    }

    /// Returns the duration from `earlier` to this time; zero if this time is not later.
    pub const fn saturating_since(self, earlier: Self) -> Millis {
        Millis::from_ms(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0.cast_signed());
        write!(f, "{:.3}", time.expect("jiff supports times up to the year 9999"))
    }
}

#[cfg(test)]
mod tests;
