//! `DELETE /v1/namespaces/{namespace}/timers/{id}`: cancels a timer, with one definite outcome (P4).

use axum::{extract::State, response::Response};
use duly_api::{CancelResponse, number::check_revision};
use duly_store::{Answer, Command, Operation};
use http::Uri;

use crate::{
    http::{App, Problem, path::TimerPath, problem::Refusals, query::Query, response},
    messages,
};

/// Cancel a timer. After `cancelled` it is never delivered.
///
/// A refusal has the definite outcome in `outcome`: `in_flight`, `finished`, `dead`, `not_found`.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("id" = String, Path, description = "Id of the timer, percent-encoded (`/` as `%2F`)"),
        ("if_revision" = Option<u32>, Query, minimum = 1, description = "Only if it has this revision")
    ),
    responses((status = 200, description = "It is cancelled.", body = CancelResponse), Refusals)
)]
pub(crate) async fn cancel_timer(
    State(app): State<App>,
    timer: TimerPath,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["if_revision"])?;
    let if_revision = check_revision(query.integer("if_revision")?)?;
    let outcome = app
        .apply_one(Command {
            namespace: timer.namespace,
            operation: Operation::Cancel { id: timer.id, if_revision },
            answer: Answer::Brief,
        })
        .await?;
    response::ok(&messages::cancelled(&outcome, "")?)
}
