//! The task of a consumer across its connections: handlers, recently handled deliveries, reconnects.

use std::{future::Future, pin::Pin, sync::Arc};

use duly_api::{Firing, Settlement};
use duly_core::Code;
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    Failure, Handler, Options,
    counts::Counters,
    recent_deliveries::RecentDeliveries,
    running_handlers::RunningHandlers,
    session::{Session, StreamEnd},
};
use crate::{
    client::Client,
    error::{Error, Result, RetryAdvice},
};

/// The result of a handler's task.
pub(super) type HandlerResult = Result<(Id, Result<(), Failure>), JoinError>;

/// The handler, with its type erased.
type Call = Arc<dyn Fn(Firing) -> Handling + Send + Sync>;
type Handling = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// A running consumer.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) namespace: Arc<str>,
    pub(super) options: Options,
    pub(super) counters: Arc<Counters>,
    pub(super) running: RunningHandlers,
    pub(super) recent: RecentDeliveries,
    /// One task for each running handler.
    pub(super) tasks: JoinSet<Result<(), Failure>>,
    /// Deadline of running handlers, once the consumer is stopping.
    pub(super) stops_at: Option<Instant>,
    handler: Call,
    /// Notified of a stop.
    pub(super) stopped: watch::Receiver<bool>,
}

impl Worker {
    pub(super) fn new(
        client: Client,
        namespace: Arc<str>,
        options: Options,
        handler: impl Handler,
        stopped: watch::Receiver<bool>,
        counters: Arc<Counters>,
    ) -> Self {
        let handler = Arc::new(handler);
        let handler: Call = Arc::new(move |firing| {
            let handler = Arc::clone(&handler);
            Box::pin(async move { handler.handle(firing).await })
        });
        Self {
            client,
            namespace,
            recent: RecentDeliveries::new(options.dedup),
            options,
            counters,
            running: RunningHandlers::default(),
            tasks: JoinSet::new(),
            stops_at: None,
            handler,
            stopped,
        }
    }

    /// Works until it is stopped, or the server refuses it permanently.
    pub(super) async fn run(mut self) -> Result<()> {
        let retries = self.client.inner.retries;
        let mut failures = 0;
        while self.stops_at.is_none() {
            let began = Instant::now();
            let lost = match self.connect().await {
                None => break,
                Some(Err(error)) => error,
                Some(Ok(session)) => {
                    self.counters.connected.increment();
                    match session.run(&mut self).await {
                        StreamEnd::Stopped => return Ok(()),
                        StreamEnd::Lost { error, received_any } => {
                            if received_any || began.elapsed() > retries.longest_wait {
                                failures = 0;
                            }
                            error
                        }
                    }
                }
            };
            self.running.mark_all_lost();
            if is_final(&lost) {
                self.finish().await;
                return Err(lost);
            }
            failures += 1;
            let wait = retries.some_wait_after(failures);
            let wait = match lost.retry() {
                RetryAdvice::After(asked) => wait.max(asked.min(retries.longest_wait)),
                _ => wait,
            };
            tracing::info!(namespace = %self.namespace, error = %lost, ?wait, "consumer lost its connection, will reconnect");
            self.pause(Instant::now() + wait).await;
        }
        self.finish().await;
        Ok(())
    }

    /// Opens a stream. Returns `None` if the consumer is stopped meanwhile.
    async fn connect(&mut self) -> Option<Result<Session>> {
        let mut stopped = self.stopped.clone();
        let session = Session::open(self);
        tokio::select! {
            session = session => Some(session),
            () = stop_requested(&mut stopped) => {
                self.begin_stop();
                None
            }
        }
    }

    /// Waits until a time or a stop, and processes handlers that end meanwhile.
    async fn pause(&mut self, until: Instant) {
        let mut stopped = self.stopped.clone();
        loop {
            tokio::select! {
                () = sleep_until(until) => return,
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.ended(ended);
                }
                () = stop_requested(&mut stopped) => {
                    self.begin_stop();
                    return;
                }
            }
        }
    }

    /// Waits for handlers whose firings can no longer be settled, up to the deadline of the stop.
    async fn finish(&mut self) {
        let until = self.begin_stop();
        loop {
            tokio::select! {
                ended = self.tasks.join_next_with_id() => match ended {
                    Some(ended) => drop(self.ended(ended)),
                    None => return,
                },
                () = sleep_until(until) => return self.abort(),
            }
        }
    }

    /// Begins the stop: no further handler is started. Returns the deadline of the running handlers.
    pub(super) fn begin_stop(&mut self) -> Instant {
        let within = self.options.stop_within;
        *self.stops_at.get_or_insert_with(|| Instant::now() + within)
    }

    /// Aborts the handlers that still run.
    pub(super) fn abort(&mut self) {
        self.tasks.abort_all();
        // A handler that blocks its thread cannot be aborted. It is not waited for.
        self.tasks.detach_all();
        self.counters.aborted.add(self.running.clear());
    }

    /// Calls the handler in a task of its own.
    pub(super) fn begin(&mut self, firing: Firing, extend_at: Instant) {
        let (token, delivery_id) = (firing.token.clone(), firing.delivery_id.clone());
        let handler = Arc::clone(&self.handler);
        let task = self.tasks.spawn(async move { handler(firing).await });
        self.running.begin(task.id(), &delivery_id, token, extend_at);
    }

    /// Records that a handler ended. Returns its settlement, if there is a lease to settle.
    pub(super) fn ended(&mut self, ended: HandlerResult) -> Option<Settlement> {
        let (id, failure) = match ended {
            Ok((id, result)) => (id, result.err()),
            Err(error) => {
                let id = error.id();
                // An aborted handler has no verdict.
                let panic = error.try_into_panic().ok()?;
                self.counters.panicked.increment();
                let failure =
                    Failure::retry(format!("the handler panicked: {}", panic_message(&*panic)));
                (id, Some(failure))
            }
        };
        let (delivery_id, token) = self.running.end(id)?;
        if failure.is_none() {
            self.recent.remember(&delivery_id, Instant::now());
        }
        let token = token?;
        Some(match failure {
            None => Settlement::ack(token),
            Some(failure) => failure.into_settlement(token),
        })
    }
}

/// Waits until the consumer is stopped or its handle is dropped.
pub(super) async fn stop_requested(stopped: &mut watch::Receiver<bool>) {
    // An error means that the handle was dropped, which stops the consumer as well.
    stopped.wait_for(|stopped| *stopped).await.ok();
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Returns `true` if a reconnect cannot help.
fn is_final(error: &Error) -> bool {
    // The server creates a namespace with its first timer, so `not_found` may pass.
    error.retry() == RetryAdvice::Never && !matches!(error.code(), Code::NotFound | Code::Internal)
}
