//! The wire format of gRPC: messages of [`duly_proto::v1`] from and to what JSON is read into and
//! written from.
//!
//! A message becomes the same `…In` value that a JSON body is read into, and is checked by the same
//! `check`: no rule stands here, and a field at fault has the same path. What is new is what only
//! protobuf can express: numbers of enums that nobody knows, parts of a second that are none, a
//! payload as bytes. Called by [`crate::grpc`].

pub(crate) mod destination;
pub(crate) mod filter;
pub(crate) mod firing;
pub(crate) mod letters;
pub(crate) mod list;
pub(crate) mod namespace;
pub(crate) mod operation;
pub(crate) mod payload;
pub(crate) mod problem;
pub(crate) mod result;
pub(crate) mod retry;
pub(crate) mod settlement;
pub(crate) mod stats;
pub(crate) mod time;
pub(crate) mod timer;

use duly_core::{Invalid, headers};
use duly_proto::v1;

use super::Headers;

/// Headers as a caller wrote them; none where the list is empty.
fn headers_in(headers: Vec<v1::Header>) -> Option<Headers> {
    // One more than allowed is enough for the checker to refuse them.
    let pairs = headers.into_iter().take(headers::COUNT_MAX + 1);
    let pairs: Vec<_> = pairs.map(|header| (header.name, header.value)).collect();
    (!pairs.is_empty()).then_some(Headers(pairs))
}

/// Headers in an answer.
fn headers_out(headers: &headers::Headers) -> Vec<v1::Header> {
    let header =
        |(name, value): (&str, &str)| v1::Header { name: name.into(), value: value.into() };
    headers.iter().map(header).collect()
}

/// The value that the number of an enum stands for.
fn known<T: TryFrom<i32>>(field: &str, number: i32) -> Result<T, Invalid> {
    T::try_from(number)
        .map_err(|_| Invalid::new(field, number, "a value of its enum (see the .proto files)"))
}
