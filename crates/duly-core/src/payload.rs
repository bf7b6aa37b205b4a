//! The payload: bytes with the form in which they were given.
//!
//! The bytes are kept exactly (P11): the JSON form keeps the caller's own text, not a re-encoding.

use bytes::Bytes;

/// Default limit of a namespace, in bytes as stored.
pub const PAYLOAD_BYTES_DEFAULT: u64 = 256 * 1024;
/// Hard limit for any namespace, in bytes as stored.
pub const PAYLOAD_BYTES_HARD: u64 = 16 * 1024 * 1024;

/// In which form the payload was given; it is answered in the same form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `payload`: a JSON value, kept as its exact text.
    Json,
    /// `payload_text`.
    Text,
    /// `payload_base64`, kept decoded.
    Binary,
}

impl Form {
    /// The content type a delivery carries unless the timer's headers say otherwise.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Binary => "application/octet-stream",
        }
    }
}

/// What is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// The form in which it was given.
    pub form: Form,
    /// The exact bytes.
    pub bytes: Bytes,
}
