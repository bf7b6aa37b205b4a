//! The operation queue of one namespace (`Lane`), and the tasks that send its batches.
//!
//! 1. A queue exists as long as it has work.
//! 2. Each batch under way has a task. When the batch has its response, the task takes the next batch.
//!    It ends when there is none.
//! 3. The last task removes the queue, under the lock that also guards a push.
//! 4. If a task ends early because its runtime is shut down, it removes the queue, and the waiting
//!    callers get an error.
//! 5. An operation waits while another one on its id is under way. So the operations on one id are
//!    carried out in the order of the calls.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use duly_api::{Operation, OperationResult, v1};
use duly_core::Code;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, oneshot},
    time::{Instant, timeout},
};

use super::{Batches, Batching, Done, Place};
use crate::error::{Error, Result, check_count};

/// An operation that waits in the queue or is under way.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: Arc<str>,
    pub(super) operation: Operation,
    pub(super) bytes: usize,
    pub(super) place: Arc<Place>,
    pub(super) answer: oneshot::Sender<Done>,
    pub(super) deadline: Instant,
    pub(super) limit: Duration,
    /// The capacity that it has reserved of `waiting_bytes_max`; released with the result.
    pub(super) room: OwnedSemaphorePermit,
}

impl Waiting {
    fn answer(self, done: Done) {
        // A caller that has stopped waiting does not need the result.
        self.answer.send(done).ok();
        drop(self.room);
    }
}

/// The operation queue of a namespace.
#[derive(Debug, Default)]
pub(super) struct Lane {
    waiting: VecDeque<Waiting>,
    /// Number of running tasks.
    tasks: usize,
    /// `true`: a task is about to take a batch, so no further task is needed.
    about_to_take: bool,
    /// Ids of the operations under way.
    busy: HashSet<Arc<str>>,
    /// Notified when a batch is full before its linger time ends.
    full: Arc<Notify>,
}

impl Lane {
    /// Takes the next batch: the waiting operations in order, without those whose id is under way.
    fn take(&mut self, options: &Batching) -> Vec<Waiting> {
        let mut batch: Vec<Waiting> = Vec::new();
        let mut later = VecDeque::new();
        let mut bytes = 0_usize;
        while batch.len() < options.operations_max
            && let Some(next) = self.waiting.pop_front()
        {
            if self.busy.contains(&next.id) {
                later.push_back(next);
            } else if batch.is_empty() || bytes + next.bytes <= options.bytes_max {
                bytes += next.bytes;
                batch.push(next);
            } else {
                self.waiting.push_front(next);
                break;
            }
        }
        later.append(&mut self.waiting);
        self.waiting = later;
        self.busy.extend(batch.iter().map(|waiting| Arc::clone(&waiting.id)));
        batch
    }
}

impl Batches {
    /// Appends an operation to the queue of its namespace, and starts a task if one is needed.
    pub(super) fn push(self: &Arc<Self>, namespace: &Arc<str>, waiting: Waiting) {
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(Arc::clone(namespace)).or_default();
        lane.waiting.push_back(waiting);
        if lane.about_to_take {
            if lane.waiting.len() >= self.options.operations_max {
                lane.full.notify_one();
            }
        } else if lane.tasks < self.options.batches_max {
            lane.tasks += 1;
            lane.about_to_take = true;
            let task = Task {
                batches: Arc::clone(self),
                namespace: Arc::clone(namespace),
                full: Arc::clone(&lane.full),
            };
            drop(lanes);
            tokio::spawn(task.run());
        }
    }

