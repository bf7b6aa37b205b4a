//! Problems as HTTP responses: `application/problem+json` (RFC 9457).

use std::collections::BTreeMap;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use utoipa::{
    IntoResponses,
    openapi::{
        ContentBuilder, Ref, RefOr,
        response::{Response as ResponseDoc, ResponseBuilder},
    },
};

use super::response;
use crate::problem::Problem;

/// Media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code().http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = response::to_bytes(self.body()).unwrap_or_default();
        let body = Body::from(body);
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some(wait_ms) = self.body().retry_after_ms {
            response.headers_mut().insert(RETRY_AFTER, wait_ms.div_ceil(1_000).into());
        }
        response
    }
}

/// The refusals that every call can return, for the OpenAPI document.
#[derive(Debug)]
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<ResponseDoc>> {
        let problem = |description: &str| {
            let schema = Some(Ref::from_schema_name("Problem"));
            let content = ContentBuilder::new().schema(schema).build();
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content(PROBLEM_JSON, content).build())
        };
        let unknown = "Not done, or the outcome is not known: the code says which.";
        BTreeMap::from([
            ("4XX".to_owned(), problem("Refused; nothing changed.")),
            ("5XX".to_owned(), problem(unknown)),
        ])
    }
}
