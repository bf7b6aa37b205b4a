//! The error for a value that is not allowed.
//!
//! Every checked constructor of this crate returns an [`Invalid`]. It has the field, the value that was
//! given (shortened), and the allowed values. The outer layers add their own path in front of the field with
//! [`Invalid::within`]. The sentence is composed only here.

use std::{fmt, ops::RangeInclusive};

/// Maximum characters of a refused value that are shown.
pub const SEEN_CHARS_MAX: usize = 64;

/// Beginning of `allowed` for a name that is not known.
const LEFT_OUT: &str = "left out; ";
/// Begins the name of a field that was meant in place of an unknown one.
const MEANT: &str = "did you mean ";

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
    /// The kind of name that is not known, such as `field`; absent where a value is at fault.
    pub unknown: Option<&'static str>,
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
            unknown: None,
        }
    }

    /// Creates an error that shows `seen` without quotes, because no caller wrote it.
    pub fn plain(
        field: impl Into<String>,
        seen: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self { seen: Some(seen.into()), ..Self::unseen(field, allowed) }
    }

    /// Creates an error that shows no value.
    pub fn unseen(field: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { field: field.into(), seen: None, allowed: allowed.into(), unknown: None }
    }

    /// Creates the error for a name that is not known where it stands: a `kind`, such as `field`. It shows the meant
    /// name, or else all `known` ones.
    pub fn unknown<'a>(
        kind: &'static str,
        field: impl Into<String>,
        name: &str,
        meant: Option<&str>,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<_> = known.into_iter().collect();
        let cure = match meant {
            Some(meant) => format!("{MEANT}{meant}?"),
            None if known.is_empty() => format!("no {kind} is known here"),
            None => format!("known here: {}", known.join(", ")),
        };
        let allowed = format!("{LEFT_OUT}{cure}");
        Self { unknown: Some(kind), ..Self::new(field, name, allowed) }
    }

    /// Returns the same error with `outer` in front of its field: `retry` + `max_attempts`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        if self.unknown.is_some() && !outer.is_empty() {
            // The name that was meant is a path from the same place.
            self.allowed = self.allowed.replacen(MEANT, &format!("{MEANT}{outer}."), 1);
        }
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
        if let Some(kind) = self.unknown {
            let cure = self.allowed.strip_prefix(LEFT_OUT).unwrap_or(&self.allowed);
            return format!("unknown {kind} {field}: {cure}");
        }
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
