//! `POST /v1/namespaces/{namespace}/import`: timers and dead letters of another server.

use axum::{
    extract::{Request, State},
    response::Response,
};

use super::{App, Problem, batch, items::Items, path::NamespacePath, problem::Refusals};
use duly_api::{
    batch::Results,
    moved::{Import, ImportResults},
};

/// Take timers of another server.
///
/// The timers of an export keep incarnation, attempts and history, so that their delivery ids stay the
/// same. A timer that has been here before, in any state, is returned as `existing` and nothing changes,
/// so an import can be repeated; a timer that was cancelled here does not come back. As
/// `application/json` at most 10000 timers, as `application/x-ndjson` one a line without limit.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/import",
    tag = "moving",
    params(
        ("namespace" = String, Path, description = "Name of the namespace; that of the export, since delivery ids depend on it"),
        ("results" = Option<Results>, Query, description = "Of a stream of lines: an answer to each (`all`, the default), or to those that were refused and a summary at the end (`errors`)")
    ),
    request_body(content(
        (Import = "application/json"),
        (String = "application/x-ndjson")
    )),
    responses(
        (status = 200, description = "One result for each timer, in order.", content(
            (ImportResults = "application/json"),
            (String = "application/x-ndjson")
        )),
        Refusals
    )
)]
pub(crate) async fn import_timers(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    request: Request,
) -> Result<Response, Problem> {
    batch::respond(app, namespace, request, Items::Timers).await
}
