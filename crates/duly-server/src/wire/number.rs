//! Numbers on the wire: whole ones that no float can pass for, and real ones.

use std::fmt;

use duly_core::Invalid;
use serde::{Deserialize, Deserializer, de};
use utoipa::ToSchema;

/// A whole number as a caller wrote it; checked against its bounds by [`Integer::within`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer(pub i128);

impl Integer {
    /// The number, which must lie in `low..=high`.
    ///
    /// # Errors
    /// When it lies outside; the error names `field` and both ends.
    pub fn within(self, field: &str, low: u64, high: u64) -> Result<u64, Invalid> {
        u64::try_from(self.0).ok().filter(|number| (low..=high).contains(number)).ok_or_else(|| {
            Invalid {
                field: field.to_owned(),
                seen: Some(self.0.to_string()),
                allowed: if high == u64::MAX {
                    format!("an integer from {low}")
                } else {
                    format!("an integer from {low} to {high}")
                },
            }
        })
    }

    /// [`Integer::within`] for numbers of 32 bits.
    ///
    /// # Errors
    /// As [`Integer::within`].
    pub fn within_u32(self, field: &str, low: u32, high: u32) -> Result<u32, Invalid> {
        let number = self.within(field, u64::from(low), u64::from(high))?;
        Ok(u32::try_from(number).unwrap_or(high))
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Integer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Integer, E> {
                Ok(Integer(i128::from(number)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(i128::from(number)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl utoipa::PartialSchema for Integer {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        super::schema::integer()
    }
}

impl ToSchema for Integer {
    fn name() -> std::borrow::Cow<'static, str> {
        "Integer".into()
    }
}

/// Reads a real number; whole ones are real, too.
///
/// # Errors
/// When it is no number.
pub fn real<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Option<f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number")
        }

        fn visit_unit<E>(self) -> Result<Option<f64>, E> {
            Ok(None)
        }

        fn visit_f64<E>(self, number: f64) -> Result<Option<f64>, E> {
            Ok(Some(number))
        }

        #[expect(clippy::cast_precision_loss)]
        fn visit_u64<E>(self, number: u64) -> Result<Option<f64>, E> {
            Ok(Some(number as f64))
        }

        #[expect(clippy::cast_precision_loss)]
        fn visit_i64<E>(self, number: i64) -> Result<Option<f64>, E> {
            Ok(Some(number as f64))
        }
    }

    deserializer.deserialize_any(Visitor)
}
