//! `POST /v1/namespaces/{namespace}/dead/overdue`: dead letters in place of late deliveries.
//!
//! Meant for a namespace that is paused, as after a restore: what fired since the backup was made
//! would fire again. The pages of what is due by a moment are walked, and each timer is given up on
//! that condition, so a call that is repeated, or cut off, does no harm.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, NamespaceName, Timestamp};
use duly_store::{
    Answer, Command, Operation, Outcome, Refusal,
    query::{ListRequest, ListState, PAGE_MAX},
};

use super::{
    App, Problem, answer, body::JsonBody, cursor::Cursor, path::InNamespace, problem::Refusals,
    reading::Read, refused::Asked,
};
use duly_api::{
    DeadLetterOverdueRequest, DeadLetterOverdueResponse, dead_letters::DEAD_LETTERS_MAX,
};

/// Give up what is overdue: due and retrying timers become dead letters, reason `overdue`.
///
/// At most 10000 a call; one under a lease is left alone. At the namespace's limit of dead letters
/// it stops, with what does not fit untouched.
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
    InNamespace(namespace): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    answer::ok(&app.dead_letter_overdue(namespace, body.parse().await?).await?)
}

impl App {
    /// Gives up what is overdue, as much as one call may.
    pub(crate) async fn dead_letter_overdue(
        &self,
        namespace: NamespaceName,
        DeadLetterOverdueRequest { due_by, cursor, .. }: DeadLetterOverdueRequest,
    ) -> Result<DeadLetterOverdueResponse, Problem> {
        if self.store().get_namespace(namespace.clone()).await?.is_none() {
            return Err(Problem::no_namespace(namespace.as_str()));
        }
        let due_by = due_by.map(|time| time.check("due_by")).transpose()?;
        let due_by = moment(due_by, self.now())?;
        let mut request = ListRequest::new(namespace.clone(), ListState::Pending);
        // What is listed is due before this.
        request.due_to = Some(due_by.saturating_add(duly_core::Millis::from_ms(1)));
        let filter = Cursor::filter_of(&request);
        if let Some(text) = cursor {
            request.after = Some(Cursor::parse("cursor", &text, filter)?.position);
        }
        let mut dead_lettered = 0;
        for _ in 0..DEAD_LETTERS_MAX / PAGE_MAX {
            let Read { value: page, share: _share, rest: _rest } =
                self.read_page(request.clone()).await?;
            let waiting = page.timers.iter().filter(|view| view.attempt_under_way.is_none());
            let commands = waiting.map(|view| Command {
                namespace: namespace.clone(),
                operation: Operation::DeadLetter { id: view.id().clone(), if_due_by: due_by },
                answer: Answer::Brief,
            });
            give_up(self, &namespace, commands.collect(), &mut dead_lettered).await?;
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        let cursor = request.after.map(|position| Cursor::new(position, filter).to_string());
        Ok(DeadLetterOverdueResponse { dead_lettered, due_by: Some(due_by.into()), cursor })
    }
}

fn moment(asked: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Invalid> {
    match asked {
        Some(due_by) if due_by > now => {
            Err(Invalid::new("due_by", due_by, format!("not in the future; it is {now}")))
        }
        asked => Ok(asked.unwrap_or(now)),
    }
}

async fn give_up(
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
            // Claimed, cancelled, moved or given up since it was listed.
            Outcome::Refused(Refusal::State { .. } | Refusal::UnknownTimer { .. }) => {}
            Outcome::Refused(refusal) => {
                failed = Some(Problem::refused(refusal, Asked::DeadLetter, ""));
            }
            Outcome::Failed(error) => failed = Some(error.into()),
            _ => {}
        }
    }
    let already = *dead_lettered;
    failed.map_or(Ok(()), |problem| Err(problem.after_doing(already, "given up")))
}
