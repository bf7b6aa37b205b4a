//! `PATCH /v1/namespaces/{namespace}/timers/{id}`: changes a pending timer.

use axum::{extract::State, response::Response};
use duly_api::{
    MessageFormat, Reschedule, Timer,
    json::{self, Nulls},
    schedule::IdLocation,
};
use duly_store::{Answer, Command, Operation};

use crate::http::{
    App, Problem,
    body::JsonBody,
    path::TimerPath,
    problem::Refusals,
    refusal_texts::{OperationKind, SentOperation},
};

/// Change a pending timer: an absent field is kept, `null` resets it, a value replaces the whole field.
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("id" = String, Path, description = "Id of the timer, percent-encoded (`/` as `%2F`)")
    ),
    request_body(content = Reschedule, content_type = "application/json"),
    responses((status = 200, description = "The timer as it is now.", body = Timer), Refusals)
)]
pub(crate) async fn reschedule_timer(
    State(app): State<App>,
    timer: TimerPath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let ((change, when), mut reservation) = body
        .read_held(|text| {
            let change = Reschedule::from(json::parse_body::<Nulls<Reschedule>>(text)?);
            let when = change.when_text().map(Box::from);
            Ok((change.check(MessageFormat::Json, IdLocation::Path)?, when))
        })
        .await?;
    app.check_patch(&change.patch)?;
    let command = Command {
        namespace: timer.namespace,
        answer: Answer::Whole,
        operation: Operation::Reschedule {
            id: timer.id,
            patch: Box::new(change.patch),
            if_revision: change.if_revision,
        },
    };
    let outcome = app.apply_within(command, &mut reservation).await?;
    super::changed(outcome, SentOperation { kind: OperationKind::Reschedule, when }, reservation)
        .await
}
