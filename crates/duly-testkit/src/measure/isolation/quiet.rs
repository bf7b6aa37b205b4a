//! A quiet lane: few firings, and a receiver on its own thread with no other work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, ensure};
use duly_load::receiver::Receiver;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::arrivals::Arrivals;
use super::super::consumer::{Consumer, Manner};
use super::super::load::{self, BATCH};
use super::super::{Kind, must_in};
use super::{Noted, connect};
use crate::process::Server;
use crate::wire::Connection;

/// Number of consumers: one waits while others acknowledge.
const CONSUMERS: usize = 4;
/// Parameters of the lease calls.
const MANNER: Manner = Manner { max: 100, wait_ms: 20_000 };

/// A quiet lane with its consumers or its receiver.
pub(super) struct Lane {
    kind: Kind,
    server: SocketAddr,
    arrivals: Noted,
    /// Consumers or receiver, alive as long as the lane.
    _taker: Taker,
}

/// Consumers or receiver. The value is only kept: it works until it is dropped.
enum Taker {
    Consumers { _thread: ConsumerThread },
    Receiver { _receiver: Receiver },
}

impl Lane {
    /// Creates the namespace, and starts to receive its firings, `capacity` in all.
    pub(super) async fn start(server: &Server, kind: Kind, capacity: usize) -> Result<Self> {
        let arrivals = Arc::new(Arrivals::expecting(capacity));
        let receiver = match kind {
            Kind::Pull => None,
            Kind::Webhook => Some(Receiver::start(arrivals.hear())?),
        };
        let destination = match &receiver {
            None => json!({ "pull": {} }),
            Some(receiver) => json!({ "http": { "url": receiver.url() } }),
        };
        let body = json!({ "destination": destination });
        must_in(&mut connect(server), namespace(kind), "PUT", "", &body).await?;
        let taker = match receiver {
            Some(receiver) => Taker::Receiver { _receiver: receiver },
            None => {
                let thread =
                    ConsumerThread::start(server.address(), namespace(kind), Arc::clone(&arrivals));
                Taker::Consumers { _thread: thread? }
            }
        };
        Ok(Self { kind, server: server.address(), arrivals, _taker: taker })
    }

    /// Returns the delivery method.
    pub(super) const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Pull => "pull",
            Kind::Webhook => "webhook",
        }
    }

    /// Returns the arrivals so far.
    pub(super) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Schedules timers with numbers from `first` on.
    pub(super) async fn schedule(&self, first: usize, dues_ms: &[u64]) -> Result<()> {
        self.arrivals.set_dues(first, dues_ms);
        let mut connection = Connection::new(self.server);
        for (place, dues_ms) in dues_ms.chunks(BATCH).enumerate() {
            let first = first + place * BATCH;
            let numbers = first..first + dues_ms.len();
            load::batch(&mut connection, namespace(self.kind), numbers, dues_ms).await?;
        }
        Ok(())
    }

    /// Returns the server's statistics of the namespace.
    pub(super) async fn stats(&self) -> Result<Value> {
        let mut connection = Connection::new(self.server);
        must_in(&mut connection, namespace(self.kind), "GET", "/stats", &().into()).await
    }

    /// Returns an error unless the server has fired as many timers as have arrived.
    /// Acknowledgements may still be missing: the run does not wait for them.
    pub(super) async fn ensure_all_delivered(&self) -> Result<()> {
        let stats = self.stats().await?;
        ensure!(
            stats["totals"]["fired"] == self.arrivals.expected() && stats["dead"] == 0,
            "{} came over the quiet {} lane, but stats say {stats}",
            self.arrivals.expected(),
            self.name()
        );
        Ok(())
    }
}

const fn namespace(kind: Kind) -> &'static str {
    match kind {
        Kind::Pull => "quiet-pull",
        Kind::Webhook => "quiet-webhook",
    }
}

/// Consumers on their own thread.
struct ConsumerThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl ConsumerThread {
    fn start(address: SocketAddr, namespace: &'static str, arrivals: Noted) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("consumers".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    error = consume(address, namespace, arrivals) => {
                        eprintln!("a consumer of {namespace} stopped: {error:#}");
                    }
                }
            });
        });
        let thread = thread.context("no thread for consumers")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ConsumerThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has printed its own message; the counts show the missed firings.
            thread.join().ok();
        }
    }
}

/// Leases and acknowledges until an error.
async fn consume(address: SocketAddr, namespace: &'static str, arrivals: Noted) -> anyhow::Error {
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        let arrivals = Arc::clone(&arrivals);
        let mut consumer = Consumer::new(address, namespace, MANNER);
        consumers.spawn(async move {
            loop {
                if let Err(error) = consumer.take(&arrivals).await {
                    return error;
                }
            }
        });
    }
    match consumers.join_next().await {
        Some(Ok(error)) => error,
        Some(Err(error)) => error.into(),
        None => anyhow::anyhow!("there were no consumers"),
    }
}
