//! Ranges of integers: one range for the JSON of a field, its check and its errors.

use std::{fmt, marker::PhantomData};

use duly_core::Invalid;
use serde::{
    Deserializer,
    de::{self, Unexpected},
};

/// Describes the integers of `low..=high`. The largest integer of 64 bits is no bound that a caller would meet.
pub fn integers(low: impl fmt::Display, high: impl fmt::Display) -> String {
    let high = high.to_string();
    match high == u64::MAX.to_string() {
        true => format!("an integer from {low}"),
        false => format!("an integer from {low} to {high}"),
    }
}

/// Returns a number that must be in `low..=high`.
///
/// # Errors
/// When the number is out of range; the error names `field` and the range.
pub fn within<T: PartialOrd + fmt::Display>(
    field: &str,
    number: T,
    low: T,
    high: T,
) -> Result<T, Invalid> {
    if low <= number && number <= high {
        return Ok(number);
    }
    Err(Invalid::plain(field, number.to_string(), integers(low, high)))
}

/// Checks a revision that a caller expects.
///
/// # Errors
/// When no timer can have it.
pub fn check_revision(revision: Option<u32>) -> Result<Option<u32>, Invalid> {
    revision.map(|revision| within("if_revision", revision, 1, u32::MAX)).transpose()
}

/// A field that is an integer, or may be absent.
pub(crate) trait Integer: Sized {
    /// Returns the value of a number; `None` past the type.
    fn of(number: u64) -> Option<Self>;

    /// Returns the value of `null`; `None` if there must be a number.
    fn absent() -> Option<Self>;
}

impl<T: TryFrom<u64>> Integer for Option<T> {
    fn of(number: u64) -> Option<Self> {
        T::try_from(number).ok().map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl Integer for u32 {
    fn of(number: u64) -> Option<Self> {
        Self::try_from(number).ok()
    }

    fn absent() -> Option<Self> {
        None
    }
}

/// Reads an integer of `LOW..=HIGH`: for `#[serde(deserialize_with = "…")]`.
///
/// # Errors
/// The errors of [`between`].
pub(crate) fn ranged<'de, const LOW: u64, const HIGH: u64, T: Integer, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    between(LOW, HIGH, deserializer)
}

/// Reads an integer that the check of its message takes from `low` to `high`. The check refuses a number outside; here
/// the type alone decides, so that a client reads what a newer server allows.
///
/// # Errors
/// When the value is none of the type; the error names the range, and not that of the type.
pub(crate) fn between<'de, T: Integer, D: Deserializer<'de>>(
    low: u64,
    high: u64,
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_option(Range { low, high, of: PhantomData })
}

struct Range<T> {
    low: u64,
    high: u64,
    of: PhantomData<T>,
}

impl<'de, T: Integer> de::Visitor<'de> for Range<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&integers(self.low, self.high))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::of(number).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        let value = u64::try_from(number).ok().and_then(T::of);
        value.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_none<E: de::Error>(self) -> Result<T, E> {
        T::absent().ok_or_else(|| E::invalid_type(Unexpected::Unit, &self))
    }
}
