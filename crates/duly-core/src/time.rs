//! Points in time: Unix milliseconds, checked.
//!
//! A [`Timestamp`] lies between 1970-01-01 and 2200-01-01 (P12). The text form is RFC 3339 (module `text`): any offset is
//! accepted, and UTC with three decimals is written. Digits below a millisecond round **up**, so a timer
//! never fires before the given instant (P2). An integer counts milliseconds. An integer that is likely to count
//! another unit is refused.

mod text;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Millis, invalid::Invalid};

/// The forms that [`Timestamp`] accepts, for error messages.
pub const ALLOWED: &str = "an RFC 3339 time (\"2030-01-31T12:00:00Z\") from 1970-01-01 to 2200-01-01, or integer Unix milliseconds from 253402300800 on";

/// The smallest integer that is accepted as Unix milliseconds (1978-01-11). A count of seconds reaches it in
/// the year 10000, later than the last time of other systems, which stands for "never" there.
pub const BARE_MS_MIN: i64 = 253_402_300_800;

/// The smallest count of seconds after the last time.
const SECONDS_AFTER_MAX: i128 = Timestamp::MAX.0 as i128 / 1_000 + 1;

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

    /// Creates a time from Unix milliseconds as a caller wrote them.
    ///
    /// # Errors
    /// When the number is likely to count another unit: the error has the milliseconds.
    pub fn from_bare_integer(number: i128) -> Result<Self, Invalid> {
        let time = Self::from_integer(number).ok().filter(|_| number >= i128::from(BARE_MS_MIN));
        time.ok_or_else(|| Invalid::new("", number, allowed_for(number, None, false)))
    }

    /// Parses the text of a time: RFC 3339 and its relatives; digits below a millisecond round up.
    ///
    /// # Errors
    /// The piece that is missing or wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        text::parse(text)
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

/// Returns the allowed times, for the error of a number that is not an integer of JSON.
pub fn allowed_for_fraction(number: f64) -> String {
    decimal_hint(&number.to_string(), false).unwrap_or_else(|| ALLOWED.to_owned())
}

/// Returns the allowed times, for the error of a decimal number, which may be a text; `None` for another text.
fn decimal_hint(text: &str, has_quotes: bool) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = text.contains('.').then_some(fraction);
    let allowed = |whole| allowed_for(whole, fraction, has_quotes);
    Some(whole.parse().map_or_else(|_| ALLOWED.to_owned(), allowed))
}

/// Returns the allowed times, with the milliseconds of a number that is likely to count another unit, or that has a
/// fraction or quotes. They are rounded up.
fn allowed_for(whole: i128, fraction: Option<&str>, has_quotes: bool) -> String {
    let without = match (has_quotes, fraction.is_some()) {
        (true, true) => "without quotes and fraction",
        (true, false) => "without quotes",
        (false, _) => "without a fraction",
    };
    let fraction = fraction.unwrap_or_default();
    let is_likely =
        |ms: &i128| *ms >= i128::from(BARE_MS_MIN) && Timestamp::from_integer(*ms).is_ok();
    let up = i128::from(fraction.bytes().any(|digit| digit != b'0'));
    let units = [
        ("seconds", whole.saturating_mul(1_000).saturating_add(text::milliseconds(fraction))),
        ("milliseconds", whole.saturating_add(up)),
        ("microseconds", whole.saturating_add(up + 999).div_euclid(1_000)),
        ("nanoseconds", whole.saturating_add(up + 999_999).div_euclid(1_000_000)),
    ];
    match units.into_iter().find(|(_, ms)| is_likely(ms)) {
        Some(("milliseconds", ms)) => format!("{ALLOWED} ({without}: {ms})"),
        Some((unit, ms)) if has_quotes => {
            format!("{ALLOWED} ({unit}? {ms} is in milliseconds, {without})")
        }
        Some((unit, ms)) => format!("{ALLOWED} ({unit}? {ms} is in milliseconds)"),
        None if (SECONDS_AFTER_MAX..i128::from(BARE_MS_MIN)).contains(&whole) => {
            format!("{ALLOWED} (seconds? The time is after the last one)")
        }
        None => ALLOWED.to_owned(),
    }
}

#[cfg(test)]
mod tests;
