//! Removes all that is left of an ended timer.

use duly_api::ForgetResponse;
use duly_core::{Code, NamespaceName, TimerId};
use duly_store::{Error, Operation, Outcome, Refusal, command::DeadLetterId};

use super::{Admitted, items::brief};
use crate::{
    messages,
    problem::{Problem, refusal_texts::OperationKind},
};

impl Admitted {
    /// Removes all that is left of an ended timer, also if the caller does not wait for it.
    pub(crate) async fn forget(
        &self,
        namespace: NamespaceName,
        id: TimerId,
    ) -> Result<ForgetResponse, Problem> {
        self.namespace(namespace.clone()).await?;
        let admitted = self.clone();
        let task = tokio::spawn(async move {
            let mut removed = ForgetResponse::default();
            let done = admitted.forget_all(&namespace, &id, &mut removed).await;
            done.map_err(|problem| after_a_part(&removed, problem)).map(|()| removed)
        });
        let removed =
            task.await.map_err(|_| Problem::fault("the removal of a timer ended early"))?;
        removed.inspect(|removed| self.note_forget(removed))
    }

    async fn forget_all(
        &self,
        namespace: &NamespaceName,
        id: &TimerId,
        removed: &mut ForgetResponse,
    ) -> Result<(), Problem> {
        // The tombstone goes last: as long as it is there, a repeated schedule makes no new timer.
        let tombstone = || Operation::Forget { id: id.clone() };
        let letter = || Operation::Purge { letter: DeadLetterId::Timer(id.clone()) };
        if self.is_pending(namespace, id).await? {
            // It is refused here.
            removed.tombstones += u64::from(self.remove(namespace, tombstone()).await?);
        }
        while self.remove(namespace, letter()).await? {
            removed.dead_letters += 1;
        }
        removed.tombstones += u64::from(self.remove(namespace, tombstone()).await?);
        Ok(())
    }

    async fn is_pending(&self, namespace: &NamespaceName, id: &TimerId) -> Result<bool, Problem> {
        match self.read_timer(namespace.clone(), id.clone()).await {
            Ok(read) => Ok(read.value.state.is_pending()),
            Err(problem) if problem.code() == Code::NotFound => Ok(false),
            Err(problem) => Err(problem),
        }
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

/// Returns the problem of a call that fails after it has removed a part.
fn after_a_part(removed: &ForgetResponse, problem: Problem) -> Problem {
    if *removed == ForgetResponse::default() {
        return problem;
    }
    let cause = problem.into_body().detail;
    let reason = format!("a part was removed, and then the call failed ({cause}); repeat the call");
    Error::InDoubt { reason }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_after_a_part_is_in_doubt() {
        let failed = || Problem::new(Code::AlreadyExists, "cancel it first");
        let nothing = after_a_part(&ForgetResponse::default(), failed());
        assert_eq!(nothing.code(), Code::AlreadyExists);
        let part = ForgetResponse { tombstones: 0, dead_letters: 1 };
        let problem = after_a_part(&part, failed());
        assert_eq!(problem.code(), Code::Aborted);
        let detail = problem.into_body().detail;
        assert!(detail.contains("cancel it first); repeat the call"), "{detail}");
    }
}
