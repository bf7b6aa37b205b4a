//! Writes answers as JSON.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;

use super::Problem;

/// What every handler answers.
pub(super) type Answer = Result<Response, Problem>;

/// A JSON answer.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    Ok(with_body(status, Body::from(to_bytes(value)?)))
}

/// A JSON answer with status 200.
pub(super) fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// An answer whose JSON text is at hand.
pub(super) fn with_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The JSON text of an answer.
pub(super) fn to_bytes(value: &impl Serialize) -> Result<Bytes, Problem> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        Problem::fault("the answer could not be written")
    })
}
