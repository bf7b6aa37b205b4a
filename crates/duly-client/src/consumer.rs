//! Consuming: a handler is called for each firing of a namespace, and its verdict is settled.
//!
//! ```text
//!                 ┌──────────── one task ────────────┐
//!   server ──────►│ firing ─► seen? ─► handler's task│   as many at once as `concurrency`
//!   (a stream,    │   ▲         │ack        │        │
//!    credits)◄────│ verdicts, extensions ◄──┘        │
//!                 └──────────────────────────────────┘
//! ```
//!
//! * **Bounded**: there are never more credits than handlers that are free, so a firing that arrives
//!   is handled at once, and none waits in memory while another consumer could have it.
//! * **Leases** are extended after each third of them, for as long as the handler runs and the server
//!   allows (12 h).
//! * **Verdicts** that are ready together go together.
//! * **A lost connection** is replaced, with waits that double. The server gives the firings of a
//!   stream back when it ends; handlers run on, and when the same delivery comes again it is not handled
//!   a second time: it waits for the handler that runs, or is confirmed if that is done ([`Dedup`]).
//! * **A handler that panics** counts as a retry with the panic's message.
//!
//! Still, at least once is what is promised. Deduplication lives in this process: a firing that was
//! handled right before the process died comes again, maybe to another one. What must not happen twice
//! is to be tied to [`Firing::delivery_id`](crate::Firing::delivery_id) where it happens, such as
//! by a unique column of the same transaction.

mod counts;
mod handler;
mod options;
mod running;
mod seen;
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

/// A consumer at work. It works until it is stopped, the handle is dropped, or the server refuses it
/// for good.
#[derive(Debug)]
#[must_use = "a consumer stops when its handle is dropped"]
pub struct Consumer {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<()>>,
    counters: Arc<Counters>,
}

impl Client {
    /// Calls a handler for each firing of a namespace, with everything as it is by default: 16 at
    /// once, leases of 30 s.
    ///
    /// `Ok` confirms a firing, `Err` says how it goes on: see [`Failure`]. Any error becomes a
    /// retry by `?`.
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

    /// Begins a consumer of a namespace whose settings are chosen.
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

    /// Stops it: no firing is begun any more, handlers that run have until
    /// [`ConsumerBuilder::stop_within`] to finish and are settled, what then still runs is aborted.
    /// What was handed over and not settled is due again at once, and the attempt counts. Answers
    /// what the consumer did.
    pub async fn stop(self) -> Result<Counts> {
        // One that has ended needs no telling.
        self.stop.send(true).ok();
        self.ended().await
    }

    /// Waits until it ends by itself: the server refuses it for good (no permission, a lease that is
    /// not allowed), or its runtime is shut down.
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
