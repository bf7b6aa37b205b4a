//! Automatic batching: sends concurrent operations on one namespace in shared requests.
//!
//! ```text
//!   schedule ─┐             one queue (`OperationQueue`) per namespace, while it has work
//!   cancel   ─┼─► queue ──► fewer than `batches_max` under way? now : with the next ──► Batch
//!   fire     ─┘     ▲                                                               │
//!                   └────────────── its own result, or error ◄──────────────────────┘
//! ```
//!
//! 1. While fewer than `batches_max` batches are under way, an operation is sent at once. This adds no
//!    latency: the server writes operations that arrive together in one go in any case.
//! 2. While `batches_max` batches are under way, operations gather and go with the next batch. So batches
//!    grow with the load. Only a `linger` above zero waits on purpose.
//! 3. Operations on one id are carried out in the order of the calls, unless they have to be repeated.
//! 4. A refused operation refuses only itself. A failed batch fails each of its operations, and each call
//!    decides for itself whether to repeat its operation ([`crate::retry`]).
//! 5. Everything has a limit: operations and bytes of a batch, batches under way, and bytes of all
//!    operations that wait or are under way.

mod queue;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use duly_api::{Operation, OperationResult};
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};

pub(crate) use self::queue::of_item;
use self::queue::{OperationQueue, QueuedOperation};
use crate::{
    connection::Connection,
    error::{Error, Result},
};

/// Bytes counted for an operation besides its own: its frame in the message, its entry in the queue.
const OPERATION_BYTES: usize = 256;

/// Settings of the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Time that a batch waits for more operations: up to 1 s, default 0. Even with 0, operations that
    /// have to wait for batches under way are sent together.
    pub linger: Duration,
    /// Most batches of a namespace that are under way at once, 1 to 64; default 16. With 1 there are the
    /// fewest and largest batches, and each operation waits for the batch before its own.
    pub batches_max: usize,
    /// Most operations of a batch, 1 to 10,000; default 1000. With 1, each operation is sent alone.
    pub operations_max: usize,
    /// Most bytes of a batch, up to 32 MiB, unless its first operation is larger; default 1 MiB.
    pub bytes_max: usize,
    /// Most bytes of all operations that wait or are under way, 1 MiB to 1 GiB; default 64 MiB. Above
    /// this, a call waits for free capacity before it is queued.
    pub waiting_bytes_max: usize,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            batches_max: 16,
            operations_max: 1_000,
            bytes_max: 1024 * 1024,
            waiting_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// The result of an operation: never one with a `Problem`, and never an empty one.
pub(crate) type OperationOutcome = Result<OperationResult>;

/// The operation queues of a client.
#[derive(Debug)]
pub(crate) struct Batches {
    connection: Connection,
    options: Batching,
    capacity: Arc<Semaphore>,
    /// The queues that have work, by namespace.
    queues: Mutex<HashMap<Arc<str>, OperationQueue>>,
}

impl Batches {
    pub(crate) fn new(connection: Connection, options: Batching) -> Self {
        let capacity = Arc::new(Semaphore::new(options.waiting_bytes_max));
        Self { connection, options, capacity, queues: Mutex::default() }
    }

    /// Carries out one operation, once, in a batch with others.
    pub(crate) async fn run(
        self: &Arc<Self>,
        namespace: &Arc<str>,
        operation: Operation,
        deadline: Instant,
        limit: Duration,
    ) -> OperationOutcome {
        let id = Arc::from(operation.timer_id());
        let bytes = operation.encoded_len() + OPERATION_BYTES;
        let reserved = u32::try_from(bytes.min(self.options.waiting_bytes_max)).unwrap_or(u32::MAX);
        let capacity =
            timeout_at(deadline, Arc::clone(&self.capacity).acquire_many_owned(reserved));
        let Ok(Ok(capacity)) = capacity.await else {
            let reason = format!(
                "{} bytes of operations wait already (waiting_bytes_max)",
                self.options.waiting_bytes_max
            );
            return Err(Error::TooLate { limit, reason });
        };
        let (result, received) = oneshot::channel();
        let state = Arc::new(OperationState::default());
        // Dropping this future withdraws the operation, unless it was sent.
        let withdraw_on_drop = WithdrawOnDrop(Arc::clone(&state));
        self.push(
            namespace,
            QueuedOperation { id, operation, bytes, state, result, deadline, limit, capacity },
        );
        match timeout_at(deadline, received).await {
            Ok(Ok(outcome)) => outcome,
            Err(_elapsed) if withdraw_on_drop.0.withdraw() => {
                let reason = "the batches before it are still under way".to_owned();
                Err(Error::TooLate { limit, reason })
            }
            Err(_elapsed) => Err(Error::no_response(limit)),
            Ok(Err(_gone)) => Err(queue::stopped()),
        }
    }
}

const WAITS: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The state of an operation in a queue: waiting, sent or withdrawn. The first of the last two wins.
#[derive(Debug, Default)]
struct OperationState(AtomicU8);

impl OperationState {
    /// Marks the operation as sent. Returns `false` if it was withdrawn.
    fn mark_sent(&self) -> bool {
        self.swap(WAITS, SENT)
    }

    /// Withdraws the operation. Returns `false` if it was sent.
    fn withdraw(&self) -> bool {
        self.swap(WAITS, WITHDRAWN)
    }

    /// Marks a sent operation as waiting again. Only for one that was certainly not carried out.
    fn mark_unsent(&self) {
        self.swap(SENT, WAITS);
    }

    fn swap(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The caller's handle of an operation: withdraws it when dropped.
#[derive(Debug)]
struct WithdrawOnDrop(Arc<OperationState>);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}
