//! Masters that reply and carry out no changes.
//!
//! Each call to such a master would wait for its own time-out, or be refused after a round trip, and nothing
//! would report it. So the first result counts for all calls:
//!
//! 1. A result that shows that the master carries out no changes gives the master a *fault*, as does an error reply to a
//!    connect or to the probe. The calls that wait for the same confirmation end in doubt.
//! 2. While a master has a fault, calls that it would refuse are not sent: each is `unavailable` at once. Its shards count as unavailable.
//! 3. The poll of the health makes a change of its own every second, the *trial*. Once the master carries out
//!    and confirms the trial, the fault ends.

use duly_core::shard::ShardId;
use duly_store::query::ShardFault;
use redis::RedisError;

use super::{
    CallKind, Router,
    pool::{PooledConnection, Server},
};
use crate::{
    OpenError,
    change::at_once,
    connection::{Call, ConnectionLost, RequiredCopies, SendMode, ServerReply},
    marker::list_of,
    script::Script,
};

/// The fault of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MasterFault {
    pub(crate) kind: ShardFault,
    /// The reply or result that showed it.
    pub(crate) shown_by: String,
}

impl MasterFault {
    /// Returns the fault that the error of a connection or of a command shows; `None` if there was no reply.
    pub(super) fn of(error: &RedisError) -> Option<Self> {
        let (kind, reason) = match OpenError::of("", error) {
            OpenError::Denied { reason, .. } => (ShardFault::Denied, reason),
            OpenError::NotReady { reason, .. } => (ShardFault::NotServing, reason),
            _ => return None,
        };
        // As the reply of a call is shown.
        let reply = error.code().zip(error.detail());
        let shown_by = reply.map_or(reason, |(code, detail)| format!("{code} {detail}"));
        Some(Self { kind, shown_by })
    }

    /// Returns `true` if calls of this script are not sent.
    fn stops(&self, script: Script) -> bool {
        match self.kind {
            // Reads, and changes that wait for no replica, are tried.
            ShardFault::NoReplicas => script.waits_for_copies(),
            ShardFault::Denied => true,
            ShardFault::NotServing => !self.shown_by.starts_with("MISCONF") || !script.only_reads(),
            _ => !script.only_reads(),
        }
    }

    /// Returns the text of the fault of a master with these shards, with its remedy.
    pub(crate) fn describe(&self, server: &str, shards: &[ShardId]) -> String {
        let remedy = match self.kind {
            ShardFault::NoReplicas => {
                "changes are not confirmed by enough replicas; start the replicas of the master, or attach \
                 others"
            }
            ShardFault::Denied => {
                "it refuses the commands of the user; give the user of `store.url` the documented rights \
                 with `ACL SETUSER` (`ACL LOG` shows what is missing)"
            }
            ShardFault::NotServing => {
                "it refuses or postpones every call; wait until it has loaded its data, end a script with `SCRIPT \
                 KILL`, or make room on its disk"
            }
            _ => {
                "it replies to probes and not to changes; end a pause with `redis-cli CLIENT UNPAUSE`, and check its \
                 disk, its scripts and the network"
            }
        };
        format!("shard {}: master {server}: {remedy} ({})", list_of(shards), self.shown_by)
    }
}

impl Server {
    /// Gives the master a fault, unless it has one, and logs it.
    pub(super) fn set_fault(&self, name: &str, fault: MasterFault) {
        let mut own = self.fault.lock();
        if own.is_none() {
            tracing::error!(
                server = name,
                reason = fault.kind.as_str(),
                shown_by = %fault.shown_by,
                "Redis master carries out no changes; calls that need them are unavailable until it does"
            );
            *own = Some(fault);
        }
        drop(own);
        self.has_fault.notify_waiters();
    }

    /// Returns the fault of the master if it stops one of these calls.
    pub(super) fn refusal(&self, calls: &[Call]) -> Option<MasterFault> {
        let fault = self.fault.lock();
        let stops = |fault: &&MasterFault| calls.iter().any(|call| fault.stops(call.script));
        fault.as_ref().filter(stops).cloned()
    }
}

impl Router {
    /// Gives a master a fault, unless it has one.
    pub(crate) fn set_fault_of_master(&self, name: &str, fault: MasterFault) {
        self.server(name).set_fault(name, fault);
    }

    /// Notes that a connection has got no reply in time, and has a trial made. A second connection without one is
    /// proof enough.
    pub(super) fn suspect(&self, pooled: &PooledConnection) {
        let mut suspected_by = pooled.server.suspected_by.lock();
        match &*suspected_by {
            None => {
                *suspected_by = Some(pooled.connection.clone());
                self.suspects.notify_one();
            }
            Some(other) if other.is(&pooled.connection) => {}
            Some(_) => {
                let shown_by = "no reply in time on two connections".to_owned();
                let fault = MasterFault { kind: ShardFault::Silent, shown_by };
                pooled.server.set_fault(&pooled.name, fault);
            }
        }
    }

    /// Makes trials of masters that are suspected, each at once.
    pub(crate) async fn watch_suspects(&self) {
        loop {
            self.suspects.notified().await;
            let trials = self.owners().into_iter().map(async |(name, shards)| {
                if self.server(&name).suspected_by.lock().is_some() {
                    self.retry_master(&name, &shards).await;
                }
            });
            at_once(trials).await;
        }
    }

    /// Returns the fault of a master that has these shards, after a trial in the first of them if the master has a
    /// fault or is suspected.
    pub(crate) async fn retry_master(&self, name: &str, shards: &[ShardId]) -> Option<MasterFault> {
        let server = self.server(name);
        let before = server.fault.lock().clone();
        if before.is_none() && server.suspected_by.lock().is_none() {
            return None;
        }
        // A suspected master is asked for a reply only: that takes no longer than the silence time-out.
        let copies = self.copies.filter(|_| before.is_some());
        match self.carries_out(name, *shards.first()?, copies).await {
            Ok(true) if before.is_some() => {
                *server.fault.lock() = None;
                tracing::info!(server = name, "Redis master carries out changes again");
            }
            // A server that does not reply at all is found by its probe.
            Err(ConnectionLost { reason, is_late: true }) => {
                server.set_fault(name, MasterFault { kind: ShardFault::Silent, shown_by: reason });
            }
            Ok(_) | Err(_) => {}
        }
        *server.suspected_by.lock() = None;
        server.fault.lock().clone()
    }

    /// Makes a change that means nothing. Returns `true` if the server carried it out and the required copies
    /// are confirmed.
    async fn carries_out(
        &self,
        name: &str,
        shard: ShardId,
        copies: Option<RequiredCopies>,
    ) -> Result<bool, ConnectionLost> {
        let pooled = self.check_out(name, CallKind::Trial).await;
        let pooled = pooled.map_err(ConnectionLost::because)?;
        let trial = Call::new(Script::Trial, Vec::new());
        // By its digest first, as other calls are sent.
        for with_text in [false, true] {
            let sent = [(&trial, SendMode { with_text })];
            match pooled.round(self.seq(shard), &sent, copies).await {
                Ok((replies, _)) if matches!(replies[..], [ServerReply::NoScript]) => {}
                Ok((replies, confirmed)) => {
                    return Ok(confirmed && matches!(replies[..], [ServerReply::Value(_)]));
                }
                Err(lost) => {
                    pooled.drop_connection().await;
                    return Err(lost);
                }
            }
        }
        Ok(false)
    }
}
