//! The error for a value that is not allowed.
//!
//! Every checked constructor of this crate returns an [`Invalid`]. It has the field, the value that was
//! given (shortened), and the allowed values. The outer layers add their own path in front of the field with
//! [`Invalid::within`]. The sentence is composed only here.

use std::{fmt, ops::RangeInclusive};

/// Maximum characters of a refused value that are shown.
pub const SEEN_CHARS_MAX: usize = 64;

/// A value that was refused: the field, the value that was given, and the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Invalid {
    /// Path of the field, for example `retry.max_attempts`; empty for the value itself.
    pub field: String,
    /// The refused value, shortened to [`SEEN_CHARS_MAX`] characters. Absent if showing it would not help (a
    /// missing field) or would leak a secret.
    pub seen: Option<String>,
    /// The allowed values, as the end of the sentence "`field` must be …".
    pub allowed: String,
}

impl Invalid {
    /// Creates the error for a value of `field`. `seen` is shortened; `allowed` completes "`field` must be
    /// …".
    pub fn new(
        field: impl Into<String>,
        seen: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            seen: Some(shorten(&seen.to_string())),
            allowed: allowed.into(),
        }
    }

    /// Creates an error that shows `seen` without quotes, because no caller wrote it.
    pub fn plain(
        field: impl Into<String>,
        seen: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), seen: Some(seen.into()), allowed: allowed.into() }
    }

    /// Creates an error that shows no value.
    pub fn unseen(field: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { field: field.into(), seen: None, allowed: allowed.into() }
    }

    /// Returns the same error with `outer` in front of its field: `retry` + `max_attempts`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field = match (outer.is_empty(), self.field.is_empty()) {
            (true, _) => self.field,
            (false, true) => outer.to_owned(),
            (false, false) if self.field.starts_with('[') => format!("{outer}{}", self.field),
            (false, false) => format!("{outer}.{}", self.field),
        };
        self
    }

    fn sentence(&self) -> String {
        let field = if self.field.is_empty() { "the value" } else { &self.field };
        match &self.seen {
            Some(seen) => format!("{field} must be {}; got {seen}", self.allowed),
            None => format!("{field} must be {}", self.allowed),
        }
    }
}

/// Checks that an integer is in `range`; the error names both ends.
pub fn check_range<T: PartialOrd + fmt::Display>(
    field: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), Invalid> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("an integer from {} to {}", range.start(), range.end());
    Err(Invalid::new(field, value, allowed))
}

/// Cuts `text` to [`SEEN_CHARS_MAX`] characters, escapes control characters and quotes it.
pub fn shorten(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(SEEN_CHARS_MAX) + 4);
    out.push('"');
    let mut chars = text.chars();
    for c in chars.by_ref().take(SEEN_CHARS_MAX) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
