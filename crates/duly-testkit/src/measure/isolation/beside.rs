//! Load beside the quiet lanes: another lane with many timers due at one instant.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use duly_load::receiver::{Dead, Receiver};
use serde_json::json;
use tokio::task::JoinHandle;

use super::super::arrivals::Arrivals;
use super::super::consumer::{self, Manner};
use super::super::hot_second::{confirmed, wait_until};
use super::super::watch::no_progress;
use super::super::{Table, load, must_in};
use super::{Noted, connect};
use crate::clock::seconds_since;
use crate::process::Server;

/// Behaviour of the other lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Beside {
    /// Its receiver refuses connections.
    Refused,
    /// Its receiver accepts connections and never replies.
    Silent,
    /// It is served at full speed, by webhooks.
    Webhook,
    /// It is served at full speed, by consumers that lease in batches.
    Pull,
}

/// Time-out of the server for a receiver that never replies. It is shorter than a part of the run,
/// so attempts wait and the breaker opens within the part.
const SILENT_TIMEOUT: &str = "5s";
/// Connections that lease.
const CONNECTIONS: usize = 4;
/// Parameters of the lease calls.
const MANNER: Manner = Manner { max: 1_000, wait_ms: 1_000 };
/// Time before the due time at which the consumers start.
const BEFORE: Duration = Duration::from_millis(200);

impl Beside {
    /// Returns the name of a part with this load.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Refused => "beside refused",
            Self::Silent => "beside silent",
            Self::Webhook => "beside webhooks",
            Self::Pull => "beside pull",
        }
    }

    const fn namespace(self) -> &'static str {
        match self {
            Self::Refused => "beside-refused",
            Self::Silent => "beside-silent",
            Self::Webhook => "beside-webhook",
            Self::Pull => "beside-pull",
        }
    }
}

/// The other lane, scheduled and not due yet.
pub(super) struct Other {
    beside: Beside,
    arrivals: Noted,
    due_ms: u64,
    far_side: FarSide,
}

/// The destination of its timers.
enum FarSide {
    Dead { _dead: Dead },
    Served { _receiver: Receiver },
    Pulled,
}

impl FarSide {
    /// Creates the destination; returns its settings too.
    fn make(beside: Beside, arrivals: &Noted) -> Result<(Self, serde_json::Value)> {
        let dead = match beside {
            Beside::Refused => Dead::refusing()?,
            Beside::Silent => Dead::silent()?,
            Beside::Webhook => {
                let receiver = Receiver::start(arrivals.hear())?;
                let destination = json!({ "http": { "url": receiver.url() } });
                return Ok((Self::Served { _receiver: receiver }, destination));
            }
            Beside::Pull => return Ok((Self::Pulled, json!({ "pull": {} }))),
        };
        let destination = json!({ "http": { "url": dead.url(), "timeout": SILENT_TIMEOUT } });
        Ok((Self::Dead { _dead: dead }, destination))
    }
}

impl Other {
    /// Creates the namespace and schedules its timers.
    pub(super) async fn prepare(
        server: &Server,
        beside: Beside,
        timers: usize,
        due_ms: u64,
    ) -> Result<Self> {
        let dues_ms = vec![due_ms; timers];
        let arrivals = Arc::new(Arrivals::of(&dues_ms));
        let (far_side, destination) = FarSide::make(beside, &arrivals)?;
        let body = json!({ "destination": destination });
        must_in(&mut connect(server), beside.namespace(), "PUT", "", &body).await?;
        load::fill(server.address(), beside.namespace(), dues_ms.into()).await?;
        Ok(Self { beside, arrivals, due_ms, far_side })
    }

    /// Starts the consumers, if the lane is leased.
    pub(super) fn serve(self, server: &Server) -> Serving {
        let consumers = (self.beside == Beside::Pull).then(|| {
            let (address, namespace) = (server.address(), self.beside.namespace());
            let (arrivals, due_ms) = (Arc::clone(&self.arrivals), self.due_ms);
            tokio::spawn(async move {
                wait_until(due_ms, BEFORE).await;
                consumer::take_all(address, namespace, CONNECTIONS, MANNER, &arrivals)
                    .await
                    .map(drop)
            })
        });
        Serving { other: self, consumers }
    }
}

/// The other lane while its timers are due.
pub(super) struct Serving {
    other: Other,
    consumers: Option<JoinHandle<Result<()>>>,
}

impl Serving {
    /// Waits until the lane is served, deletes its namespace, and returns the time of its last
    /// firing (Unix µs). Behind a dead receiver it does not wait and returns `None`; such a
    /// receiver must have got nothing.
    pub(super) async fn finish(self, server: &Server, table: &mut Table) -> Result<Option<u64>> {
        let Self { other, consumers } = self;
        let Other { beside, arrivals, due_ms, far_side } = other;
        let namespace = beside.namespace();
        let mut ended_us = None;
        if matches!(beside, Beside::Webhook | Beside::Pull) {
            let serve = async {
                if let Some(consumers) = consumers {
                    return consumers.await?;
                }
                confirmed(server, namespace, &arrivals).await
            };
            tokio::select! {
                result = serve => result?,
                error = no_progress(&arrivals) => return Err(error),
            }
            arrivals.verify()?;
            #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
            let timers = arrivals.expected() as f64;
            let seconds = seconds_since(due_ms, arrivals.last_out_us());
            table.add(&format!("{}: served", beside.name()), "/s", timers / seconds);
            ended_us = Some(arrivals.last_out_us());
        } else {
            let mut connection = connect(server);
            let stats = must_in(&mut connection, namespace, "GET", "/stats", &().into()).await?;
            ensure!(
                stats["pending"] == arrivals.expected() && stats["totals"]["delivered"] == 0,
                "{} timers should be parked behind a dead receiver, but stats say {stats}",
                arrivals.expected()
            );
            let attempts = stats["totals"]["fired"].as_f64().unwrap_or(f64::NAN);
            table.add(&format!("{}: attempts at the dead receiver", beside.name()), "", attempts);
        }
        must_in(&mut connect(server), namespace, "DELETE", "?force=true", &().into()).await?;
        drop(far_side);
        Ok(ended_us)
    }
}
