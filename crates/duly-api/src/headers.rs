//! Headers: a JSON object of texts in the caller's order, a list in protobuf. No name comes twice.

use std::fmt;

use duly_core::{Invalid, headers};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess},
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

use crate::schema;

/// Text that replaces a value that is not shown.
pub const REDACTED: &str = "***";

/// The form of a destination: with or without its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialsForm {
    /// [`REDACTED`] replaces them.
    Redacted,
    /// They are shown: a moved timer must be deliverable.
    Whole,
}

/// A header.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Header {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

impl From<(&str, &str)> for Header {
    fn from((name, value): (&str, &str)) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}

/// Headers that replace all present ones.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HeaderList {
    /// The headers.
    #[prost(message, repeated, tag = "1")]
    #[serde(with = "self")]
    pub headers: Vec<Header>,
}

impl PartialSchema for HeaderList {
    fn schema() -> RefOr<Schema> {
        schema::headers()
    }
}

impl ToSchema for HeaderList {
    fn name() -> std::borrow::Cow<'static, str> {
        "Headers".into()
    }
}

/// Returns headers of the core, checked; an error names the header below `headers`.
///
/// # Errors
/// When a name or value is not allowed, or there are too many headers.
pub(crate) fn check(given: Vec<Header>) -> Result<headers::Headers, Invalid> {
    let pairs = given.into_iter().map(|header| (header.name, header.value));
    headers::Headers::new(pairs).map_err(|invalid| invalid.within("headers"))
}

/// Returns headers of the core as a message has them.
pub(crate) fn shown(headers: &headers::Headers) -> Vec<Header> {
    headers.iter().map(Header::from).collect()
}

/// Removes names that callers may not choose any more and that deliveries leave out: exports of earlier
/// versions have them.
pub(crate) fn remove_forwarded(headers: &mut Vec<Header>) {
    headers.retain(|header| !headers::is_forwarded(&header.name.to_ascii_lowercase()));
}

/// Writes headers as a JSON object.
pub(crate) fn serialize<S: Serializer>(
    headers: &[Header],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|header| (&header.name, &header.value)))
}

/// Reads headers from a JSON object.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Header>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Vec<Header>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object of header names and text values")
        }

        fn visit_unit<E>(self) -> Result<Vec<Header>, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Header>, A::Error> {
            let mut headers: Vec<Header> = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, String>()? {
                // One more than allowed is enough to refuse them.
                if headers.len() > headers::COUNT_MAX {
                    continue;
                }
                if headers.iter().any(|known| known.name == name) {
                    return Err(de::Error::custom(format!("duplicate field `{name}`")));
                }
                headers.push(Header { name, value });
            }
            Ok(headers)
        }
    }

    deserializer.deserialize_any(Visitor)
}
