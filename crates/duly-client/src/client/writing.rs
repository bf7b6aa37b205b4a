//! Calls that make and change timers. They go together in batches.

use std::time::Duration;

use duly_proto::v1::{self, operation::Operation, operation_result::Result as Kind};
use uuid::Uuid;

use super::{Client, namespace_out};
use crate::{
    batch::path_of,
    change::Change,
    error::Error,
    retry::{Safety, repeat},
    schedule::{IfExists, Schedule},
    timer::{Cancelled, Scheduled, Timer},
    wire::{
        answer::{cancelled_in, scheduled_in, timer_in},
        request::{change_out, id_out, schedule_out},
    },
};

impl Client {
    /// Schedules a timer. When this answers, the timer survives kill -9 and power loss.
    ///
    /// The same request again answers the timer that is there, for as long as it or its tombstone lives.
    ///
    /// Like every call here it may be dropped while it waits; what has been sent by then may be
    /// carried out.
    pub async fn schedule(&self, namespace: &str, schedule: Schedule) -> Result<Scheduled, Error> {
        let schedule = schedule_out(schedule, || Uuid::now_v7().to_string())?;
        let operation = Operation::Schedule(schedule);
        match self.operate(namespace, operation, Safety::Repeatable).await? {
            Kind::Scheduled(response) => scheduled_in(response),
            _ => Err(another_kind()),
        }
    }

    /// Schedules a timer that takes the place of the one with its id, each time anew: only the last
    /// of many calls fires (debounce).
    ///
    /// Identical requests are repetitions, which change nothing; so this adds a tag to each call that
    /// no other call has. One that is being delivered cannot be replaced: `in_flight`.
    pub async fn debounce(&self, namespace: &str, schedule: Schedule) -> Result<Scheduled, Error> {
        let own = format!("debounced:{}", Uuid::now_v7());
        self.schedule(namespace, schedule.tag(own).if_exists(IfExists::Replace)).await
    }

    /// Cancels a timer. After this it is never delivered; whether it was before, the answer says.
    ///
    /// One that cannot be cancelled any more is refused with its state as the code: `in_flight`,
    /// `finished`, `dead`, or `not_found`.
    pub async fn cancel(&self, namespace: &str, id: &str) -> Result<Cancelled, Error> {
        self.cancel_where(namespace, id, None).await
    }

    /// Cancels a timer if it has this revision.
    pub async fn cancel_if(
        &self,
        namespace: &str,
        id: &str,
        revision: u32,
    ) -> Result<Cancelled, Error> {
        self.cancel_where(namespace, id, Some(revision)).await
    }

    async fn cancel_where(
        &self,
        namespace: &str,
        id: &str,
        if_revision: Option<u32>,
    ) -> Result<Cancelled, Error> {
        let operation = Operation::Cancel(v1::Cancel { id: id_out(id)?, if_revision });
        match self.operate(namespace, operation, Safety::Repeatable).await? {
            Kind::Cancelled(response) => Ok(cancelled_in(response)),
            _ => Err(another_kind()),
        }
    }

    /// Changes a pending timer. After this it never fires for its old time, nor with its old
    /// payload. The answer shows it without payload and headers, unless the client is
    /// [`unbatched`](Self::unbatched).
    pub async fn reschedule(
        &self,
        namespace: &str,
        id: &str,
        change: Change,
    ) -> Result<Timer, Error> {
        let safety = if change.if_revision.is_some() { Safety::Guarded } else { Safety::Once };
        let operation = Operation::Reschedule(change_out(id, change)?);
        self.change(namespace, operation, safety).await
    }

    /// Makes a timer due now, or its next attempt. The answer shows it as [`reschedule`](Self::reschedule)
    /// does.
    pub async fn fire(&self, namespace: &str, id: &str) -> Result<Timer, Error> {
        let operation = Operation::Fire(v1::Fire { id: id_out(id)? });
        self.change(namespace, operation, Safety::Once).await
    }

    async fn change(
        &self,
        namespace: &str,
        operation: Operation,
        safety: Safety,
    ) -> Result<Timer, Error> {
        match self.operate(namespace, operation, safety).await? {
            Kind::Timer(timer) => timer_in(timer),
            _ => Err(another_kind()),
        }
    }

    async fn operate(
        &self,
        namespace: &str,
        operation: Operation,
        safety: Safety,
    ) -> Result<Kind, Error> {
        let namespace = namespace_out(namespace)?;
        if !self.is_batched {
            return self.operate_alone(namespace.as_ref().to_owned(), operation, safety).await;
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
    ) -> Result<Kind, Error> {
        let path = path_of(Some(&operation));
        let on_top = Duration::ZERO;
        let answered = match operation {
            Operation::Schedule(it) => {
                let request = v1::ScheduleRequest { namespace, schedule: Some(it) };
                call!(self, timers.schedule, request, safety, on_top).map(Kind::Scheduled)
            }
            Operation::Reschedule(it) => {
                let request = v1::RescheduleRequest { namespace, reschedule: Some(it) };
                call!(self, timers.reschedule, request, safety, on_top).map(Kind::Timer)
            }
            Operation::Cancel(it) => {
                let request = v1::CancelRequest { namespace, cancel: Some(it) };
                call!(self, timers.cancel, request, safety, on_top).map(Kind::Cancelled)
            }
            Operation::Fire(it) => {
                let request = v1::FireRequest { namespace, fire: Some(it) };
                call!(self, timers.fire, request, safety, on_top).map(Kind::Timer)
            }
        };
        answered.map_err(|error| error.without_path(path))
    }
}

fn another_kind() -> Error {
    Error::answer("it is one to another operation")
}
