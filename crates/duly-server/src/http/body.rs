//! Reads the body of a request within its bounds.
//!
//! One body is at most `server.body_bytes_max`; all large bodies together are at most
//! `server.bodies_bytes_max`, so that many slow clients cannot fill the memory (P10). The share
//! is given back when the [`JsonBody`] is dropped.

use axum::{
    body::HttpBody,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use duly_core::{Code, Millis, error_code::Retry};
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;

use super::{App, Problem};

/// Bodies up to this size are not counted: connections bound them.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// Unit in which large bodies are counted.
pub(super) const SHARE_BYTES: usize = 1024;

/// A JSON body.
#[derive(Debug)]
pub(super) struct JsonBody {
    /// Its text.
    pub(super) text: Bytes,
    /// Its share of the memory for large bodies.
    _share: Option<OwnedSemaphorePermit>,
}

/// No body, or an empty JSON object.
#[derive(Debug)]
pub(super) struct NoBody;

/// A JSON body, where there is one.
#[derive(Debug)]
pub(super) struct MaybeBody(pub(super) Option<JsonBody>);

impl FromRequest<App> for MaybeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Self(None));
        }
        let is_json = check_content_type(request.headers());
        let body = read(request, app).await?;
        if body.text.is_empty() {
            return Ok(Self(None));
        }
        is_json?;
        Ok(Self(Some(body)))
    }
}

impl FromRequest<App> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_content_type(request.headers())?;
        read(request, app).await
    }
}

impl FromRequest<App> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let MaybeBody(Some(body)) = MaybeBody::from_request(request, app).await? else {
            return Ok(Self);
        };
        if body.text.trim_ascii() == b"{}" {
            return Ok(Self);
        }
        let seen = duly_core::invalid::shorten(&String::from_utf8_lossy(&body.text));
        let allowed = "empty, or {}";
        Err(Problem::new(Code::InvalidArgument, format!("the body must be {allowed}")).at(
            "body",
            Some(seen),
            allowed,
        ))
    }
}

async fn read(request: Request, app: &App) -> Result<JsonBody, Problem> {
    let bytes_max = app.limits().body_bytes_max;
    let body = request.into_body();
    let declared = body.size_hint().exact();
    if declared.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    let expected = declared.and_then(|bytes| usize::try_from(bytes).ok());
    let mut share = match expected {
        Some(bytes) if bytes > SMALL_BYTES_MAX => Some(app.share_of_bodies(bytes)?),
        _ => None,
    };
    let mut body = Limited::new(body, bytes_max);
    let mut text = Text::default();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => text.push(frame.into_data().unwrap_or_default(), expected),
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large(bytes_max)),
            Err(error) => {
                return Err(Problem::new(
                    Code::InvalidArgument,
                    format!("the body could not be read to its end ({error}): send it whole"),
                ));
            }
        }
        if text.len() > SMALL_BYTES_MAX && share.is_none() {
            // Without a declared length it is counted as if it were as long as it may be.
            share = Some(app.share_of_bodies(bytes_max)?);
        }
    }
    Ok(JsonBody { text: text.finish(), _share: share })
}

/// A body as it arrives: most have one part, which is not copied.
#[derive(Debug, Default)]
struct Text {
    first: Bytes,
    whole: Option<BytesMut>,
}

impl Text {
    fn push(&mut self, part: Bytes, expected: Option<usize>) {
        if self.whole.is_none() && self.first.is_empty() {
            self.first = part;
            return;
        }
        let first = std::mem::take(&mut self.first);
        let whole = self.whole.get_or_insert_with(|| {
            let mut whole = BytesMut::with_capacity(expected.unwrap_or(0));
            whole.extend_from_slice(&first);
            whole
        });
        whole.extend_from_slice(&part);
    }

    fn len(&self) -> usize {
        self.whole.as_ref().map_or(self.first.len(), BytesMut::len)
    }

    fn finish(self) -> Bytes {
        self.whole.map_or(self.first, BytesMut::freeze)
    }
}

/// The problem of a memory that is full of other bodies.
pub(super) fn no_share() -> Problem {
    Problem::new(
        Code::ResourceExhausted,
        "too many large requests at once: send smaller ones, or fewer at a time",
    )
    .with_retry(Retry::After(Millis::from_secs(1)))
}

fn too_large(bytes_max: usize) -> Problem {
    let allowed = format!("at most {bytes_max} bytes");
    Problem::new(
        Code::RequestTooLarge,
        format!("the body must be {allowed}: split the request, or raise server.body_bytes_max"),
    )
    .at("body", None, &allowed)
}

/// Refuses every content type but JSON, so that no web page can send a body without asking first.
fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    const ALLOWED: &str = "application/json";
    let refuse = |seen: &str| {
        let seen = duly_core::invalid::shorten(seen);
        Problem::new(
            Code::UnsupportedMediaType,
            format!(
                "content-type must be {ALLOWED}; got {seen}: send the header \
                 'content-type: {ALLOWED}'"
            ),
        )
        .at("content-type", Some(seen), ALLOWED)
    };
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Err(refuse("none"));
    };
    let text = value.to_str().map_err(|_| refuse("unreadable"))?;
    if text == ALLOWED {
        return Ok(());
    }
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(ALLOWED));
    let is_utf8 = parts.all(|parameter| {
        parameter.is_empty()
            || parameter.split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("charset")
                    && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
    });
    if is_json && is_utf8 { Ok(()) } else { Err(refuse(text)) }
}
