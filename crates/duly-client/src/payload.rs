//! What a timer carries: bytes, with the form in which they were given.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::error::Invalid;

/// In which form a payload was given; it decides the content type of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadForm {
    /// Any bytes: `application/octet-stream`, and `payload_base64` over HTTP.
    Bytes,
    /// UTF-8 text: `text/plain; charset=utf-8`, and `payload_text` over HTTP.
    Text,
    /// The text of one JSON value: `application/json`, and `payload` over HTTP.
    Json,
}

/// What a timer carries; it is delivered byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The bytes themselves.
    pub bytes: Bytes,
    /// How they were given.
    pub form: PayloadForm,
}

impl Payload {
    /// A value as JSON. Fails when it cannot be written as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, Invalid> {
        let text = serde_json::to_vec(value).map_err(|error| {
            Invalid::unseen("payload", format!("a value that can be written as JSON ({error})"))
        })?;
        Ok(Self { bytes: text.into(), form: PayloadForm::Json })
    }

    /// The text of one JSON value, which is kept as it is; the server checks it.
    pub fn json_text(text: impl Into<String>) -> Self {
        Self { bytes: text.into().into(), form: PayloadForm::Json }
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { bytes: text.into().into(), form: PayloadForm::Text }
    }

    /// Any bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), form: PayloadForm::Bytes }
    }

    /// Reads it as JSON, whatever form it was given in.
    pub fn to_json<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        serde_json::from_slice(&self.bytes).map_err(|error| {
            let seen = String::from_utf8_lossy(&self.bytes);
            Invalid::new("payload", seen, format!("JSON of the expected shape ({error})"))
        })
    }

    /// Reads it as text. Fails when it is not UTF-8.
    pub fn to_text(&self) -> Result<&str, Invalid> {
        std::str::from_utf8(&self.bytes)
            .map_err(|error| Invalid::unseen("payload", format!("UTF-8 text ({error})")))
    }
}
