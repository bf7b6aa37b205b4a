//! Payloads: three forms in, the same form out, byte for byte (P11).
//!
//! | JSON | protobuf | holds |
//! |---|---|---|
//! | `payload` | `payload_json` | one JSON value, as its exact text |
//! | `payload_text` | `payload_text` | UTF-8 text |
//! | `payload_base64` | `payload_bytes` | bytes; in JSON standard, padded base64 |
//!
//! 1. A timer has at most one of them.
//! 2. Arrays and objects of a JSON payload are nested at most [`DEPTH_MAX`] deep. Responses hold it
//!    inside lists and leases, and a payload that a reader's parser refuses would make the whole
//!    response unreadable.

use std::fmt;

use base64::{Engine, display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use duly_core::{Invalid, Payload, payload::Form};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// Most levels of arrays and objects in a JSON payload. Common parsers accept 64 to 128 levels in all.
pub const DEPTH_MAX: usize = 64;

/// The form in which a message was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFormat {
    /// JSON: its JSON and text fields are valid, because the body has been parsed.
    Json,
    /// Protobuf: each field may hold any bytes.
    Protobuf,
}

/// The three fields of a message.
#[derive(Debug, Default)]
pub(crate) struct PayloadFields {
    pub(crate) json: Option<Bytes>,
    pub(crate) text: Option<Bytes>,
    pub(crate) base64: Option<Bytes>,
}

impl PayloadFields {
    /// Returns the fields of a payload.
    pub(crate) fn of(payload: Option<&Payload>) -> Self {
        let mut forms = Self::default();
        if let Some(Payload { form, bytes }) = payload {
            let field = match form {
                Form::Json => &mut forms.json,
                Form::Text => &mut forms.text,
                Form::Binary => &mut forms.base64,
            };
            *field = Some(bytes.clone());
        }
        forms
    }

    /// Returns the payload, if there is one.
    ///
    /// # Errors
    /// When there are two payloads, when a text or JSON field is invalid, or when the JSON is nested too
    /// deep.
    pub(crate) fn check(self, source: MessageFormat) -> Result<Option<Payload>, Invalid> {
        let fields = [
            ("payload", Form::Json, self.json),
            ("payload_text", Form::Text, self.text),
            ("payload_base64", Form::Binary, self.base64),
        ];
        let mut given = fields
            .into_iter()
            .filter_map(|(name, form, bytes)| Some((name, Payload { form, bytes: bytes? })));
        let Some((first, payload)) = given.next() else {
            return Ok(None);
        };
        if let Some((second, _)) = given.next() {
            let allowed = format!("left out where {first} is given: a timer has one payload");
            return Err(Invalid::unseen(second, allowed));
        }
        if source == MessageFormat::Protobuf {
            check_form(&payload)?;
        }
        if payload.form == Form::Json {
            check_depth(&payload.bytes)?;
        }
        Ok(Some(payload))
    }
}

/// Refuses invalid UTF-8 and invalid JSON: no response in JSON could show it.
fn check_form(payload: &Payload) -> Result<(), Invalid> {
    match payload.form {
        Form::Text if std::str::from_utf8(&payload.bytes).is_err() => {
            Err(Invalid::unseen("payload_text", "UTF-8"))
        }
        Form::Json if serde_json::from_slice::<&RawValue>(&payload.bytes).is_err() => {
            Err(Invalid::unseen("payload", "the text of one JSON value"))
        }
        _ => Ok(()),
    }
}

fn check_depth(json: &[u8]) -> Result<(), Invalid> {
    let depth = depth(json);
    if depth <= DEPTH_MAX {
        return Ok(());
    }
    let allowed = format!(
        "JSON whose arrays and objects are nested at most {DEPTH_MAX} levels deep: payload_text and \
         payload_base64 take anything"
    );
    Err(Invalid::plain("payload", format!("{depth} levels"), allowed))
}

/// Returns the depth of nested arrays and objects of a valid JSON text; 0 for a bare value.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        // An escaped quote does not end the text.
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

/// `payload` as a JSON value; `null` is a value like any other.
pub(crate) mod json {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(
        json: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = json.as_deref().unwrap_or(b"null");
        let raw: &RawValue = serde_json::from_slice(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Some(Bytes::copy_from_slice(raw.get().as_bytes())))
    }
}

/// `payload` of a change, where `null` removes the payload.
pub(crate) mod json_or_null {
    use super::*;
    pub(crate) use json::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let raw = Option::<&RawValue>::deserialize(deserializer)?;
        Ok(raw.map(|raw| Bytes::copy_from_slice(raw.get().as_bytes())))
    }
}

/// `payload_text` as JSON text.
pub(crate) mod text {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(
        text: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(text.as_deref().unwrap_or_default());
        serializer.serialize_str(text.map_err(serde::ser::Error::custom)?)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Bytes::from))
    }
}

/// `payload_base64` as JSON text.
pub(crate) mod base64_text {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = bytes.as_deref().unwrap_or_default();
        serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Option<Bytes>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64 with the standard alphabet (A-Z a-z 0-9 + /) and padding")
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
                inner.deserialize_str(self)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let bytes = STANDARD.decode(text);
                let refused = |_| E::invalid_value(de::Unexpected::Str(text), &self);
                bytes.map(|bytes| Some(Bytes::from(bytes))).map_err(refused)
            }
        }

        deserializer.deserialize_option(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    fn check(text: &str) -> Result<Option<Payload>, Invalid> {
        let json = Some(Bytes::copy_from_slice(text.as_bytes()));
        PayloadFields { json, ..PayloadFields::default() }.check(MessageFormat::Protobuf)
    }

    #[test]
    fn p10_json_payloads_have_a_depth_limit() {
        assert!(check(&nested(DEPTH_MAX)).is_ok());
        for levels in [DEPTH_MAX + 1, 126, 1_000_000] {
            let invalid = check(&nested(levels)).unwrap_err();
            assert_eq!(invalid.field, "payload");
            assert_eq!(invalid.seen, Some(format!("{levels} levels")));
            assert!(invalid.allowed.contains("at most 64 levels"), "{invalid}");
            assert!(invalid.allowed.contains("payload_text and payload_base64"), "{invalid}");
        }
    }

    #[test]
    fn p11_text_and_json_over_protobuf_are_what_they_are_called() {
        assert_eq!(check("{").unwrap_err().field, "payload");
        let text = Some(Bytes::from_static(b"\xff"));
        let forms = PayloadFields { text, ..PayloadFields::default() };
        assert_eq!(forms.check(MessageFormat::Protobuf).unwrap_err().field, "payload_text");
    }

    #[test]
    fn brackets_inside_texts_are_no_levels() {
        for (text, levels) in [
            ("null", 0),
            (r#""[[[{{{""#, 0),
            (r#"["\"[[", "\\", {"}]\\\"[": []}]"#, 3),
            (r#"[[],{},[{}]]"#, 3),
        ] {
            assert_eq!(depth(text.as_bytes()), levels, "{text}");
        }
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            r#"[\[\]{}"\\a]{0,6}"#.prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 40, 4, |inner| {
            let key = r#"[\[\]{}"\\a]{0,4}"#;
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
                proptest::collection::btree_map(key, inner, 0..4).prop_map(|fields| json!(fields)),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_scan_finds_the_depth_that_a_parser_finds(value in any_json()) {
            prop_assert_eq!(depth(value.to_string().as_bytes()), depth_of(&value));
            prop_assert_eq!(depth(format!("{value:#}").as_bytes()), depth_of(&value));
        }
    }
}
