//! Calls that create and change timers. They are sent in batches.

use std::time::Duration;

use duly_api::{
    Cancel, CancelResponse, IfExists, Operation, OperationResult, Reschedule, Schedule, Time,
    Timer, v1,
};
use duly_core::TimerId;
use uuid::Uuid;

use super::{Client, check_same, namespace_name};
use crate::{
    error::{Error, Invalid, Result},
    retry::{Safety, repeat},
};

impl Client {
    /// Schedules a timer. When this returns, the timer survives kill -9 and power loss.
    ///
    /// As long as the timer or its tombstone exists, the same request again returns it, marked as
    /// `existing`; with [`IfExists::Restart`] the timer starts again. A schedule without an id gets one here, so it can be repeated safely too.
    ///
    /// This call, like all calls here, may be dropped while it waits. A request that was already sent
    /// may still be carried out.
    pub async fn schedule(&self, namespace: &str, mut schedule: Schedule) -> Result<Timer> {
        set_id(&mut schedule);
        self.change(namespace, schedule.into(), Safety::Repeatable).await
    }

    /// Schedules a timer in place of the one with its id, on every call: only the last of many calls
    /// fires (debounce).
    ///
    /// This adds a unique tag to each call. So a try that is repeated after a lost response changes nothing; with
    /// [`IfExists::Restart`] it would restart the time once more.
    /// A timer that is being delivered cannot be replaced: the error is `in_flight`.
    pub async fn debounce(&self, namespace: &str, schedule: Schedule) -> Result<Timer> {
        let unique = format!("debounced:{}", Uuid::now_v7());
        self.schedule(namespace, schedule.with_tag(unique).with_if_exists(IfExists::Replace)).await
    }

    /// Cancels a timer. After this it is never delivered again; the response reports whether it was
    /// delivered before.
    ///
    /// A timer that can no longer be cancelled is refused with its state as the code: `in_flight`,
    /// `finished`, `dead`, or `not_found`.
    pub async fn cancel(&self, namespace: &str, id: &str) -> Result<CancelResponse> {
        let cancel = Cancel { id: id.to_owned(), ..Cancel::default() };
        self.cancel_by(namespace, cancel).await
    }

    /// Cancels a timer if it has this revision.
    pub async fn cancel_if(
        &self,
        namespace: &str,
        id: &str,
        revision: u32,
    ) -> Result<CancelResponse> {
        let id = id.to_owned();
        let cancel = Cancel { id, if_revision: Some(revision), ..Cancel::default() };
        self.cancel_by(namespace, cancel).await
    }

    /// Cancels a timer, also one that is being delivered: no attempt follows the one under way.
    ///
    /// For such a timer the response has the outcome `in_flight` and `no_further_attempt`. If the attempt
    /// under way succeeds, the timer is finished; otherwise the timer is cancelled when the attempt ends.
    pub async fn cancel_or_stop(&self, namespace: &str, id: &str) -> Result<CancelResponse> {
        let (id, no_further_attempt) = (id.to_owned(), Some(true));
        self.cancel_by(namespace, Cancel { id, no_further_attempt, ..Cancel::default() }).await
    }

    async fn cancel_by(&self, namespace: &str, cancel: Cancel) -> Result<CancelResponse> {
        let result = self.operate(namespace, cancel.into(), Safety::Repeatable).await?;
        result.cancelled.ok_or_else(unexpected_result)
    }

    /// Changes a pending timer. After this it never fires at its old time, nor with its old payload. The
    /// response has no payload and no headers, unless the client is [`unbatched`](Self::unbatched).
    ///
    /// A change with `if_revision` is made at most once, so the client repeats it when a response got
    /// lost.
    pub async fn reschedule(&self, namespace: &str, id: &str, change: Reschedule) -> Result<Timer> {
        check_same("id", id, &change.id)?;
        let safety = if change.if_revision.is_some() { Safety::Guarded } else { Safety::Once };
        self.change(namespace, Operation::reschedule(id, change), safety).await
    }

    /// Makes a timer due now, or its next attempt. The response is like that of
    /// [`reschedule`](Self::reschedule).
    pub async fn fire(&self, namespace: &str, id: &str) -> Result<Timer> {
        self.change(namespace, Operation::fire(id), Safety::Once).await
    }

    async fn change(&self, namespace: &str, operation: Operation, safety: Safety) -> Result<Timer> {
        let result = self.operate(namespace, operation, safety).await?;
        result.timer.map(|timer| *timer).ok_or_else(unexpected_result)
    }

    async fn operate(
        &self,
        namespace: &str,
        operation: Operation,
        safety: Safety,
    ) -> Result<OperationResult> {
        let namespace = namespace_name(namespace)?;
        check(&operation)?;
        if !self.is_batched {
            let path = format!("{}.", operation.name());
            let result = self.operate_alone(namespace.as_ref().to_owned(), operation, safety).await;
            return result.map_err(|error| error.without_path(&path));
        }
        let deadline = self.deadline(Duration::ZERO)?;
        let batches = &self.inner.batches;
        repeat(self.inner.retries, safety, deadline, || {
            batches.run(&namespace, operation.clone(), deadline, self.timeout)
        })
        .await
    }

    async fn operate_alone(
        &self,
        namespace: String,
        operation: Operation,
        safety: Safety,
    ) -> Result<OperationResult> {
        let Operation { schedule, cancel, reschedule, fire } = operation;
        let timer = if let Some(schedule) = schedule {
            let request = v1::ScheduleRequest { namespace, schedule: Some(*schedule) };
            call!(self, timers.schedule, request, safety)
        } else if let Some(reschedule) = reschedule {
            let request = v1::RescheduleRequest { namespace, reschedule: Some(*reschedule) };
            call!(self, timers.reschedule, request, safety)
        } else if fire.is_some() {
            let request = v1::FireRequest { namespace, fire };
            call!(self, timers.fire, request, safety)
        } else {
            let request = v1::CancelRequest { namespace, cancel };
            let cancelled = Some(call!(self, timers.cancel, request, safety)?);
            return Ok(OperationResult { cancelled, ..OperationResult::default() });
        };
        Ok(OperationResult { timer: Some(Box::new(timer?)), ..OperationResult::default() })
    }
}

/// Gives a schedule an id if it has none.
pub(super) fn set_id(schedule: &mut Schedule) {
    schedule.id.get_or_insert_with(|| Uuid::now_v7().to_string());
}

/// Refuses an invalid id or due time before anything is sent. The server checks the rest.
fn check(operation: &Operation) -> Result<(), Invalid> {
    TimerId::new(operation.timer_id())?;
    let due_at = match operation {
        Operation { schedule: Some(schedule), .. } => schedule.due_at.as_ref(),
        Operation { reschedule: Some(reschedule), .. } => reschedule.due_at.as_ref(),
        Operation { .. } => None,
    };
    let Some(due_at) = due_at else { return Ok(()) };
    // A `SystemTime` has no fields to name.
    due_at.check("due_at").map(drop).map_err(|invalid| match due_at {
        Time::Unix(_) => Invalid::new("due_at", due_at, "a time from 1970-01-01 to 2200-01-01"),
        Time::Text(_) | Time::Bare(_) => invalid,
    })
}

fn unexpected_result() -> Error {
    Error::bad_response("the result belongs to another operation")
}
