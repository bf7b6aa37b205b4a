//! The operations of one namespace that wait, and the task that sends them.
//!
//! A lane is there as long as it has work: the first operation makes it and its task, and the task
//! takes it away, under the same lock, when nothing waits any more. Should the task end otherwise (its
//! runtime is shut down), the lane goes with it, and those who wait are told.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use duly_core::Code;
use duly_proto::v1::{self, operation::Operation, operation_result::Result as Kind};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, oneshot},
    time::{Instant, timeout},
};

use super::{Batches, Done, Place};
use crate::error::{Error, Retry, of_problem};

/// An operation that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) operation: v1::Operation,
    pub(super) bytes: usize,
    pub(super) place: Arc<Place>,
    pub(super) answer: oneshot::Sender<Done>,
    pub(super) deadline: Instant,
    pub(super) limit: Duration,
    /// Its share of what may wait; free again when it is answered.
    pub(super) room: OwnedSemaphorePermit,
}

impl Waiting {
    fn answer(self, done: Done) {
        // A caller that is gone does not want to know.
        self.answer.send(done).ok();
        drop(self.room);
    }
}

/// What waits in a namespace.
#[derive(Debug, Default)]
pub(super) struct Lane {
    waiting: VecDeque<Waiting>,
    /// Told when a batch is full before its time.
    full: Arc<Notify>,
}

impl Batches {
    /// Puts an operation into its lane, and makes the lane work.
    pub(super) fn push(self: &Arc<Self>, namespace: &Arc<str>, waiting: Waiting) {
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(namespace) {
            lane.waiting.push_back(waiting);
            if lane.waiting.len() >= self.options.operations_max {
                lane.full.notify_one();
            }
            return;
        }
        let mut lane = Lane::default();
        lane.waiting.push_back(waiting);
        let full = Arc::clone(&lane.full);
        lanes.insert(Arc::clone(namespace), lane);
        drop(lanes);
        tokio::spawn(
            Task { batches: Arc::clone(self), namespace: Arc::clone(namespace) }.run(full),
        );
    }

    /// The next batch; the lane goes when there is none.
    fn take(&self, namespace: &str) -> Vec<Waiting> {
        let mut lanes = self.lanes.lock();
        let mut batch = Vec::new();
        if let Some(lane) = lanes.get_mut(namespace) {
            let mut bytes = 0_usize;
            while batch.len() < self.options.operations_max
                && let Some(next) = lane.waiting.front()
                && (batch.is_empty() || bytes + next.bytes <= self.options.bytes_max)
            {
                bytes += next.bytes;
                batch.extend(lane.waiting.pop_front());
            }
        }
        if batch.is_empty() {
            lanes.remove(namespace);
        }
        batch
    }

    /// Sends a batch, in parts where the server takes no more at once.
    async fn send(&self, namespace: &str, batch: Vec<Waiting>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            // What its caller has given up is not sent.
            part.retain(|waiting| waiting.place.take());
            let Some(deadline) = part.iter().map(|waiting| waiting.deadline).max() else {
                continue;
            };
            match self.send_part(namespace, &part, deadline).await {
                Ok(results) => {
                    for (i, (waiting, result)) in part.into_iter().zip(results).enumerate() {
                        let done = done(&waiting.operation, i, result);
                        waiting.answer(done);
                    }
                }
                Err(Error::Refused(refusal))
                    if refusal.code == Code::RequestTooLarge && part.len() > 1 =>
                {
                    for waiting in &part {
                        waiting.place.put_back();
                    }
                    let second = part.split_off(part.len() / 2);
                    parts.push(second);
                    parts.push(part);
                }
                Err(error) => {
                    for waiting in part {
                        waiting.answer(Err(error.clone()));
                    }
                }
            }
        }
    }

    async fn send_part(
        &self,
        namespace: &str,
        part: &[Waiting],
        deadline: Instant,
    ) -> Result<Vec<v1::OperationResult>, Error> {
        let limit = part.iter().map(|waiting| waiting.limit).max().unwrap_or_default();
        let operations = part.iter().map(|waiting| waiting.operation.clone()).collect();
        let request = v1::BatchRequest { namespace: namespace.to_owned(), operations };
        let mut timers = self.link.timers();
        let batch = |request| async move { timers.batch(request).await };
        let results = self.link.call(request, deadline, limit, batch).await?.results;
        if results.len() != part.len() {
            let (asked, answered) = (part.len(), results.len());
            return Err(Error::answer(format!("{answered} results for {asked} operations")));
        }
        Ok(results)
    }
}

/// What became of one operation, as if it had been alone.
fn done(operation: &v1::Operation, place: usize, result: v1::OperationResult) -> Done {
    let kind = match operation.operation {
        Some(Operation::Schedule(_)) => "schedule.",
        Some(Operation::Reschedule(_)) => "reschedule.",
        Some(Operation::Cancel(_)) => "cancel.",
        Some(Operation::Fire(_)) => "fire.",
        None => "",
    };
    match result.result {
        Some(Kind::Error(problem)) => Err(match of_problem(problem) {
            Error::Refused(refusal) => {
                let refusal = refusal.without_path(&format!("operations[{place}]."));
                Error::Refused(Box::new(refusal.without_path(kind)))
            }
            other => other,
        }),
        Some(kind) => Ok(kind),
        None => Err(Error::answer("a result is empty")),
    }
}

/// Nobody is left who could carry it out.
pub(super) fn stopped() -> Error {
    Error::Unknown {
        code: Code::Aborted,
        reason: "the runtime that the client worked on was shut down".to_owned(),
        retry: Retry::AfterALook,
    }
}

/// The task of a lane.
struct Task {
    batches: Arc<Batches>,
    namespace: Arc<str>,
}

impl Task {
    async fn run(self, full: Arc<Notify>) {
        let linger = self.batches.options.linger;
        let mut guard = Guard(Some(self));
        while let Some(task) = &guard.0 {
            if !linger.is_zero() {
                // Whoever is the last to fill the batch ends the wait.
                timeout(linger, full.notified()).await.ok();
            }
            let batch = task.batches.take(&task.namespace);
            if batch.is_empty() {
                // The lane is gone; one that is made from now on has a task of its own.
                guard.0 = None;
            } else {
                task.batches.send(&task.namespace, batch).await;
            }
        }
    }
}

/// Takes the lane away when its task ends before its time.
struct Guard(Option<Task>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            let lane = task.batches.lanes.lock().remove(&task.namespace);
            // Those who wait are told when the lock is free again.
            drop(lane);
        }
    }
}
