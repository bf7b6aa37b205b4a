//! Durations: whole milliseconds, written `"2h30m"`.
//!
//! The grammar is `(\d+(ms|s|m|h|d))+` with falling units. A number without a unit is refused unless it is
//! 0, because senders mean seconds as often as milliseconds.

use std::{fmt, time::Duration};

use crate::invalid::Invalid;

/// The forms that [`Millis::parse`] accepts, for error messages.
pub const ALLOWED: &str =
    "a duration such as \"30s\" or \"2h30m\" (units d, h, m, s, ms, each once, falling), or 0";

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
            Ok(number) => Err(without_unit(number)),
            Err(_) => Err(Invalid::new("", number, ALLOWED)),
        }
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return Err(without_unit(number));
        }
        let refuse = || Invalid::new("", text, ALLOWED);
        let mut rest = text;
        let mut total: u64 = 0;
        let mut next_unit = 0;
        if rest.is_empty() {
            return Err(refuse());
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
            let (unit, tail) = tail.split_at(letters);
            let place = UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(refuse)?;
            if place < next_unit {
                return Err(refuse());
            }
            next_unit = place + 1;
            let number: u64 = number.parse().map_err(|_| refuse())?;
            let part = number.checked_mul(UNITS[place].1).ok_or_else(refuse)?;
            total = total.checked_add(part).ok_or_else(refuse)?;
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

/// Returns the error for a number without a unit. It names the two units that are most likely meant.
fn without_unit(number: u64) -> Invalid {
    Invalid::new("", number, format!("a duration with a unit: \"{number}s\" or \"{number}ms\""))
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
