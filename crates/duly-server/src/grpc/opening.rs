//! Responds to gRPC calls before the store is open: the caller has to retry.

use axum::{
    Router,
    extract::{Request, State},
    response::Response,
};

use super::edge::refuse;
use crate::http::Opening;

/// Returns the router of gRPC while the store opens.
pub(crate) fn router(opening: Opening) -> Router {
    Router::new().fallback(not_yet).with_state(opening)
}

async fn not_yet(State(opening): State<Opening>, request: Request) -> Response {
    match opening.guard.check(request.uri(), request.headers()) {
        Ok(()) => refuse(opening.not_yet()),
        Err(problem) => refuse(problem),
    }
}
