//! Checks of numbers.

use std::fmt::Display;

use duly_core::Invalid;

/// Returns a number that must be in `low..=high`.
///
/// # Errors
/// When the number is out of range; the error names `field` and both ends.
pub fn within<T: PartialOrd + Display>(
    field: &str,
    number: T,
    low: T,
    high: T,
) -> Result<T, Invalid> {
    if low <= number && number <= high {
        return Ok(number);
    }
    Err(Invalid::plain(field, number.to_string(), format!("an integer from {low} to {high}")))
}

/// Checks a revision that a caller expects.
///
/// # Errors
/// When no timer can have it.
pub fn check_revision(revision: Option<u32>) -> Result<Option<u32>, Invalid> {
    revision.map(|revision| within("if_revision", revision, 1, u32::MAX)).transpose()
}
