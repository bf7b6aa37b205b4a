//! Automatic batching: operations that wait for the same thing go together.
//!
//! ```text
//!   schedule ─┐                       one lane per namespace, for as long as it has work
//!   cancel   ─┼─► place in a lane ──► few batches under way? at once : with the next ──► Batch
//!   fire     ─┘        ▲                                                             │
//!                      └─────────────── its own result, or error ◄───────────────────┘
//! ```
//!
//! * What comes while fewer than `batches_max` batches are under way is sent at once, and costs no
//!   latency: the server writes what arrives together in one go anyway. What comes while there are so
//!   many gathers, and goes with the next batch. So batches grow with the load by themselves; only
//!   a `linger` that is asked for waits on purpose.
//! * Operations on one id are carried out in the order of the calls, unless they have to be repeated.
//! * An operation that is refused refuses only itself. A whole batch that fails fails each of its
//!   operations, and each decides for itself whether it may be repeated ([`crate::retry`]).
//! * Bounded: operations and bytes of a batch, batches under way, and bytes of all that wait.

mod lane;
mod place;

use std::{collections::HashMap, sync::Arc, time::Duration};

use duly_api::{Operation, OperationResult};
use parking_lot::Mutex;
use prost::Message;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};

pub(crate) use self::lane::of_item;
use self::{
    lane::{Lane, Waiting},
    place::Place,
};
use crate::{
    error::{Error, Result},
    link::Link,
};

/// Bytes of an operation besides its own: its frame in the message, its place in the lane.
const OPERATION_BYTES: usize = 256;

/// Settings of the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Time that a batch waits for more operations, up to 1 s; default not at all. Without it
    /// operations still go together whenever they have to wait.
    pub linger: Duration,
    /// Most batches of a namespace that are under way at once, 1 to 64; default 16. With 1 they are
    /// fewest and largest, and each operation waits for the batch before its own.
    pub batches_max: usize,
    /// Most operations of a batch, 1 to 10,000; default 1000. With 1 nothing is put together.
    pub operations_max: usize,
    /// Most bytes of a batch, up to 32 MiB, unless its first operation is larger; default 1 MiB.
    pub bytes_max: usize,
    /// Most bytes of all operations that wait or are under way, 1 MiB to 1 GiB; default 64 MiB. Past
    /// it calls wait for room before they are taken.
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
pub(crate) type Done = Result<OperationResult>;

/// All lanes of a client.
#[derive(Debug)]
pub(crate) struct Batches {
    link: Link,
    options: Batching,
    room: Arc<Semaphore>,
    /// Those that have work, each with a task that carries it out.
    lanes: Mutex<HashMap<Arc<str>, Lane>>,
}

impl Batches {
    pub(crate) fn new(link: Link, options: Batching) -> Self {
        let room = Arc::new(Semaphore::new(options.waiting_bytes_max));
        Self { link, options, room, lanes: Mutex::default() }
    }

    /// Carries out one operation, once, together with others.
    pub(crate) async fn run(
        self: &Arc<Self>,
        namespace: &Arc<str>,
        operation: Operation,
        deadline: Instant,
        limit: Duration,
    ) -> Done {
        let id = Arc::from(operation.timer_id());
        let bytes = operation.encoded_len() + OPERATION_BYTES;
        let share = u32::try_from(bytes.min(self.options.waiting_bytes_max)).unwrap_or(u32::MAX);
        let room = timeout_at(deadline, Arc::clone(&self.room).acquire_many_owned(share));
        let Ok(Ok(room)) = room.await else {
            let reason = format!(
                "{} bytes of operations wait already (waiting_bytes_max)",
                self.options.waiting_bytes_max
            );
            return Err(Error::TooLate { limit, reason });
        };
        let (answer, answered) = oneshot::channel();
        let place = Arc::new(Place::default());
        // A caller that stops waiting before it is sent takes it back.
        let own = place::Own(Arc::clone(&place));
        self.push(
            namespace,
            Waiting { id, operation, bytes, place, answer, deadline, limit, room },
        );
        match timeout_at(deadline, answered).await {
            Ok(Ok(done)) => done,
            Err(_elapsed) if own.0.give_up() => {
                let reason = "the batches before it are still under way".to_owned();
                Err(Error::TooLate { limit, reason })
            }
            Err(_elapsed) => Err(Error::no_answer(limit)),
            Ok(Err(_gone)) => Err(lane::stopped()),
        }
    }
}
