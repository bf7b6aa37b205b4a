//! `POST /v1/namespaces/{namespace}/timers`: schedules a timer.

use axum::{extract::State, response::Response};
use duly_api::{MessageFormat, Schedule, Timer, json, timer::ScheduleMark};
use duly_store::{Answer, Command, Operation, Outcome};
use http::{HeaderMap, StatusCode};

use crate::http::{
    App, Problem,
    body::JsonBody,
    path::NamespacePath,
    problem::Refusals,
    refusal_texts::{OperationKind, SentOperation},
    response, trace,
};

/// Schedule a timer.
///
/// The same request again returns the existing timer, as long as the timer or its tombstone exists.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers",
    tag = "timers",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = Schedule, content_type = "application/json"),
    responses(
        (status = 201, description = "The timer was made.", body = Timer),
        (status = 200, description = "The timer was there (`existing`) or took the place of a pending one (`replaced`).", body = Timer),
        Refusals
    )
)]
pub(crate) async fn schedule_timer(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, Problem> {
    let reader = app.clone();
    let ((mut schedule, if_exists, when), mut reservation) = body
        .read_held(move |text| {
            let schedule: Schedule = json::parse_body(text)?;
            let when = schedule.when_text().map(Box::from);
            let (schedule, if_exists) = schedule.check(MessageFormat::Json, || reader.make_id())?;
            reader.check_schedule(&schedule)?;
            Ok((schedule, if_exists, when))
        })
        .await?;
    schedule.spec.trace_parent = trace::parent(&headers);
    let command = Command {
        namespace,
        operation: Operation::Schedule { schedule: Box::new(schedule), if_exists },
        answer: Answer::Whole,
    };
    let outcome = app.apply_within(command, &mut reservation).await?;
    match outcome {
        Outcome::Created(view) => {
            response::changed_timer(reservation, StatusCode::CREATED, &view, ScheduleMark::None)
                .await
        }
        Outcome::Existing(view) => {
            response::changed_timer(reservation, StatusCode::OK, &view, ScheduleMark::Existing)
                .await
        }
        Outcome::Replaced(view) => {
            response::changed_timer(reservation, StatusCode::OK, &view, ScheduleMark::Replaced)
                .await
        }
        other => {
            super::changed(
                other,
                SentOperation { kind: OperationKind::Schedule, when },
                reservation,
            )
            .await
        }
    }
}
