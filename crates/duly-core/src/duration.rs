//! Durations: whole milliseconds, written `"2h30m"`.
//!
//! The grammar is `(\d+(ms|s|m|h|d))+` with falling units. The last number may have a fraction, as Go and protobuf's
//! JSON write it (`1m1.5s`); it rounds up. A number without a unit is refused unless it is
//! 0, because senders mean seconds as often as milliseconds.

use std::{fmt, time::Duration};

use crate::invalid::{Invalid, SEEN_CHARS_MAX};

/// The forms that [`Millis::parse`] accepts, for error messages.
pub const ALLOWED: &str = "a duration such as \"30s\", \"1.5s\" or \"2h30m\" (units d, h, m, s, ms, each once, falling), or 0";

/// Units of the text form, falling, in milliseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A duration in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(u64);

impl Millis {
    /// The duration zero.
    pub const ZERO: Self = Self(0);
    /// The longest duration that can be represented.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a duration from milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Creates a duration from seconds, capped at [`Millis::MAX`].
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Returns the milliseconds.
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// Returns it as a standard duration.
    pub const fn to_std(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Creates a duration from an integer of milliseconds, where the format itself names the unit.
    pub fn from_integer(ms: i128) -> Result<Self, Invalid> {
        u64::try_from(ms).map(Self).map_err(|_| Invalid::new("", ms, ALLOWED))
    }

    /// Checks a number without a unit, as a caller wrote it: only 0 is accepted.
    pub fn from_bare_integer(number: i128) -> Result<Self, Invalid> {
        match u64::try_from(number) {
            Ok(0) => Ok(Self::ZERO),
            Ok(number) => Err(Invalid::new("", number, allowed_with_unit(&number.to_string()))),
            Err(_) => Err(Invalid::new("", number, ALLOWED)),
        }
    }

    /// Parses the text form; a part of a millisecond rounds up.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = || Invalid::new("", text, allowed_for(text));
        let mut rest = text;
        let mut total: u64 = 0;
        let mut next_unit = 0;
        if rest.is_empty() {
            return Err(refuse());
        }
        if rest.bytes().all(|byte| byte == b'0') {
            return Ok(Self::ZERO);
        }
        while !rest.is_empty() {
            let (number, tail) = rest.split_at(digits(rest));
            let (fraction, tail) = match tail.strip_prefix('.') {
                Some(tail) => tail.split_at(digits(tail)),
                None => ("0", tail),
            };
            let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
            let (unit, tail) = tail.split_at(letters);
            let place = UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(refuse)?;
            if place < next_unit || fraction != "0" && !tail.is_empty() {
                return Err(refuse());
            }
            next_unit = place + 1;
            let number: u64 = number.parse().map_err(|_| refuse())?;
            let part = number.checked_mul(UNITS[place].1).ok_or_else(refuse)?;
            let part = part.checked_add(part_of(UNITS[place].1, fraction).ok_or_else(refuse)?);
            total = part.and_then(|part| total.checked_add(part)).ok_or_else(refuse)?;
            rest = tail;
        }
        Ok(Self(total))
    }

    /// Returns the duration if it is in `low..=high`; otherwise an error that names both ends.
    pub fn within(self, low: Self, high: Self) -> Result<Self, Invalid> {
        if (low..=high).contains(&self) {
            Ok(self)
        } else {
            Err(Invalid::new("", self, format!("a duration from {low} to {high}")))
        }
    }
}

/// Returns the number of digits at the beginning of a text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns a decimal fraction of a unit in milliseconds, rounded up; `None` without digits, or with too many.
fn part_of(unit_ms: u64, fraction: &str) -> Option<u64> {
    let whole = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(unit_ms).checked_mul(fraction.parse().ok()?)?;
    u64::try_from(part.div_ceil(whole)).ok()
}

/// Returns the allowed durations, for the error of a number that is not an integer of JSON.
pub fn allowed_for_fraction(number: f64) -> String {
    allowed_for(&number.to_string())
}

/// Returns the allowed durations, for the error of a text.
fn allowed_for(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && digits(text) == text.len();
    let fits = whole.parse::<u64>().is_ok() && text.len() <= SEEN_CHARS_MAX;
    match fits && is_number(whole) && is_number(fraction) {
        true => allowed_with_unit(text),
        false => ALLOWED.to_owned(),
    }
}

/// Returns the allowed durations, for the error of a number without a unit: the two units that are most likely meant.
fn allowed_with_unit(number: &str) -> String {
    format!("a duration with a unit: \"{number}s\" or \"{number}ms\"")
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (name, unit_ms) in UNITS {
            if rest >= unit_ms {
                write!(f, "{}{name}", rest / unit_ms)?;
                rest %= unit_ms;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
