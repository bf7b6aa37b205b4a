//! Payloads on the wire: three forms in, the same form out, byte for byte (P11).
//!
//! `payload` is any JSON value, kept as its exact text; `payload_text` is text; `payload_base64` is
//! bytes in standard, padded base64. At most one of them.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use duly_core::{Invalid, Payload, payload::Form};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The three forms, as far as a body has them.
#[derive(Debug, Default)]
pub struct Forms<'a> {
    /// `payload`.
    pub json: Option<&'a RawValue>,
    /// `payload_text`.
    pub text: Option<String>,
    /// `payload_base64`.
    pub base64: Option<String>,
}

impl Forms<'_> {
    /// The payload, if there is one.
    ///
    /// # Errors
    /// When there are two, or the base64 is not right.
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
        let payload = |form, bytes| Some(Payload { form, bytes });
        if let Some(json) = self.json {
            return Ok(payload(Form::Json, Bytes::copy_from_slice(json.get().as_bytes())));
        }
        if let Some(text) = self.text {
            return Ok(payload(Form::Text, Bytes::from(text)));
        }
        let Some(encoded) = self.base64 else {
            return Ok(None);
        };
        match STANDARD.decode(&encoded) {
            Ok(bytes) => Ok(payload(Form::Binary, Bytes::from(bytes))),
            Err(_) => Err(Invalid::new(
                "payload_base64",
                encoded,
                "base64 with the standard alphabet (A-Z a-z 0-9 + /) and padding",
            )),
        }
    }
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
        serializer.serialize_str(&STANDARD.encode(self.0))
    }
}
