//! `POST /v1/namespaces/{namespace}/dead/{redrive,purge}`: redrives or purges dead letters.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName};
use duly_store::{
    Answer, Command, Operation, Outcome,
    command::DeadLetterId,
    query::{Body, ListRequest, ListState, PAGE_MAX, Position},
};

use super::{
    App, Problem, body::JsonBody, cursor::Cursor, path::NamespacePath, problem::Refusals,
    reading::ReadResult, refusal_texts::OperationKind, response,
};
use duly_api::{
    DeadLetterError, PurgeRequest, PurgeResponse, RedriveRequest, RedriveResponse,
    dead_letters::{DEAD_LETTERS_MAX, DeadLetterSelection, RedriveSpacing},
    json,
};

/// Send dead letters again, at most 10000 a call.
///
/// The delivery id stays the same. The count of attempts continues, with a fresh number of attempts
/// allowed.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/redrive",
    tag = "dead letters",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = RedriveRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were sent again.", body = RedriveResponse), Refusals)
)]
pub(crate) async fn redrive(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let (selection, spacing) =
        body.read(|text| Ok(json::parse_body::<RedriveRequest>(text)?.check()?)).await?;
    response::ok(&app.redrive(namespace, selection, spacing).await?)
}

/// Drop dead letters for good, at most 10000 a call.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/purge",
    tag = "dead letters",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = PurgeRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were dropped.", body = PurgeResponse), Refusals)
)]
pub(crate) async fn purge(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let selection = body.read(|text| Ok(json::parse_body::<PurgeRequest>(text)?.check()?)).await?;
    response::ok(&app.purge(namespace, selection).await?)
}

impl App {
    /// Redrives dead letters, as many as one call may.
    pub(crate) async fn redrive(
        &self,
        namespace: NamespaceName,
        selection: DeadLetterSelection,
        spacing: RedriveSpacing,
    ) -> Result<RedriveResponse, Problem> {
        let done = handle_selection(self, namespace, selection, DeadLetterAction::Redrive(spacing))
            .await?;
        Ok(RedriveResponse { redriven: done.count, cursor: done.cursor, errors: done.errors })
    }

    /// Purges dead letters, as many as one call may.
    pub(crate) async fn purge(
        &self,
        namespace: NamespaceName,
        selection: DeadLetterSelection,
    ) -> Result<PurgeResponse, Problem> {
        let done = handle_selection(self, namespace, selection, DeadLetterAction::Purge).await?;
        Ok(PurgeResponse { purged: done.count, cursor: done.cursor, errors: done.errors })
    }
}

/// The operation on the selected dead letters.
#[derive(Debug, Clone, Copy)]
enum DeadLetterAction {
    Redrive(RedriveSpacing),
    Purge,
}

impl DeadLetterAction {
    /// Returns the operation on the letter with this number, from 0.
    fn of(self, letter: DeadLetterId, number: u64) -> Operation {
        match self {
            Self::Redrive(spacing) => Operation::Redrive { letter, delay: spacing.delay(number) },
            Self::Purge => Operation::Purge { letter },
        }
    }
}

/// The result of a call.
#[derive(Debug, Default)]
struct SelectionResult {
    count: u64,
    cursor: Option<String>,
    errors: Vec<DeadLetterError>,
}

async fn handle_selection(
    app: &App,
    namespace: NamespaceName,
    selection: DeadLetterSelection,
    action: DeadLetterAction,
) -> Result<SelectionResult, Problem> {
    if app.store().get_namespace(namespace.clone()).await?.is_none() {
        return Err(Problem::no_namespace(namespace.as_str()));
    }
    match selection {
        DeadLetterSelection::Named(dead_letters) => {
            handle_named(app, &namespace, dead_letters, action).await
        }
        DeadLetterSelection::All(cursor) => {
            handle_all(app, namespace, cursor.as_deref(), action).await
        }
    }
}

async fn handle_named(
    app: &App,
    namespace: &NamespaceName,
    dead_letters: Vec<Result<DeadLetterId, Invalid>>,
    action: DeadLetterAction,
) -> Result<SelectionResult, Problem> {
    let mut done = SelectionResult::default();
    let mut indices = Vec::new();
    let mut operations = Vec::new();
    for (index, letter) in dead_letters.into_iter().enumerate() {
        match letter {
            Ok(letter) => {
                operations.push(action.of(letter, indices.len() as u64));
                indices.push(index);
            }
            Err(invalid) => done.errors.push(refused(index, invalid.into())),
        }
    }
    let outcomes = apply(app, namespace, operations).await?;
    for (index, outcome) in indices.into_iter().zip(outcomes) {
        match outcome {
            Ok(()) => done.count += 1,
            Err(problem) => done.errors.push(refused(index, problem)),
        }
    }
    done.errors.sort_by_key(|error| error.index);
    Ok(done)
}

fn refused(index: usize, problem: Problem) -> DeadLetterError {
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    DeadLetterError { index, error: Some(*problem.into_body()) }
}

/// Handles every dead letter after the cursor, page by page, up to the bound of one call.
async fn handle_all(
    app: &App,
    namespace: NamespaceName,
    cursor: Option<&str>,
    action: DeadLetterAction,
) -> Result<SelectionResult, Problem> {
    let mut request = ListRequest::new(namespace.clone(), ListState::Only(duly_core::State::Dead));
    let filter = Cursor::filter_of(&request);
    // The count continues across calls, and so does the spacing.
    let mut number = 0;
    if let Some(text) = cursor {
        let cursor = Cursor::parse("cursor", text, filter)?;
        number = cursor.count;
        request.after = Some(cursor.position);
    }
    let mut done = SelectionResult::default();
    for _ in 0..DEAD_LETTERS_MAX / PAGE_MAX {
        let ReadResult { value: page, reservation: _reservation, rest: _rest } =
            app.read_page(request.clone()).await?;
        let dead_letters = page.timers.iter().filter_map(|view| match &view.body {
            Body::Whole(timer) => {
                Some(DeadLetterId::Delivery(timer.delivery_id(namespace.as_str())))
            }
            Body::Tombstone(_) => None,
        });
        let operations: Vec<_> =
            dead_letters.zip(number..).map(|(letter, number)| action.of(letter, number)).collect();
        number += operations.len() as u64;
        let outcomes = apply(app, &namespace, operations).await?;
        // A missing letter was redriven or purged by another call.
        done.count += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        done.cursor = next_cursor(page.next.clone(), number, filter);
        match page.next {
            Some(position) => request.after = Some(position),
            None => break,
        }
    }
    Ok(done)
}

fn next_cursor(
    next: Option<Position>,
    count: u64,
    filter: super::cursor::FilterHash,
) -> Option<String> {
    next.map(|position| Cursor::new(position, filter).with_count(count).to_string())
}

/// Carries out operations on dead letters.
async fn apply(
    app: &App,
    namespace: &NamespaceName,
    operations: Vec<Operation>,
) -> Result<Vec<Result<(), Problem>>, Problem> {
    let commands = operations
        .into_iter()
        .map(|operation| Command { namespace: namespace.clone(), operation, answer: Answer::Brief })
        .collect();
    let results = app.apply_many(namespace, commands).await?.into_iter().map(|it| match it {
        Outcome::Refused(refusal) => {
            Err(Problem::refused(refusal, OperationKind::DeadLetterChange, ""))
        }
        Outcome::Failed(error) => Err(Problem::from(error)),
        _ => Ok(()),
    });
    Ok(results.collect())
}
