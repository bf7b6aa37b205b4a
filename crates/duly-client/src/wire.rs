//! Protobuf, and nothing but protobuf: values of this crate into messages, and messages back.
//!
//! What a message must have and has not is an [`Error::Answer`]; a time that does not exist is
//! refused before anything is sent.

pub(crate) mod answer;
pub(crate) mod destination;
pub(crate) mod many;
pub(crate) mod namespace;
pub(crate) mod request;
pub(crate) mod stats;
pub(crate) mod time;

use duly_proto::v1;

use crate::error::Error;

/// A part of an answer that must be there.
pub(crate) fn required<T>(what: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::answer(format!("it has no {what}")))
}

/// Headers in a message.
pub(crate) fn headers_out(headers: Vec<(String, String)>) -> Vec<v1::Header> {
    headers.into_iter().map(|(name, value)| v1::Header { name, value }).collect()
}

/// Headers of an answer, in their order.
pub(crate) fn headers_in(headers: Vec<v1::Header>) -> Vec<(String, String)> {
    headers.into_iter().map(|header| (header.name, header.value)).collect()
}
