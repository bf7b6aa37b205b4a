//! Headers on the wire: a JSON object of text, kept in the caller's order, no name twice.

use std::fmt;

use duly_core::{Invalid, headers};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess},
    ser::SerializeMap,
};

/// Headers as a caller wrote them; checked by [`Headers::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub(super) Vec<(String, String)>);

impl Headers {
    /// Removes what callers may not choose any more and a delivery leaves out, from a timer of another
    /// server: an export that was made before is taken.
    pub(super) fn without_forwarded(mut self) -> Self {
        self.0.retain(|(name, _)| !headers::is_forwarded(&name.to_ascii_lowercase()));
        self
    }

    /// Checks them; the error names the header below `field`.
    ///
    /// # Errors
    /// When a name or value is not allowed, or they are too many.
    pub fn check(self, field: &str) -> Result<headers::Headers, Invalid> {
        let pairs = self.0.clone();
        headers::Headers::new(self.0).map_err(|mut invalid| {
            if invalid.field.is_empty() && invalid.seen.is_some() {
                // The checker shows the name it refuses; the path has it as the caller wrote it.
                let refused = pairs.into_iter().find(|(name, value)| {
                    headers::Headers::new([(name.clone(), value.clone())]).is_err()
                });
                invalid.field = refused.map(|(name, _)| name).unwrap_or_default();
            }
            invalid.within(field)
        })
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Headers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object of header names and text values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    // One more than allowed is enough for the checker to refuse them.
                    if pairs.len() > headers::COUNT_MAX {
                        continue;
                    }
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!("duplicate field `{name}`")));
                    }
                    pairs.push((name, value));
                }
                Ok(Headers(pairs))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// What stands in answers for a value that is not shown.
pub const REDACTED: &str = "***";

/// Whether an answer shows the credentials of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// [`REDACTED`] stands in their place.
    Redacted,
    /// It does: what is moved must be deliverable.
    Whole,
}

/// Headers of a destination in an answer.
#[derive(Debug, Clone, Copy)]
pub struct DestinationHeadersOut<'a>(pub &'a headers::Headers, pub Credentials);

impl Serialize for DestinationHeadersOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hides = |name| self.1 == Credentials::Redacted && !headers::is_shown(name);
        serializer.collect_map(
            self.0.iter().map(|(name, value)| (name, if hides(name) { REDACTED } else { value })),
        )
    }
}

/// Headers in an answer, whole: those of a timer, which are the caller's data.
#[derive(Debug, Clone, Copy)]
pub struct HeadersOut<'a>(pub &'a headers::Headers);

impl Serialize for HeadersOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
