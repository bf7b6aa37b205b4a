//! Numbers of the configuration with their bounds and their default in the type: integers, sizes,
//! durations.
//!
//! The default is checked against the bounds when it is compiled, a value when it is read. The
//! environment and flags know only text, so every number is read from text as well.

use std::time::Duration;

use duly_core::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub(super) const KIB: u64 = 1024;
pub(super) const MIB: u64 = 1024 * KIB;
pub(super) const GIB: u64 = 1024 * MIB;
pub(super) const TIB: u64 = 1024 * GIB;

const BYTE_UNITS: [(&str, u64); 4] = [("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];

/// The forms that a number is read from.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

/// Declares a number: its name, the function that reads it from text, its schema by its bounds.
macro_rules! bounded {
    ($(#[$meta:meta])* $name:ident, $parse:expr, $schema:expr) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "NumberOrText")]
        $(#[$meta])*
        pub struct $name<const LOW: u64, const HIGH: u64, const DEFAULT: u64 = LOW>(u64);

        impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> Default
            for $name<LOW, HIGH, DEFAULT>
        {
            fn default() -> Self {
                const { assert!(LOW <= DEFAULT && DEFAULT <= HIGH) };
                Self(DEFAULT)
            }
        }

        impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> $name<LOW, HIGH, DEFAULT> {
            /// Returns the plain number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Lowers it to `most`, but not below its lower bound.
            pub fn lower_to(&mut self, most: u64) {
                self.0 = self.0.min(most).max(LOW);
            }
        }

        bounded!($name, as_usize usize, as_u32 u32, as_u16 u16, as_u8 u8);

        impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> TryFrom<NumberOrText>
            for $name<LOW, HIGH, DEFAULT>
        {
            type Error = &'static str;

            fn try_from(written: NumberOrText) -> Result<Self, Self::Error> {
                let parse: fn(&str) -> Option<u64> = $parse;
                let number = match written {
                    NumberOrText::Number(number) => Some(number),
                    NumberOrText::Text(text) => parse(text.trim()),
                };
                let within = number.filter(|number| (LOW..=HIGH).contains(number));
                within.map(Self).ok_or("out of bounds")
            }
        }

        impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> JsonSchema
            for $name<LOW, HIGH, DEFAULT>
        {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                format!(concat!(stringify!($name), "_{}_{}"), LOW, HIGH).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let schema: fn(u64, u64) -> Schema = $schema;
                schema(LOW, HIGH)
            }
        }
    };
    ($name:ident, $($function:ident $integer:ident),*) => {
        impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> $name<LOW, HIGH, DEFAULT> { $(
            #[doc = concat!("Returns the plain number as `", stringify!($integer), "`.")]
            pub const fn $function(self) -> $integer {
                const { assert!(HIGH <= $integer::MAX as u64) };
                self.0 as $integer
            }
        )* }
    };
}

bounded!(
    /// An integer with its lower bound, upper bound and default.
    Integer,
    |text| text.parse().ok(),
    |low, high| json_schema!({ "type": "integer", "minimum": low, "maximum": high })
);

bounded!(
    /// A number of bytes, read from a number or from text such as `32MiB`.
    Bytes,
    |text| {
        let unit = |(name, unit)| Some((text.strip_suffix(name)?, unit));
        match BYTE_UNITS.into_iter().find_map(unit) {
            Some((number, unit)) => number.trim().parse::<u64>().ok()?.checked_mul(unit),
            None => text.parse().ok(),
        }
    },
    |low, high| json_schema!({
        "format": "bytes",
        "unit": "bytes, or text with KiB, MiB, GiB or TiB",
        "allowed": format!(
            "a number of bytes from {} to {}, such as 65536, 64KiB, 32MiB or 2GiB",
            bytes_text(low),
            bytes_text(high)
        ),
    })
);

bounded!(
    /// A duration in milliseconds, read from a number or from text such as `1m30s`.
    #[serde(into = "String")]
    TimeSpan,
    |text| text.parse().ok().or_else(|| Millis::parse(text).ok().map(Millis::ms)),
    |low, high| json_schema!({
        "unit": "milliseconds, or text with d, h, m, s and ms",
        "allowed": format!(
            "a duration from {} to {}, such as 30s or 1m30s",
            Millis::from_ms(low),
            Millis::from_ms(high)
        ),
    })
);

impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> TimeSpan<LOW, HIGH, DEFAULT> {
    /// Returns it as a standard duration.
    pub const fn to_std(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<const LOW: u64, const HIGH: u64, const DEFAULT: u64> From<TimeSpan<LOW, HIGH, DEFAULT>>
    for String
{
    fn from(span: TimeSpan<LOW, HIGH, DEFAULT>) -> Self {
        Millis::from_ms(span.0).to_string()
    }
}

/// Returns a number of bytes as text, in the largest unit that it is a whole multiple of.
pub(super) fn bytes_text(bytes: u64) -> String {
    match BYTE_UNITS.iter().find(|(_, unit)| bytes != 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}
