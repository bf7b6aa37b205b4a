//! Consumers: call a handler for each firing of a namespace, and settle its verdict.
//!
//! ```text
//!                 ┌──────────── one task ────────────┐
//!   server ──────►│ firing ─► seen? ─► handler's task│   up to `concurrency` at once
//!   (a stream,    │   ▲         │ack        │        │
//!    credits)◄────│ verdicts, extensions ◄──┘        │
//!                 └──────────────────────────────────┘
//! ```
//!
//! 1. **Credits**: there are never more credits than free handlers. So a firing that arrives is handled at
//!    once, and none waits in memory while another consumer could have it.
//! 2. **Leases** are extended each time a third of them has passed, as long as the handler runs and the
//!    server allows (12 h).
//! 3. **Verdicts** that are ready at the same time go in one message.
//! 4. **A lost connection** is replaced; the wait between attempts doubles. The server releases the firings
//!    of a stream that ends. Handlers run on.
//! 5. **A repeated delivery** is not handled twice: if its handler still runs, the handler continues under
//!    the new lease; if it is done, the delivery is acknowledged ([`Dedup`]).
//! 6. **A handler that panics** counts as a retry with the panic's message.
//!
//! Delivery is still at least once. Deduplication lives in this process: a firing that was handled right
//! before the process died is delivered again, perhaps to another process. Tie effects that must not happen
//! twice to [`Firing::delivery_id`](crate::Firing::delivery_id), for example by a unique column in the same
//! transaction.

mod counts;
mod handler;
mod recent_deliveries;
mod running_handlers;
mod session;
mod worker;

use std::{sync::Arc, time::Duration};

use duly_core::Code;
use tokio::{sync::watch, task::JoinHandle};

use self::{counts::Counters, worker::Worker};
pub use self::{
    counts::Counts,
    handler::{Failure, Handler},
};
use crate::{
    client::{Client, namespace_name},
    error::{Error, Result, RetryAdvice, check_runtime, within},
};

/// Most firings that a consumer may hold; also the server's limit.
const CONCURRENCY_MAX: usize = 10_000;
/// Most delivery ids that are remembered.
const DEDUP_ENTRIES_MAX: usize = 10_000_000;

/// A running consumer. It works until it is stopped, its handle is dropped, or the server refuses it
/// with a permanent error.
#[derive(Debug)]
#[must_use = "a consumer stops when its handle is dropped"]
pub struct Consumer {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<()>>,
    counters: Arc<Counters>,
}

impl Client {
    /// Calls a handler for each firing of a namespace, with default options: 16 handlers at once, leases
    /// of 30 s.
    ///
    /// `Ok` acknowledges a firing. `Err` retries it or dead-letters it: see [`Failure`]. The operator
    /// `?` turns any error into a retry.
    ///
    /// ```no_run
    /// # async fn example(client: duly_client::Client) -> Result<(), duly_client::Error> {
    /// use duly_client::{Failure, Firing};
    ///
    /// let consumer = client.consume("orders", |firing: Firing| async move {
    ///     let order: u64 = firing.json().map_err(Failure::dead)?;
    ///     println!("order {order} was not paid");
    ///     Ok::<(), Failure>(())
    /// })?;
    /// tokio::signal::ctrl_c().await.ok();
    /// consumer.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn consume(&self, namespace: &str, handler: impl Handler) -> Result<Consumer> {
        self.consumer(namespace).start(handler)
    }

    /// Returns a builder of a consumer of a namespace, to choose its options.
    pub fn consumer(&self, namespace: &str) -> ConsumerBuilder {
        let options = Options {
            concurrency: 16,
            lease: Duration::from_secs(30),
            stop_within: Duration::from_secs(25),
            dedup: Dedup::default(),
        };
        ConsumerBuilder { client: self.clone(), namespace: namespace.to_owned(), options }
    }
}

