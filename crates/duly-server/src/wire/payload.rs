//! Payloads on the wire: three forms in, the same form out, byte for byte (P11).
//!
//! `payload` is any JSON value, kept as its exact text; `payload_text` is text; `payload_base64` is
//! bytes in standard, padded base64. At most one of them.
//!
//! A JSON payload is nested at most [`DEPTH_MAX`] deep: it stands inside the answers of lists and
//! leases, and one that its readers' parsers refuse would take the innocent ones beside it along.

use std::{borrow::Cow, fmt};

use base64::{Engine, display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use duly_core::{Invalid, Payload, payload::Form};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// How deep arrays and objects of a JSON payload may be nested. Common parsers take 64 to 128 in all.
pub const DEPTH_MAX: usize = 64;

/// Text of a body, which is not copied where nothing in it is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextIn<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for TextIn<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TextIn<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<TextIn<'de>, E> {
                Ok(TextIn(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextIn<'de>, E> {
                Ok(TextIn(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// The three forms, as far as a body has them.
#[derive(Debug, Default)]
pub struct Forms<'a> {
    /// `payload`.
    pub json: Option<&'a RawValue>,
    /// `payload_text`.
    pub text: Option<TextIn<'a>>,
    /// `payload_base64`.
    pub base64: Option<TextIn<'a>>,
    /// None of them: the payload itself.
    pub given: Option<Payload>,
}

impl Forms<'_> {
    /// The payload, if there is one.
    ///
    /// # Errors
    /// When there are two, the JSON is nested too deep, or the base64 is not right.
    pub fn check(self) -> Result<Option<Payload>, Invalid> {
        let given = [
            ("payload", self.json.is_some()),
            ("payload_text", self.text.is_some()),
            ("payload_base64", self.base64.is_some()),
        ];
        let mut given = given.iter().filter(|(_, is_given)| *is_given);
        if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
            return Err(Invalid::unseen(
                *second,
                format!("left out where {first} is given: a timer has one payload"),
            ));
        }
        if self.given.is_some() {
            return Ok(self.given);
        }
        let payload = |form, bytes| Some(Payload { form, bytes });
        if let Some(json) = self.json {
            check_depth(json.get().as_bytes(), "payload_text and payload_base64 take anything")?;
            return Ok(payload(Form::Json, Bytes::copy_from_slice(json.get().as_bytes())));
        }
        if let Some(text) = self.text {
            return Ok(payload(Form::Text, Bytes::from(text.0.into_owned())));
        }
        let Some(encoded) = self.base64 else {
            return Ok(None);
        };
        match STANDARD.decode(encoded.0.as_bytes()) {
            Ok(bytes) => Ok(payload(Form::Binary, Bytes::from(bytes))),
            Err(_) => Err(Invalid::new(
                "payload_base64",
                encoded.0,
                "base64 with the standard alphabet (A-Z a-z 0-9 + /) and padding",
            )),
        }
    }
}

/// Refuses well-formed JSON that is nested too deep; `instead` says what takes it.
///
/// # Errors
/// When it is.
pub(super) fn check_depth(json: &[u8], instead: &str) -> Result<(), Invalid> {
    let depth = depth(json);
    if depth <= DEPTH_MAX {
        return Ok(());
    }
    Err(Invalid {
        field: "payload".to_owned(),
        seen: Some(format!("{depth} levels")),
        allowed: format!(
            "JSON whose arrays and objects are nested at most {DEPTH_MAX} levels deep: {instead}"
        ),
    })
}

/// How deep the arrays and objects of a well-formed JSON text are nested; a bare value is 0.
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
                        // Whatever is escaped does not end the text.
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

/// Reads `payload` where `null` is a value like any other.
///
/// # Errors
/// When it is not JSON.
pub fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// The payload's JSON text, if it was given as JSON.
pub fn json_of(payload: Option<&Payload>) -> Option<JsonOut<'_>> {
    of_form(payload, Form::Json).map(JsonOut)
}

/// The payload's text, if it was given as text.
pub fn text_of(payload: Option<&Payload>) -> Option<TextOut<'_>> {
    of_form(payload, Form::Text).map(TextOut)
}

/// The payload's bytes, if they were given as bytes.
pub fn base64_of(payload: Option<&Payload>) -> Option<Base64Out<'_>> {
    of_form(payload, Form::Binary).map(Base64Out)
}

fn of_form(payload: Option<&Payload>, form: Form) -> Option<&[u8]> {
    payload.filter(|payload| payload.form == form).map(|payload| &payload.bytes[..])
}

/// JSON text, written as it is.
#[derive(Debug, Clone, Copy)]
pub struct JsonOut<'a>(&'a [u8]);

impl Serialize for JsonOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Text.
#[derive(Debug, Clone, Copy)]
pub struct TextOut<'a>(pub(super) &'a [u8]);

impl Serialize for TextOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(text)
    }
}

/// Bytes, written as base64.
#[derive(Debug, Clone, Copy)]
pub struct Base64Out<'a>(&'a [u8]);

impl Serialize for Base64Out<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
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
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        Forms { json: Some(raw), ..Forms::default() }.check()
    }

    #[test]
    fn p10_a_json_payload_is_nested_so_deep_and_no_deeper() {
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
        fn the_scan_finds_what_a_parser_finds(value in any_json()) {
            prop_assert_eq!(depth(value.to_string().as_bytes()), depth_of(&value));
            prop_assert_eq!(depth(format!("{value:#}").as_bytes()), depth_of(&value));
        }
    }
}
