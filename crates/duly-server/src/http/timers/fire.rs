//! `POST /v1/namespaces/{namespace}/timers/{id}/fire`: fires a timer now.

use axum::{extract::State, response::Response};
use duly_api::Timer;
use duly_store::{Answer, Command, Operation};

use crate::http::{
    App, Problem, body::NoBody, path::TimerPath, problem::Refusals, refusal_texts::OperationKind,
};

/// Make a timer or its next attempt due now.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers/{id}/fire",
    tag = "timers",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("id" = String, Path, description = "Id of the timer, percent-encoded (`/` as `%2F`)")
    ),
    responses(
        (status = 200, description = "The timer as it is now; unchanged if it was due or in flight.", body = Timer),
        Refusals
    )
)]
pub(crate) async fn fire_timer(
    State(app): State<App>,
    timer: TimerPath,
    _body: NoBody,
) -> Result<Response, Problem> {
    let command = Command {
        namespace: timer.namespace,
        operation: Operation::Fire { id: timer.id },
        answer: Answer::Whole,
    };
    let mut reservation = app.budget().empty_reservation();
    let outcome = app.apply_within(command, &mut reservation).await?;
    super::changed(outcome, OperationKind::Fire, reservation).await
}
