//! The operation queue of one namespace (`OperationQueue`), and the tasks that send its batches.
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

use super::{Batches, Batching, OperationOutcome, OperationState};
use crate::error::{Error, Result, check_count};

/// An operation that waits in the queue or is under way.
#[derive(Debug)]
pub(super) struct QueuedOperation {
    pub(super) id: Arc<str>,
    pub(super) operation: Operation,
    pub(super) bytes: usize,
    pub(super) state: Arc<OperationState>,
    pub(super) result: oneshot::Sender<OperationOutcome>,
    pub(super) deadline: Instant,
    pub(super) limit: Duration,
    /// The capacity that it has reserved of `waiting_bytes_max`; released with the result.
    pub(super) capacity: OwnedSemaphorePermit,
}

impl QueuedOperation {
    fn finish(self, outcome: OperationOutcome) {
        // A caller that has stopped waiting does not need the result.
        self.result.send(outcome).ok();
        drop(self.capacity);
    }
}

/// The operation queue of a namespace.
#[derive(Debug, Default)]
pub(super) struct OperationQueue {
    waiting: VecDeque<QueuedOperation>,
    /// Number of running tasks.
    tasks: usize,
    /// `true`: a task is about to take a batch, so no further task is needed.
    about_to_take: bool,
    /// Ids of the operations under way.
    busy: HashSet<Arc<str>>,
    /// Notified when a batch is full before its linger time ends.
    full: Arc<Notify>,
}

impl OperationQueue {
    /// Takes the next batch: the waiting operations in order, without those whose id is under way.
    fn take(&mut self, options: &Batching) -> Vec<QueuedOperation> {
        let mut batch: Vec<QueuedOperation> = Vec::new();
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
    pub(super) fn push(self: &Arc<Self>, namespace: &Arc<str>, waiting: QueuedOperation) {
        let mut queues = self.queues.lock();
        let queue = queues.entry(Arc::clone(namespace)).or_default();
        queue.waiting.push_back(waiting);
        if queue.about_to_take {
            if queue.waiting.len() >= self.options.operations_max {
                queue.full.notify_one();
            }
        } else if queue.tasks < self.options.batches_max {
            queue.tasks += 1;
            queue.about_to_take = true;
            let task = Task {
                batches: Arc::clone(self),
                namespace: Arc::clone(namespace),
                full: Arc::clone(&queue.full),
            };
            drop(queues);
            tokio::spawn(task.run());
        }
    }

    /// Sends a batch. A batch that is too large for the server is halved and sent in parts.
    async fn send(&self, namespace: &str, batch: Vec<QueuedOperation>) {
        let mut batches = vec![batch];
        while let Some(mut batch) = batches.pop() {
            // Operations that their callers have withdrawn are not sent.
            batch.retain(|waiting| waiting.state.mark_sent());
            let Some(deadline) = batch.iter().map(|waiting| waiting.deadline).max() else {
                continue;
            };
            match self.send_batch(namespace, &batch, deadline).await {
                Ok(results) => {
                    for (i, (waiting, result)) in batch.into_iter().zip(results).enumerate() {
                        let outcome = of_item(&waiting.operation, i, result);
                        waiting.finish(outcome);
                    }
                }
                Err(Error::Refused(refusal))
                    if refusal.code == Code::RequestTooLarge && batch.len() > 1 =>
                {
                    for waiting in &batch {
                        waiting.state.mark_unsent();
                    }
                    let second = batch.split_off(batch.len() / 2);
                    batches.push(second);
                    batches.push(batch);
                }
                Err(error) => {
                    for waiting in batch {
                        waiting.finish(Err(error.clone()));
                    }
                }
            }
        }
    }

    async fn send_batch(
        &self,
        namespace: &str,
        batch: &[QueuedOperation],
        deadline: Instant,
    ) -> Result<Vec<OperationResult>> {
        let limit = batch.iter().map(|waiting| waiting.limit).max().unwrap_or_default();
        let operations = batch.iter().map(|waiting| waiting.operation.clone()).collect();
        let request = v1::BatchRequest { namespace: namespace.to_owned(), operations };
        let mut timers = self.connection.timers();
        let send = |request| async move { timers.batch(request).await };
        let results = self.connection.call(request, deadline, limit, send).await?.results;
        check_count(results.len(), batch.len(), "operations")?;
        Ok(results)
    }
}

/// Returns the result of one operation, in the form of a single call's result.
pub(crate) fn of_item(
    operation: &Operation,
    index: usize,
    result: OperationResult,
) -> OperationOutcome {
    match result {
        OperationResult { error: Some(problem), .. } => Err(Error::from(*problem)
            .without_path(&format!("operations[{index}]."))
            .without_path(&format!("{}.", operation.name()))),
        OperationResult { timer: None, cancelled: None, .. } => {
            Err(Error::bad_response("a result is empty"))
        }
        result => Ok(result),
    }
}

/// Returns the error of an operation whose queue was removed because its runtime was shut down.
pub(super) fn stopped() -> Error {
    Error::unknown(Code::Aborted, "the Tokio runtime of the client was shut down")
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
                task.release(&ids);
            }
        }
    }

    /// Takes the next batch. When there is none, the task counts as ended; the last task removes the
    /// queue.
    fn take(&self) -> Vec<QueuedOperation> {
        let mut queues = self.batches.queues.lock();
        let Some(queue) = self.queue(&mut queues) else { return Vec::new() };
        queue.about_to_take = false;
        let batch = queue.take(&self.batches.options);
        if batch.is_empty() {
            queue.tasks -= 1;
            // Operations that are left wait for ids that another task has under way.
            if queue.tasks == 0 {
                queues.remove(&self.namespace);
            }
        }
        batch
    }

    /// Releases the ids of a batch that has its response.
    fn release(&self, ids: &[Arc<str>]) {
        if let Some(queue) = self.queue(&mut self.batches.queues.lock()) {
            for id in ids {
                queue.busy.remove(id);
            }
        }
    }

    fn queue<'a>(
        &self,
        queues: &'a mut HashMap<Arc<str>, OperationQueue>,
    ) -> Option<&'a mut OperationQueue> {
        queues.get_mut(&self.namespace).filter(|queue| Arc::ptr_eq(&queue.full, &self.full))
    }
}

/// Removes the queue when its task ends early.
struct Guard(Option<Task>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            let mut queues = task.batches.queues.lock();
            let queue = task.queue(&mut queues).is_some().then(|| queues.remove(&task.namespace));
            // The waiting callers are notified by this drop, after the lock is released.
            drop(queues);
            drop(queue);
        }
    }
}
