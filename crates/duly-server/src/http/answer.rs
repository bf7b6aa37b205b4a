//! Writes responses as JSON.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use duly_store::TimerView;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;

use super::{Problem, body::aside, budget::Share, text::Text};
use duly_api::{Timer, timer::Mark};

/// The result of a handler.
pub(super) type Answer = Result<Response, Problem>;

/// Returns a JSON response.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    Ok(with_body(status, Body::from(to_bytes(value)?)))
}

/// Returns a JSON response with status 200.
pub(super) fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// Returns a JSON response whose text takes its memory from `share`, and from the budget where that is
/// too small.
pub(super) fn within(share: Share, status: StatusCode, value: &impl Serialize) -> Answer {
    let mut text = Text::new(share);
    text.value(value)?;
    Ok(text.answer(status))
}

/// Returns a JSON response that shows a timer after a change.
///
/// The change is made, so the response cannot be refused any more. `share` counts the timer and the
/// text; if it is too small for the text, the text exceeds the budget.
pub(super) async fn changed(
    mut share: Share,
    status: StatusCode,
    view: &Arc<TimerView>,
    mark: Mark,
) -> Answer {
    let bytes = usize::try_from(view.memory_bytes()).unwrap_or(usize::MAX);
    let own = share.split(bytes);
    let write = |share| {
        let view = Arc::clone(view);
        aside(bytes, move || {
            let mut text = Text::new(share);
            let written = text.value(&Timer::new(&view, mark));
            Ok((written, text))
        })
    };
    let (mut written, mut text) = write(share).await?;
    if written.is_err() {
        share = text.into_share();
        share.grow_anyway_to(Text::bytes_of(&Timer::new(view, mark))).await;
        (written, text) = write(share).await?;
    }
    written?;
    drop(own);
    Ok(text.answer(status))
}

/// Returns a response with a JSON text.
pub(super) fn with_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the JSON text of a response, which ends with a line break.
pub(super) fn to_bytes(value: &impl Serialize) -> Result<Bytes, Problem> {
    let mut text = Vec::new();
    append(&mut text, value)?;
    text.push(b'\n');
    Ok(text.into())
}

/// Appends the JSON text of a value.
pub(super) fn append(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(text, value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Problem::fault("the answer could not be written")
    })
}
