//! Reads the body of a request within its bounds.
//!
//! One body is at most `server.body_bytes_max`; all bodies together, with the answers that are being
//! written, are at most `server.bodies_bytes_max`, so that many slow clients cannot fill the memory
//! (P10). What has arrived counts, not what was announced: an announcement costs its sender nothing.
//! The share is given back when the [`JsonBody`] is dropped.

use std::{num::NonZero, sync::OnceLock};

use axum::{
    body::HttpBody,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use duly_core::Code;
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use super::{App, Problem, budget::Share};

/// Bodies from this size on are read on a thread that may take its time.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Media type of almost every body.
pub(super) const JSON: &str = "application/json";
/// Media type of bodies with one JSON value a line.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// A JSON body.
#[derive(Debug)]
pub(super) struct JsonBody {
    /// Its text.
    pub(super) text: Bytes,
    /// Its share of the memory for bodies.
    share: Share,
}

impl JsonBody {
    /// Makes something of the text, on another thread where that may take long: nobody else's
    /// request waits for it (P9). The text and its share are given back at the end.
    pub(super) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&[u8]) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let bytes = self.text.len();
        aside(bytes, move || {
            let made = read(&self.text);
            drop(self.share);
            made
        })
        .await
    }
}

/// Does work on so many bytes: here, or on another thread where it would hold up others.
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if bytes < INLINE_BYTES_MAX {
        return work();
    }
    // As many as there are cores: more would only take turns, and hold their memory meanwhile.
    static PLACES: OnceLock<Semaphore> = OnceLock::new();
    let places = PLACES.get_or_init(|| {
        Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    });
    let _place = places.acquire().await.expect("it is never closed");
    match tokio::task::spawn_blocking(work).await {
        Ok(made) => made,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => {
                Err(Problem::new(Code::Unavailable, "the server is stopping: nothing was done"))
            }
        },
    }
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
        let is_json = check_content_type(request.headers(), &[JSON]);
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
        check_content_type(request.headers(), &[JSON])?;
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
        return Err(too_large(bytes_max, "server.body_bytes_max"));
    }
    let together = app.budget().largest();
    if declared.is_some_and(|bytes| bytes > together as u64) {
        return Err(too_large(together, "server.bodies_bytes_max"));
    }
    let expected = declared.and_then(|bytes| usize::try_from(bytes).ok());
    let mut share = app.budget().share();
    let mut body = Limited::new(body, bytes_max);
    let mut text = Text::default();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                let part = frame.into_data().unwrap_or_default();
                share.grow_to(text.len() + part.len())?;
                text.push(part, expected);
            }
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(too_large(bytes_max, "server.body_bytes_max"));
            }
            Err(error) => {
                return Err(Problem::new(
                    Code::InvalidArgument,
                    format!("the body could not be read to its end ({error}): send it whole"),
                ));
            }
        }
    }
    Ok(JsonBody { text: text.finish(), share })
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

fn too_large(bytes_max: usize, key: &str) -> Problem {
    let allowed = format!("at most {bytes_max} bytes");
    Problem::new(
        Code::RequestTooLarge,
        format!("the body must be {allowed}: split the request, or raise {key}"),
    )
    .at("body", None, &allowed)
}

/// Refuses every content type but these, so that no web page can send a body without asking first.
/// Answers which it is.
pub(super) fn check_content_type(
    headers: &HeaderMap,
    allowed: &[&'static str],
) -> Result<&'static str, Problem> {
    let refuse = |seen: &str| {
        let seen = duly_core::invalid::shorten(seen);
        let named = allowed.join(" or ");
        Problem::new(
            Code::UnsupportedMediaType,
            format!(
                "content-type must be {named}; got {seen}: send the header 'content-type: {}'",
                allowed[0]
            ),
        )
        .at("content-type", Some(seen), &named)
    };
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Err(refuse("none"));
    };
    let text = value.to_str().map_err(|_| refuse("unreadable"))?;
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
        _ => Err(refuse(text)),
    }
}
