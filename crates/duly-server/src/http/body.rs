//! Reads the body of a request within its bounds (P10).
//!
//! 1. One body has at most `server.body_bytes_max`.
//! 2. All bodies together, with the responses that are being written, have at most
//!    `server.request_memory_max`. Many slow clients therefore cannot fill the memory.
//! 3. Arrived bytes count, not the announced length: an announcement costs its sender nothing.
//! 4. A dropped [`JsonBody`] releases its memory.

use axum::{
    body::HttpBody,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use duly_core::{Code, invalid::shorten};
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::{Problem, target};
use crate::{memory::budget::Reservation, service::blocking::run_blocking};
use duly_api::json;

/// Media type of almost every body.
pub(super) const JSON: &str = "application/json";
/// Media type of bodies with one JSON value on each line.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody {
    /// The text. It is read by [`JsonBody::read`], which keeps long work off the threads that serve all
    /// callers.
    text: Bytes,
    /// The reserved memory of the body.
    reservation: Reservation,
}

impl JsonBody {
    /// Returns the bytes of the text.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Parses the text with [`JsonBody::read`].
    pub(super) async fn parse<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Problem> {
        self.read(|text| Ok(json::parse_body(text)?)).await
    }

    /// Reads a value that still holds a part of the text, such as the payload of a timer. Returns it
    /// with the memory reserved for it: keep both until nothing holds the text any more.
    pub(super) async fn read_held<T: Send + 'static>(
        mut self,
        read: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Reservation), Problem> {
        let bytes = self.text.len();
        self.reservation.grow_to(bytes.saturating_mul(copies(&self.text)))?;
        run_blocking(bytes, move || {
            let value = read(&self.text)?;
            let Self { text, mut reservation } = self;
            drop(text);
            reservation.shrink_to(bytes);
            Ok((value, reservation))
        })
        .await
    }

    /// Reads a value from the text, on another thread where that may take long, so that other requests
    /// do not wait (P9). Releases the text and its memory at the end.
    pub(super) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let bytes = self.text.len();
        run_blocking(bytes, move || {
            let value = read(&self.text);
            drop(self.reservation);
            value
        })
        .await
    }
}

/// Returns how often the memory of a JSON text is used while its payloads are read: the text and the
/// value. A text with escapes is assembled once more before.
pub(super) fn copies(text: &[u8]) -> usize {
    if text.contains(&b'\\') { 3 } else { 2 }
}

/// A missing body, or an empty JSON object.
#[derive(Debug)]
pub(crate) struct NoBody;

/// A JSON body, if there is one.
#[derive(Debug)]
pub(crate) struct MaybeBody(Option<JsonBody>);

impl MaybeBody {
    /// Parses the body; without one, returns the default.
    pub(super) async fn parse_or_default<T>(self) -> Result<T, Problem>
    where
        T: Default + DeserializeOwned + Send + 'static,
    {
        match self.0 {
            Some(body) => body.parse().await,
            None => Ok(T::default()),
        }
    }
}

impl<S: Sync> FromRequest<S> for MaybeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Self(None));
        }
        let is_json = check_content_type(request.headers(), &[JSON]);
        let body = read(request).await?;
        if body.text.is_empty() {
            return Ok(Self(None));
        }
        is_json?;
        Ok(Self(Some(body)))
    }
}

impl<S: Sync> FromRequest<S> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        check_content_type(request.headers(), &[JSON])?;
        read(request).await
    }
}

impl<S: Sync> FromRequest<S> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let MaybeBody(Some(body)) = MaybeBody::from_request(request, state).await? else {
            return Ok(Self);
        };
        if body.text.trim_ascii() == b"{}" {
            return Ok(Self);
        }
        let seen = shorten(&String::from_utf8_lossy(&body.text));
        let (detail, allowed) = ("the body must be empty, or {}", "empty, or {}");
        Err(Problem::new(Code::InvalidArgument, detail).at("body", Some(seen), allowed))
    }
}

async fn read(request: Request) -> Result<JsonBody, Problem> {
    let (parts, body) = request.into_parts();
    let admitted = target::admitted(&parts)?;
    let bytes_max = admitted.limits.body_bytes_max;
    let declared = body.size_hint().exact();
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large(bytes_max, "server.body_bytes_max"));
    }
    let budget = admitted.budget();
    let together = budget.largest_body();
    if declared.is_some_and(|bytes| bytes > together as u64) {
        return Err(too_large(together, budget.limit_name()));
    }
    let expected = declared.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(bytes_max);
    let mut reservation = budget.empty_reservation();
    let mut body = Limited::new(body, bytes_max);
    let mut text = BodyBuffer::default();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let part = frame.into_data().unwrap_or_default();
                reservation.grow_to(text.capacity_with(part.len(), expected))?;
                text.push(part, expected);
            }
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(too_large(bytes_max, "server.body_bytes_max"));
            }
            Err(error) => {
                let detail =
                    format!("the body could not be read to its end ({error}): send it whole");
                return Err(Problem::new(Code::InvalidArgument, detail));
            }
        }
    }
    Ok(JsonBody { text: text.finish(), reservation })
}

