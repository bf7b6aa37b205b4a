//! The payload: bytes, and the form in which the caller gave them.
//!
//! The bytes are kept exactly (P11). The JSON form keeps the caller's own text, without re-encoding.

use bytes::Bytes;

/// Default payload limit of a namespace, in bytes as stored.
pub const PAYLOAD_BYTES_DEFAULT: u64 = 256 * 1024;
/// Maximum payload limit of any namespace, in bytes as stored.
pub const PAYLOAD_BYTES_HARD: u64 = 16 * 1024 * 1024;

/// The form in which the payload was given. The API returns it in the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `payload`: a JSON value, kept as its exact text.
    Json,
    /// `payload_text`: a text.
    Text,
    /// `payload_base64`, kept decoded.
    Binary,
}

impl Form {
    /// Returns the content type of deliveries, unless the timer's headers set another one.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Binary => "application/octet-stream",
        }
    }
}

/// The content of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The form in which it was given.
    pub form: Form,
    /// The exact bytes.
    pub bytes: Bytes,
}
