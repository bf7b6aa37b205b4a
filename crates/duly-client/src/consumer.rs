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
mod options;
mod recent_deliveries;
mod running_handlers;
mod session;
mod worker;

use std::sync::Arc;

use duly_core::Code;
use tokio::{sync::watch, task::JoinHandle};

use self::{counts::Counters, options::Options, worker::Worker};
pub use self::{
    counts::Counts,
    handler::{Failure, Handler},
    options::{ConsumerBuilder, Dedup},
};
use crate::{
    client::{Client, namespace_name},
    error::{Error, Result, RetryAdvice},
};

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
        ConsumerBuilder::new(self.clone(), namespace.to_owned())
    }
}

impl Consumer {
    fn start(
        client: Client,
        namespace: &str,
        options: Options,
        handler: impl Handler,
    ) -> Result<Self> {
        let namespace = namespace_name(namespace)?;
        let counters = Arc::new(Counters::default());
        let (stop, stopped) = watch::channel(false);
        let worker =
            Worker::new(client, namespace, options, handler, stopped, Arc::clone(&counters));
        Ok(Self { stop, task: tokio::spawn(worker.run()), counters })
    }

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