/// A body as it arrives. Most bodies have one part, which is not copied.
#[derive(Debug, Default)]
struct BodyBuffer {
    first: Bytes,
    whole: Option<BytesMut>,
}

impl BodyBuffer {
    fn push(&mut self, part: Bytes, expected: usize) {
        if self.whole.is_none() && self.first.is_empty() {
            self.first = part;
            return;
        }
        let capacity = self.capacity_with(part.len(), expected);
        if self.whole.as_ref().is_none_or(|whole| whole.capacity() < capacity) {
            let mut larger = BytesMut::with_capacity(capacity);
            larger.extend_from_slice(self.whole.as_deref().unwrap_or(&self.first));
            self.first = Bytes::new();
            self.whole = Some(larger);
        }
        if let Some(whole) = &mut self.whole {
            whole.extend_from_slice(&part);
        }
    }

    /// Returns the bytes of memory that are used with `more` further bytes.
    fn capacity_with(&self, more: usize, expected: usize) -> usize {
        match &self.whole {
            Some(whole) => grown(whole.capacity(), whole.len() + more, expected),
            None => self.first.len() + more,
        }
    }

    fn finish(self) -> Bytes {
        self.whole.map_or(self.first, BytesMut::freeze)
    }
}

/// Returns the capacity for `bytes`. It doubles, so that not every part is copied, up to the announced
/// length. A sender may announce more than it ever sends.
pub(super) fn grown(capacity: usize, bytes: usize, expected: usize) -> usize {
    if bytes <= capacity { capacity } else { bytes.max(capacity.saturating_mul(2).min(expected)) }
}

fn too_large(bytes_max: usize, key: &str) -> Problem {
    let remedy = format!("split the request, or raise {key}");
    Problem::too_large("body", "the body", bytes_max, &remedy)
}

/// Returns the content type, if it is one of `allowed`. Every other type is refused, so that no web page
/// can send a body without a preflight request.
pub(super) fn check_content_type(
    headers: &HeaderMap,
    allowed: &[&'static str],
) -> Result<&'static str, Problem> {
    let refuse = |seen: Option<&str>| {
        let seen = seen.map(shorten);
        let named = allowed.join(" or ");
        let (got, first) = (seen.as_deref().unwrap_or("none"), allowed[0]);
        let detail = format!(
            "content-type must be {named}; got {got}: send the header 'content-type: {first}'"
        );
        Problem::new(Code::UnsupportedMediaType, detail).at("content-type", seen, &named)
    };
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Err(refuse(None));
    };
    let text = value.to_str().map_err(|_| refuse(Some("unreadable")))?;
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let known = allowed.iter().find(|allowed| kind.eq_ignore_ascii_case(allowed));
    let is_utf8 = parts.all(|parameter| {
        parameter.is_empty()
            || parameter.split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("charset")
                    && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
    });
    match known {
        Some(known) if is_utf8 => Ok(known),
        _ => Err(refuse(Some(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sent_values_are_quoted() {
        let detail = |headers: &HeaderMap| {
            let problem = check_content_type(headers, &["application/json"]).err();
            problem.expect("refused").into_body().detail
        };
        let mut headers = HeaderMap::new();
        assert!(detail(&headers).contains("; got none: send"), "{}", detail(&headers));
        headers.insert(CONTENT_TYPE, "none".parse().expect("a value"));
        assert!(detail(&headers).contains("; got \"none\": send"), "{}", detail(&headers));
    }

    #[test]
    fn p10_memory_follows_arrived_bytes_not_announced_ones() {
        const PART: Bytes = Bytes::from_static(&[b'x'; 1_000]);
        const ANNOUNCED: usize = 70_500;
        let mut text = BodyBuffer::default();
        for parts in 1..=70 {
            let capacity = text.capacity_with(PART.len(), ANNOUNCED);
            text.push(PART, ANNOUNCED);
            let used = text.whole.as_ref().map_or(text.first.len(), BytesMut::capacity);
            assert!(used <= capacity, "{used} bytes are taken, {capacity} were counted");
            assert!(used <= (2_000 * parts).min(ANNOUNCED), "{used} bytes for {parts} parts");
        }
        assert_eq!(text.finish().len(), 70_000);
    }
}
