//! Durations on the wire: `"2h30m"` or 0 in, the text form out.

use std::fmt;

use duly_core::{Invalid, Millis, duration::ALLOWED};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A duration as a caller wrote it; checked by [`Duration::check`], which knows the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duration {
    /// `"2h30m"`.
    Text(String),
    /// A number without a unit, from JSON or a query.
    Bare(i128),
    /// Milliseconds, from a form that names the unit.
    Ms(i128),
}

impl Duration {
    /// The duration it names.
    ///
    /// # Errors
    /// When it names none; the error names `field`.
    pub fn check(&self, field: &str) -> Result<Millis, Invalid> {
        match self {
            Self::Text(text) => Millis::parse(text),
            Self::Bare(number) => Millis::from_bare_integer(*number),
            Self::Ms(ms) => Millis::from_integer(*ms),
        }
        .map_err(|invalid| invalid.within(field))
    }

    /// The duration it names, which must lie in `low..=high`.
    ///
    /// # Errors
    /// As [`Duration::check`], and when it lies outside.
    pub fn check_within(&self, field: &str, low: Millis, high: Millis) -> Result<Millis, Invalid> {
        self.check(field)?.within(low, high).map_err(|invalid| invalid.within(field))
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ALLOWED)
            }

            fn visit_str<E>(self, text: &str) -> Result<Duration, E> {
                Ok(Duration::Text(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Duration, E> {
                Ok(Duration::Bare(i128::from(number)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Duration, E> {
                Ok(Duration::Bare(i128::from(number)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl utoipa::PartialSchema for Duration {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        super::schema::duration()
    }
}

impl ToSchema for Duration {
    fn name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
}

/// A duration in an answer.
#[derive(Debug, Clone, Copy)]
pub struct DurationOut(pub Millis);

impl Serialize for DurationOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<Millis> for DurationOut {
    fn from(duration: Millis) -> Self {
        Self(duration)
    }
}
