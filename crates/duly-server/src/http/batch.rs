//! `POST /v1/namespaces/{namespace}/batch`: many operations, each refused or taken by itself.

use axum::{extract::State, response::Response};
use duly_core::{Code, Invalid, NamespaceName};
use duly_store::{Command, Operation, Outcome};
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;

use super::{
    App, Problem, answer, body::JsonBody, path::InNamespace, problem::Refusals, refused::Asked,
    trace,
};
use crate::wire::{
    BatchIn, BatchOut, CancelledOut, OperationIn, OperationResult, TimerOut,
    batch::{Cancelled, OPERATIONS_MAX},
    json,
    timer::Mark,
};

/// Bytes of one batch, whatever `server.body_bytes_max` says.
const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Operations that are read before other requests get a turn on this thread (P9).
const OPERATIONS_PER_TURN: usize = 256;

/// Many operations in one call, at most 10000.
///
/// One id's operations run in order; items are independent. Each result is exactly one of `timer`,
/// `outcome`, `error`.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/batch",
    tag = "timers",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = BatchIn, content_type = "application/json"),
    responses((status = 200, description = "One result for each operation, in order.", body = BatchOut), Refusals)
)]
pub(crate) async fn batch(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, Problem> {
    if body.text.len() > BATCH_BYTES_MAX {
        return Err(too_large());
    }
    let request: BatchIn = json::parse_body(&body.text)?;
    let count = request.operations.len();
    if count > OPERATIONS_MAX {
        return Err(too_many("operations", count, OPERATIONS_MAX));
    }
    let trace_parent = trace::parent(&headers);
    let mut places: Vec<Result<Asked, Problem>> = Vec::with_capacity(count);
    let mut commands = Vec::with_capacity(count);
    for (i, text) in request.operations.iter().enumerate() {
        if i % OPERATIONS_PER_TURN == OPERATIONS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        match command(&app, &namespace, text) {
            Ok(mut command) => {
                places.push(Ok(Asked::by(&command.operation)));
                if let Operation::Schedule { schedule, .. } = &mut command.operation {
                    schedule.trace_parent.clone_from(&trace_parent);
                }
                commands.push(command);
            }
            Err(invalid) => {
                let invalid = invalid.within(&format!("operations[{i}]"));
                places.push(Err(invalid.into()));
            }
        }
    }
    drop(request);
    drop(body);
    let outcomes =
        if commands.is_empty() { Vec::new() } else { app.apply_many(&namespace, commands).await? };
    let results = results(places, &outcomes);
    answer::json(StatusCode::OK, &BatchOut { results })
}

fn command(app: &App, namespace: &NamespaceName, text: &RawValue) -> Result<Command, Invalid> {
    let operation: OperationIn = json::parse(text.get().as_bytes())?;
    operation.check(namespace, || app.make_id())
}

fn results(
    places: Vec<Result<Asked, Problem>>,
    outcomes: &[Result<Outcome, Problem>],
) -> Vec<OperationResult<'_>> {
    let mut outcomes = outcomes.iter();
    let results = places.into_iter().enumerate().map(|(i, place)| match place {
        Err(problem) => error(problem),
        Ok(asked) => match outcomes.next() {
            Some(Ok(outcome)) => result(i, asked, outcome),
            Some(Err(problem)) => error(problem.clone()),
            None => error(Problem::fault("an operation has no outcome")),
        },
    });
    results.collect()
}

fn result(index: usize, asked: Asked, outcome: &Outcome) -> OperationResult<'_> {
    let timer = |view, mark| OperationResult::Timer { timer: Box::new(TimerOut::new(view, mark)) };
    match outcome {
        Outcome::Created(view) | Outcome::Changed(view) | Outcome::Unchanged(view) => {
            timer(view, Mark::None)
        }
        Outcome::Existing(view) => timer(view, Mark::Existing),
        Outcome::Replaced(view) => timer(view, Mark::Replaced),
        Outcome::Cancelled { attempts, maybe_delivered, already } => {
            OperationResult::Cancelled(CancelledOut::new(Cancelled {
                attempts: *attempts,
                maybe_delivered: *maybe_delivered,
                already: *already,
            }))
        }
        Outcome::Refused(refusal) => {
            error(Problem::refused(refusal.clone(), asked, &asked.path_at(index)))
        }
        Outcome::Failed(failure) => error(failure.clone().into()),
        Outcome::Purged => error(Problem::fault("an outcome of another kind")),
    }
}

fn error<'a>(problem: Problem) -> OperationResult<'a> {
    OperationResult::Error { error: problem.into_body() }
}

/// Refuses a list with too many entries.
pub(super) fn too_many(field: &str, count: usize, max: usize) -> Problem {
    let allowed = format!("at most {max} entries");
    Problem::new(
        Code::RequestTooLarge,
        format!("{field} must have {allowed}; got {count}: split the request"),
    )
    .at(field, Some(format!("{count} entries")), &allowed)
}

fn too_large() -> Problem {
    let allowed = format!("at most {BATCH_BYTES_MAX} bytes");
    let detail = format!("a batch must be {allowed}: split it");
    Problem::new(Code::RequestTooLarge, detail).at("body", None, &allowed)
}
