//! `GET /openapi.json`: the description of this interface, made from its code.

use std::sync::OnceLock;

use axum::{body::Body, response::Response};
use http::StatusCode;
use utoipa::OpenApi;

use super::answer;
use duly_api::Problem;

/// What the document says besides paths and bodies.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Duly",
        description = "A distributed timer: deliver this payload at that time, unless cancelled.\n\nTimes in are RFC 3339 with any offset or integer Unix milliseconds from 100000000000 on, times out UTC with three decimals. Durations are text such as `2h30m`, or 0; another number without a unit is refused. Unknown fields are refused. Every error is `application/problem+json`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem))
)]
pub(super) struct Document;

/// The OpenAPI 3.1 document: JSON, indented, in a stable order, with a newline at its end.
#[expect(clippy::expect_used, reason = "the document is made of plain text and numbers")]
pub fn openapi_json() -> String {
    let (_, document) = super::routes().split_for_parts();
    let value = serde_json::to_value(&document).expect("the document is plain JSON");
    let mut text = serde_json::to_string_pretty(&value).expect("the document is plain JSON");
    text.push('\n');
    text
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "service",
    responses((status = 200, description = "OpenAPI 3.1.", body = serde_json::Value))
)]
pub(crate) async fn openapi() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(openapi_json);
    answer::with_body(StatusCode::OK, Body::from(text.as_str()))
}