    /// Sends a batch. A batch that is too large for the server is halved and sent in parts.
    async fn send(&self, namespace: &str, batch: Vec<Waiting>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            // Operations that their callers have withdrawn are not sent.
            part.retain(|waiting| waiting.place.take());
            let Some(deadline) = part.iter().map(|waiting| waiting.deadline).max() else {
                continue;
            };
            match self.send_part(namespace, &part, deadline).await {
                Ok(results) => {
                    for (i, (waiting, result)) in part.into_iter().zip(results).enumerate() {
                        let done = of_item(&waiting.operation, i, result);
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
    ) -> Result<Vec<OperationResult>> {
        let limit = part.iter().map(|waiting| waiting.limit).max().unwrap_or_default();
        let operations = part.iter().map(|waiting| waiting.operation.clone()).collect();
        let request = v1::BatchRequest { namespace: namespace.to_owned(), operations };
        let mut timers = self.link.timers();
        let batch = |request| async move { timers.batch(request).await };
        let results = self.link.call(request, deadline, limit, batch).await?.results;
        check_count(results.len(), part.len(), "operations")?;
        Ok(results)
    }
}

/// Returns the result of one operation, in the form of a single call's result.
pub(crate) fn of_item(operation: &Operation, place: usize, result: OperationResult) -> Done {
    match result {
        OperationResult { error: Some(problem), .. } => Err(Error::from(*problem)
            .without_path(&format!("operations[{place}]."))
            .without_path(&format!("{}.", operation.name()))),
        OperationResult { timer: None, cancelled: None, .. } => {
            Err(Error::answer("a result is empty"))
        }
        result => Ok(result),
    }
}

/// Returns the error of an operation whose queue was removed because its runtime was shut down.
pub(super) fn stopped() -> Error {
    Error::unknown(Code::Aborted, "the runtime that the client worked on was shut down")
}

/// A task of a queue: sends one batch after the other.
struct Task {
    batches: Arc<Batches>,
    namespace: Arc<str>,
    /// The `full` of its own queue. It tells the queue from a later one of the same namespace.
    full: Arc<Notify>,
}

impl Task {
    async fn run(self) {
        let linger = self.batches.options.linger;
        let mut guard = Guard(Some(self));
        if let Some(task) = guard.0.as_ref().filter(|_| !linger.is_zero()) {
            // The operation that fills the batch ends the wait.
            timeout(linger, task.full.notified()).await.ok();
        }
        while let Some(task) = &guard.0 {
            let batch = task.take();
            if batch.is_empty() {
                guard.0 = None;
            } else {
                let ids: Vec<_> = batch.iter().map(|waiting| Arc::clone(&waiting.id)).collect();
                task.batches.send(&task.namespace, batch).await;
                task.free(&ids);
            }
        }
    }

    /// Takes the next batch. When there is none, the task counts as ended; the last task removes the
    /// queue.
    fn take(&self) -> Vec<Waiting> {
        let mut lanes = self.batches.lanes.lock();
        let Some(lane) = self.own(&mut lanes) else { return Vec::new() };
        lane.about_to_take = false;
        let batch = lane.take(&self.batches.options);
        if batch.is_empty() {
            lane.tasks -= 1;
            // Operations that are left wait for ids that another task has under way.
            if lane.tasks == 0 {
                lanes.remove(&self.namespace);
            }
        }
        batch
    }

    /// Releases the ids of a batch that has its response.
    fn free(&self, ids: &[Arc<str>]) {
        if let Some(lane) = self.own(&mut self.batches.lanes.lock()) {
            for id in ids {
                lane.busy.remove(id);
            }
        }
    }

    fn own<'a>(&self, lanes: &'a mut HashMap<Arc<str>, Lane>) -> Option<&'a mut Lane> {
        lanes.get_mut(&self.namespace).filter(|lane| Arc::ptr_eq(&lane.full, &self.full))
    }
}

/// Removes the queue when its task ends early.
struct Guard(Option<Task>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            let mut lanes = task.batches.lanes.lock();
            let lane = task.own(&mut lanes).is_some().then(|| lanes.remove(&task.namespace));
            // The waiting callers are notified by this drop, after the lock is released.
            drop(lanes);
            drop(lane);
        }
    }
}