/// Options of the deduplication of deliveries.
///
/// A consumer remembers the ids of the deliveries whose handler returned `Ok`. When such a delivery
/// comes again, it is acknowledged without calling the handler. This covers acknowledgements that got
/// lost with a connection, and leases that ended while the handler worked.
///
/// It does not cover:
///
/// - another process, or this one after a restart,
/// - ids that were evicted, because there were too many of them or too much time had passed,
/// - handlers that did their work and then failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dedup {
    /// Most ids that are remembered: up to 10,000,000 at about 100 bytes each; 0 remembers none. The
    /// least recently used id is evicted first. Default 10,000.
    pub entries_max: usize,
    /// Time for which an id is remembered after its delivery was handled: up to a day, default 10 min.
    pub keep: Duration,
}

impl Default for Dedup {
    fn default() -> Self {
        Self { entries_max: 10_000, keep: Duration::from_secs(600) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Options {
    concurrency: usize,
    lease: Duration,
    stop_within: Duration,
    dedup: Dedup,
}

/// Starts a [`Consumer`]; see [`Client::consumer`].
#[derive(Debug, Clone)]
#[must_use = "a consumer is started by start()"]
pub struct ConsumerBuilder {
    client: Client,
    namespace: String,
    options: Options,
}

impl ConsumerBuilder {
    /// Sets the number of firings that are handled at once: 1 to 10,000, default 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.options.concurrency = concurrency;
        self
    }

    /// Sets the length of each lease: 1 s to 12 h, default 30 s. It is extended while the handler runs.
    /// So it need only cover the time until other consumers may take over from a process that died.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets the time that handlers have after a stop: up to 12 h, default 25 s. Firings that arrive on
    /// credits given before the stop are released only at its end. So keep it short if other consumers
    /// wait.
    pub fn stop_within(mut self, limit: Duration) -> Self {
        self.options.stop_within = limit;
        self
    }

    /// Sets the deduplication of deliveries.
    pub fn dedup(mut self, dedup: Dedup) -> Self {
        self.options.dedup = dedup;
        self
    }

    /// Checks the options, and starts the consumer on the current Tokio runtime.
    pub fn start(self, handler: impl Handler) -> Result<Consumer> {
        let Self { client, namespace, options } = self;
        let seconds = Duration::from_secs;
        within("concurrency", options.concurrency, 1, CONCURRENCY_MAX)?;
        within("lease", options.lease, seconds(1), seconds(12 * 3_600))?;
        within("stop_within", options.stop_within, Duration::ZERO, seconds(12 * 3_600))?;
        within("dedup.entries_max", options.dedup.entries_max, 0, DEDUP_ENTRIES_MAX)?;
        within("dedup.keep", options.dedup.keep, Duration::ZERO, seconds(86_400))?;
        check_runtime("start", "called within a Tokio runtime")?;
        let namespace = namespace_name(&namespace)?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(false);
        let worker =
            Worker::new(client, namespace, options, handler, stopped, Arc::clone(&counters));
        Ok(Consumer { stop, task: tokio::spawn(worker.run()), counters })
    }
}

impl Consumer {
    /// Returns the counts of its work so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Stops the consumer, and returns its counts:
    ///
    /// 1. No further firing is handled.
    /// 2. Running handlers have [`ConsumerBuilder::stop_within`] to finish, and their firings are
    ///    settled. After that time they are aborted.
    /// 3. Firings that were received and not settled are due again at once, and the attempt counts.
    pub async fn stop(self) -> Result<Counts> {
        // A consumer that has already ended cannot be notified.
        self.stop.send(true).ok();
        self.ended().await
    }

    /// Waits until the consumer ends by itself: the server refuses it permanently (no permission, a
    /// lease that is not allowed), or its runtime is shut down.
    pub async fn ended(self) -> Result<Counts> {
        let Self { stop, task, counters } = self;
        let ended = task.await;
        drop(stop);
        match ended {
            Ok(ended) => ended.map(|()| counters.read()),
            Err(error) => Err(Error::Unknown {
                code: Code::Internal,
                reason: format!("the task of the consumer ended ({error})"),
                retry: RetryAdvice::Never,
            }),
        }
    }
}
