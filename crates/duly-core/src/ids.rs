//! Names and ids: checked text, cheap to clone.
//!
//! A [`NamespaceName`] names a namespace. A [`TimerId`] is the caller's name of a timer, compared byte for
//! byte. An [`Incarnation`] distinguishes timers that used the same id.

use std::{fmt, sync::Arc};

use crate::invalid::Invalid;

/// Longest namespace name, in characters (all ASCII).
pub const NAMESPACE_CHARS_MAX: usize = 100;
/// Longest timer id, in bytes of UTF-8.
pub const TIMER_ID_BYTES_MAX: usize = 256;
/// The allowed namespace names, for error messages.
pub const NAMESPACE_ALLOWED: &str =
    "1 to 100 characters of A-Z a-z 0-9 . _ -, starting with a letter or a digit";
/// The allowed timer ids, for error messages.
pub const TIMER_ID_ALLOWED: &str =
    "1 to 256 bytes of UTF-8 without control characters, and neither \".\" nor \"..\"";

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

checked_text! {
    /// The name of a namespace: `[A-Za-z0-9][A-Za-z0-9._-]{0,99}`, case-sensitive.
    NamespaceName
}

checked_text! {
    /// The id of a timer, unique in its namespace: 1–256 bytes of UTF-8, no control characters, not `.` or
    /// `..`, compared byte for byte.
    TimerId
}

impl NamespaceName {
    /// Creates a name from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let mut bytes = text.bytes();
        let first_fits = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest_fits = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if first_fits && rest_fits && text.len() <= NAMESPACE_CHARS_MAX {
            Ok(Self(Arc::from(text)))
        } else {
            Err(Invalid::new("namespace", text, NAMESPACE_ALLOWED))
        }
    }
}

impl TimerId {
    /// Creates an id from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let length_fits = (1..=TIMER_ID_BYTES_MAX).contains(&text.len());
        if length_fits && !text.chars().any(char::is_control) && text != "." && text != ".." {
            Ok(Self(Arc::from(text)))
        } else {
            Err(Invalid::new("id", text, TIMER_ID_ALLOWED))
        }
    }

    /// Creates a UUIDv7 from the given time and randomness, for a timer whose caller chose no id.
    pub fn generate(now: crate::Timestamp, random: [u8; 10]) -> Self {
        let uuid = uuid::Builder::from_unix_timestamp_millis(now.unix_ms(), &random).into_uuid();
        Self(Arc::from(uuid.hyphenated().to_string()))
    }
}

/// 64 random bits of each created or replaced timer. They distinguish it from earlier timers with the same
/// id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

#[cfg(test)]
mod tests;
