//! Responds to gRPC calls before the store is open: the caller has to retry.

use axum::{
    Router,
    extract::{Request, State},
    response::Response,
};

use super::edge::refuse;
use crate::http::StartupState;

/// Returns the router of gRPC while the store opens.
pub(crate) fn router(startup: StartupState) -> Router {
    Router::new().fallback(not_yet).with_state(startup)
}

async fn not_yet(State(startup): State<StartupState>, request: Request) -> Response {
    match startup.guard.check(request.uri(), request.headers()) {
        Ok(()) => refuse(startup.not_yet()),
        Err(problem) => refuse(problem),
    }
}
