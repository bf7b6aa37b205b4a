//! A field of a change: absent keeps, `null` resets, a value replaces whole.

use duly_core::{Invalid, schedule::Change};
use serde::{Deserialize, Deserializer};

/// What a body says of one field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// Nothing.
    #[default]
    Absent,
    /// `null`.
    Null,
    /// A value.
    Value(T),
}

impl<T> Field<T> {
    /// As a change, with the value checked.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn into_change<U>(
        self,
        check: impl FnOnce(T) -> Result<U, Invalid>,
    ) -> Result<Change<U>, Invalid> {
        Ok(match self {
            Self::Absent => Change::Keep,
            Self::Null => Change::Reset,
            Self::Value(value) => Change::Set(check(value)?),
        })
    }

    /// Whether the body says something of it.
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Option::deserialize(deserializer)? {
            Some(value) => Self::Value(value),
            None => Self::Null,
        })
    }
}
