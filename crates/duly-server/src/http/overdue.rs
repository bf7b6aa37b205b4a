//! `POST /v1/namespaces/{namespace}/dead/overdue`: dead-letters overdue timers in place of late
//! deliveries.
//!
//! It is meant for a paused namespace after a restore: timers that fired since the backup was made would
//! fire again. A call reads the pages of timers that were due by a time, and dead-letters each on the
//! condition that it still was. So a repeated or interrupted call does no harm.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName, Timestamp};
use duly_store::{
    Answer, Command, Operation, Outcome, Refusal,
    query::{ListRequest, ListState, PAGE_MAX},
};

use super::{
    App, Problem, body::JsonBody, cursor::Cursor, path::NamespacePath, problem::Refusals,
    reading::ReadResult, refusal_texts::OperationKind, response,
};
use duly_api::{
    DeadLetterOverdueRequest, DeadLetterOverdueResponse, dead_letters::DEAD_LETTERS_MAX,
};

/// Dead-letter overdue timers: due and retrying timers become dead letters with the reason `overdue`.
///
/// At most 10000 timers a call; a leased timer is left alone. The call stops at the namespace's limit of
/// dead letters, and leaves the remaining timers unchanged.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/overdue",
    tag = "dead letters",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = DeadLetterOverdueRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were given up.", body = DeadLetterOverdueResponse), Refusals)
)]
pub(crate) async fn dead_letter_overdue(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    response::ok(&app.dead_letter_overdue(namespace, body.parse().await?).await?)
}

impl App {
    /// Dead-letters overdue timers, as many as one call may.
    pub(crate) async fn dead_letter_overdue(
        &self,
        namespace: NamespaceName,
        DeadLetterOverdueRequest { due_by, cursor, .. }: DeadLetterOverdueRequest,
    ) -> Result<DeadLetterOverdueResponse, Problem> {
        if self.store().get_namespace(namespace.clone()).await?.is_none() {
            return Err(Problem::no_namespace(namespace.as_str()));
        }
        let due_by = due_by.map(|time| time.check("due_by")).transpose()?;
        let due_by = check_due_by(due_by, self.now())?;
        let mut request = ListRequest::new(namespace.clone(), ListState::Pending);
        // The list has timers that are due before this time.
        request.due_to = Some(due_by.saturating_add(duly_core::Millis::from_ms(1)));
        let filter = Cursor::filter_of(&request);
        if let Some(text) = cursor {
            request.after = Some(Cursor::parse("cursor", &text, filter)?.position);
        }
        let mut dead_lettered = 0;
        for _ in 0..DEAD_LETTERS_MAX / PAGE_MAX {
            let ReadResult { value: page, reservation: _reservation, rest: _rest } =
                self.read_page(request.clone()).await?;
            let unleased = page.timers.iter().filter(|view| view.attempt_under_way.is_none());
            let commands = unleased.map(|view| Command {
                namespace: namespace.clone(),
                operation: Operation::DeadLetter { id: view.id().clone(), if_due_by: due_by },
                answer: Answer::Brief,
            });
            dead_letter(self, &namespace, commands.collect(), &mut dead_lettered).await?;
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        let cursor = request.after.map(|position| Cursor::new(position, filter).to_string());
        Ok(DeadLetterOverdueResponse { dead_lettered, due_by: Some(due_by.into()), cursor })
    }
}

fn check_due_by(requested: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Invalid> {
    match requested {
        Some(due_by) if due_by > now => {
            Err(Invalid::new("due_by", due_by, format!("not in the future; it is {now}")))
        }
        requested => Ok(requested.unwrap_or(now)),
    }
}

async fn dead_letter(
    app: &App,
    namespace: &NamespaceName,
    commands: Vec<Command>,
    dead_lettered: &mut u64,
) -> Result<(), Problem> {
    if commands.is_empty() {
        return Ok(());
    }
    let mut failed = None;
    for outcome in app.apply_many(namespace, commands).await? {
        match outcome {
            Outcome::Changed(_) => *dead_lettered += 1,
            // Claimed, cancelled, rescheduled or dead-lettered since it was listed.
            Outcome::Refused(Refusal::State { .. } | Refusal::UnknownTimer { .. }) => {}
            Outcome::Refused(refusal) => {
                failed = Some(Problem::refused(refusal, OperationKind::DeadLetter, ""));
            }
            Outcome::Failed(error) => failed = Some(error.into()),
            _ => {}
        }
    }
    let already = *dead_lettered;
    failed.map_or(Ok(()), |problem| Err(problem.after_doing(already, "dead-lettered")))
}
