//! Removal of all that is left of an ended timer: its tombstone and its dead letters.

use axum::extract::State;
use duly_api::{ForgetResponse, dead_letters::DEAD_LETTERS_MAX};
use duly_core::{NamespaceName, TimerId};
use duly_store::{Operation, Outcome, Refusal, command::DeadLetterId};

use super::{
    App, Problem,
    body::NoBody,
    items::brief,
    path::TimerPath,
    refusal_texts::OperationKind,
    response::{self, HandlerResult},
};
use crate::messages;

/// Remove all that is left of an ended timer: its tombstone and its dead letters.
///
/// A pending timer is refused: cancel it first. If nothing is left, the call does nothing, so it can be
/// repeated. After it the id is as if it had never been used: a repetition of an earlier request makes a new
/// timer.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers/{id}/forget",
    tag = "timers",
    responses((status = 200, description = "What was removed.", body = ForgetResponse))
)]
pub(crate) async fn forget_timer(
    State(app): State<App>,
    timer: TimerPath,
    _body: NoBody,
) -> HandlerResult {
    response::ok(&app.forget(timer.namespace, timer.id).await?)
}

impl App {
    /// Removes all that is left of an ended timer.
    pub(crate) async fn forget(
        &self,
        namespace: NamespaceName,
        id: TimerId,
    ) -> Result<ForgetResponse, Problem> {
        self.namespace(namespace.clone()).await?;
        let mut removed = ForgetResponse::default();
        // First, because it refuses a pending timer.
        let tombstone = Operation::Forget { id: id.clone() };
        removed.tombstones += u64::from(self.remove(&namespace, tombstone).await?);
        while removed.dead_letters < DEAD_LETTERS_MAX as u64 {
            let letter = Operation::Purge { letter: DeadLetterId::Timer(id.clone()) };
            if !self.remove(&namespace, letter).await? {
                break;
            }
            removed.dead_letters += 1;
        }
        Ok(removed)
    }

    /// Carries out an operation that removes something. Returns `false` if there was nothing.
    async fn remove(
        &self,
        namespace: &NamespaceName,
        operation: Operation,
    ) -> Result<bool, Problem> {
        let kind = OperationKind::of(&operation);
        match self.apply_one(brief(namespace.clone(), operation)).await? {
            Outcome::Purged => Ok(true),
            Outcome::Refused(Refusal::UnknownTimer { .. } | Refusal::UnknownDeadLetter { .. }) => {
                Ok(false)
            }
            other => Err(messages::refused(kind, &other, "")),
        }
    }
}
