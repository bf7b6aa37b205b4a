//! Points in time on the wire: RFC 3339 text or integer Unix milliseconds in, UTC text with three
//! decimals out.

use std::fmt;

use duly_core::{Invalid, Timestamp, time::ALLOWED};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A time as a caller wrote it; checked by [`Time::check`], which knows the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Time {
    /// RFC 3339.
    Text(String),
    /// A number, from JSON or a query.
    Bare(i128),
    /// Unix milliseconds, from a form that names the unit.
    Ms(i128),
}

impl Time {
    /// The time it names.
    ///
    /// # Errors
    /// When it names none between 1970 and 2200; the error names `field`.
    pub fn check(&self, field: &str) -> Result<Timestamp, Invalid> {
        match self {
            Self::Text(text) => Timestamp::parse(text),
            Self::Bare(number) => Timestamp::from_bare_integer(*number),
            Self::Ms(ms) => Timestamp::from_integer(*ms),
        }
        .map_err(|invalid| invalid.within(field))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ALLOWED)
            }

            fn visit_str<E>(self, text: &str) -> Result<Time, E> {
                Ok(Time::Text(text.to_owned()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Time, E> {
                Ok(Time::Bare(i128::from(number)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Time, E> {
                Ok(Time::Bare(i128::from(number)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        super::schema::time()
    }
}

impl ToSchema for Time {
    fn name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }
}

/// A time in an answer.
#[derive(Debug, Clone, Copy)]
pub struct TimeOut(pub Timestamp);

impl Serialize for TimeOut {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<Timestamp> for TimeOut {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}
