//! Routes calls: finds the server of a shard, and sends rounds of calls to it.
//!
//! 1. A Cluster reports which master has which slot. A `MOVED` reply or a broken connection makes the
//!    router ask again.
//! 2. A call that may have been executed is never sent a second time: if its reply is lost, it is in
//!    doubt.
//! 3. Calls that only read, or that are repeated anyway, are sent again, unless their reply is late: a call waits
//!    for one silent server once.
//! 4. A server that hangs is found by a probe, and delays no call for longer than the silence time-out
//!    (`liveness.rs`). A master that replies and carries out no changes is found by its first result (`faults.rs`).

mod faults;
mod liveness;
mod owners;
mod pool;
mod reads;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::shard::ShardId;
use duly_store::{Error, Result, query::ShardFault};
use parking_lot::Mutex;
use redis::Value;

use crate::{
    address::Address,
    connection::{
        Call, ConnectOptions, Connection, ConnectionLost, ConnectionState, RequiredCopies,
        SendMode, ServerReply,
    },
    error::{in_doubt, unavailable},
    keys,
    marker::{ShardFaults, describe, fault_of},
    script::Script,
};

pub(crate) use faults::MasterFault;
pub(crate) use liveness::Contact;
use liveness::Liveness;
use pool::{CallKind, OpenConnection, PooledConnection, Server};

/// Attempts of a call that servers redirect or postpone.
const TRIES: usize = 16;
/// Wait before a postponed call is tried again, and before the owners are read again.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections to all servers, and the server of each shard.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) address: Address,
    connect_options: ConnectOptions,
    connections_each: usize,
    /// `KEYS[1]` of each shard.
    seqs: Vec<String>,
    servers: Mutex<HashMap<String, Arc<Server>>>,
    /// Probes of an earlier router that have no server here yet.
    earlier: Mutex<HashMap<String, Arc<Liveness>>>,
    /// Time at which calls for a server that is down last had the owners read again; locked meanwhile.
    refreshed_at: tokio::sync::Mutex<Option<Instant>>,
    /// The server of each shard.
    owners: Mutex<Vec<String>>,
    copies: Option<RequiredCopies>,
    faults: ShardFaults,
    /// Wakes the task that makes trials of suspected masters.
    suspects: tokio::sync::Notify,
    /// Runtime of the connections: that of the task that opened the store, not of a caller.
    runtime: tokio::runtime::Handle,
}

impl Router {
    pub(crate) fn new(
        address: Address,
        connect_options: ConnectOptions,
        connections_each: usize,
        shards: u16,
        copies: Option<RequiredCopies>,
    ) -> Self {
        let first = address.servers[0].clone();
        Self {
            connect_options,
            connections_each,
            seqs: (0..shards).map(|shard| keys::seq(ShardId(shard), shards)).collect(),
            servers: Mutex::default(),
            earlier: Mutex::default(),
            refreshed_at: tokio::sync::Mutex::default(),
            owners: Mutex::new(vec![first; usize::from(shards)]),
            copies,
            faults: ShardFaults::new(shards),
            suspects: tokio::sync::Notify::new(),
            address,
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Takes over the probes of an earlier router, so that a silent server is not waited for again.
    pub(crate) fn take_probes(&self, earlier: &Self) {
        let servers = earlier.servers.lock();
        let probes = servers.iter().map(|(name, it)| (name.clone(), Arc::clone(&it.liveness)));
        self.earlier.lock().extend(probes);
    }

    /// Spawns a task that runs to its end even if its caller stops waiting.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // The task ends by itself, and its result is not needed.
        drop(self.runtime.spawn(work));
    }

    pub(crate) fn seq(&self, shard: ShardId) -> &str {
        &self.seqs[usize::from(shard.0)]
    }

    /// Returns the fault of a shard, as this node saw it last.
    pub(crate) fn fault(&self, shard: ShardId) -> Option<ShardFault> {
        self.faults.get(shard)
    }

    /// Sets the fault of a shard, and logs a change.
    pub(crate) fn set_fault(&self, shard: ShardId, fault: Option<ShardFault>) {
        report(shard, self.faults.set(shard, fault), fault);
    }

    /// Reads the marker of a shard, and with it if the shard takes calls.
    pub(crate) async fn refresh_fault(&self, shard: ShardId, deployment: &str) -> Result<()> {
        // A user may lack the right to ask; then the marker decides.
        let is_open = self.fault(shard) == Some(ShardFault::OpenSlot);
        if is_open && self.has_open_slot(shard).await == Ok(true) {
            return Ok(());
        }
        loop {
            let before = self.faults.before_read(shard);
            let fault = fault_of(self.marker(shard).await?.as_ref(), deployment);
            if let Some(previous) = self.faults.set_read(shard, before, fault) {
                report(shard, previous, fault);
                return Ok(());
            }
        }
    }

    /// Returns the connections to a server.
    fn server(&self, name: &str) -> Arc<Server> {
        let mut servers = self.servers.lock();
        let server = servers.entry(name.to_owned()).or_insert_with(|| {
            let start = || {
                let (address, silence_timeout) =
                    (self.address.clone(), self.connect_options.silence_timeout);
                Arc::new(Liveness::start(&self.runtime, name.to_owned(), address, silence_timeout))
            };
            let liveness = self.earlier.lock().remove(name).unwrap_or_else(start);
            Arc::new(Server::new(self.connections_each, liveness))
        });
        Arc::clone(server)
    }

    /// Returns a connection to a server, unless the server is silent.
    async fn check_out(&self, name: &str, kind: CallKind) -> redis::RedisResult<PooledConnection> {
        let server = self.server(name);
        server.liveness.unless_silent(Box::pin(self.check_out_of(name, &server, kind))).await?
    }

    async fn check_out_of(
        &self,
        name: &str,
        server: &Arc<Server>,
        kind: CallKind,
    ) -> redis::RedisResult<PooledConnection> {
        let place = server.place(kind);
        let arrived = Instant::now();
        loop {
            let connection = self.connection_at(name, server, place, arrived).await?;
            let pooled = PooledConnection {
                connection,
                server: Arc::clone(server),
                place,
                name: name.to_owned(),
            };
            let state = match kind.is_checked() {
                true => pooled.connection.check().await,
                false => ConnectionState::Usable,
            };
            if state == ConnectionState::Usable {
                return Ok(pooled);
            }
            pooled.drop_connection().await;
            if state == ConnectionState::Late {
                // A call waits for one late reply at most.
                self.suspect(&pooled);
                return Err(pooled.connection.late().into());
            }
        }
    }

    /// Returns the connection at a place; connects if there is none.
    async fn connection_at(
        &self,
        name: &str,
        server: &Arc<Server>,
        place: usize,
        arrived: Instant,
    ) -> redis::RedisResult<Connection> {
        let mut slot = Arc::clone(&server.connections[place]).lock_owned().await;
        // If a connect failed while this caller waited for the lock, return its error instead of
        // retrying.
        let failed = server.failed.lock().clone().filter(|(at, _)| *at >= arrived);
        if let Some((_, reason)) = failed {
            return Err(std::io::Error::other(reason).into());
        }
        let silences = server.liveness.silences();
        if let Some(open) = slot.as_ref().filter(|open| open.silences == silences) {
            return Ok(open.connection.clone());
        }
        let (address, connect_options) = (self.address.clone(), self.connect_options.clone());
        let (server, name) = (Arc::clone(server), name.to_owned());
        // The connect goes on if its caller stops waiting: the next caller then uses the connection.
        let opening = self.runtime.spawn(async move {
            let open =
                server.liveness.unless_silent(Connection::open(&address, &name, &connect_options));
            let opened = open.await.unwrap_or_else(|silence| Err(silence.into()));
            let failed = |error: &redis::RedisError| {
                *server.failed.lock() = Some((Instant::now(), error.to_string()));
            };
            let connection = opened.inspect_err(failed)?;
            redis::RedisResult::Ok(
                slot.insert(OpenConnection { connection, silences }).connection.clone(),
            )
        });
        opening.await.map_err(std::io::Error::other)?
    }

    /// Returns a connection to a server, for commands that are no scripts.
    pub(crate) async fn connection(&self, name: &str) -> redis::RedisResult<Connection> {
        Ok(self.check_out(name, CallKind::Question).await?.connection)
    }

    /// Waits for `work` on a server, unless the server is silent.
    pub(crate) async fn unless_silent<T>(
        &self,
        server: &str,
        work: impl Future<Output = T>,
    ) -> redis::RedisResult<T> {
        Ok(self.server(server).liveness.unless_silent(work).await?)
    }

    /// Returns the latest result of the probe of a server.
    pub(crate) async fn contact(&self, server: &str) -> Contact {
        self.server(server).liveness.contact().await
    }

    /// Calls one script.
    pub(crate) async fn call(&self, shard: ShardId, call: Call) -> Result<Value> {
        let mut results = self.calls(shard, vec![call]).await;
        results.pop().unwrap_or_else(|| Err(unavailable("no reply")))
    }

    /// Calls scripts of one shard in one pipeline, in order unless some must be sent again. Each has a
    /// result of its own.
    pub(crate) async fn calls(&self, shard: ShardId, calls: Vec<Call>) -> Vec<Result<Value>> {
        if let Some(fault) = self.fault(shard)
            && !calls.iter().any(|call| call.script == Script::WriteMarker)
        {
            return calls.iter().map(|_| Err(unmarked(shard, fault))).collect();
        }
        let mut results: Vec<Option<Result<Value>>> = calls.iter().map(|_| None).collect();
        let mut open: Vec<(usize, SendMode)> =
            (0..calls.len()).map(|i| (i, SendMode::default())).collect();
        let kind = CallKind::of(&calls);
        let (mut fault, mut postponed) = (None, None);
        for _ in 0..TRIES {
            let server = self.owners.lock()[usize::from(shard.0)].clone();
            let refusal = self.server(&server).refusal(&calls);
            let checked_out = match &refusal {
                Some(fault) => Err(fault.describe(&server, &[shard])),
                None => {
                    let checked_out = self.check_out(&server, kind).await;
                    checked_out.map_err(|error| match MasterFault::of(&error) {
                        Some(fault) => {
                            let text = fault.describe(&server, &[shard]);
                            self.set_fault_of_master(&server, fault);
                            text
                        }
                        None => format!("{server}: {error}"),
                    })
                }
            };
            let pooled = match checked_out {
                Ok(pooled) => pooled,
                Err(reason) => {
                    let is_skipped = refusal.is_some() || self.server(&server).liveness.is_silent();
                    if self.has_moved(shard, &server, is_skipped).await {
                        continue;
                    }
                    for (i, _) in &open {
                        results[*i] = Some(Err(unavailable(&reason)));
                    }
                    break;
                }
            };
            // On the heap: the futures of all calls contain this one.
            let round = Box::pin(self.one_round(&pooled, shard, &calls, &open, &mut results));
            let resend = round.await;
            let Some(resend) = resend else { break };
            open = resend.open;
            if open.is_empty() {
                break;
            }
            fault = resend.fault;
            postponed = resend
                .postponed
                .map(|shown_by| (pooled, MasterFault { kind: ShardFault::NotServing, shown_by }));
            if resend.pause {
                tokio::time::sleep(PAUSE).await;
            }
            if resend.refresh {
                // If no server knows better, the next attempt returns an error.
                let _unknown = self.refresh_owners().await;
            }
        }
        // The other calls of the shard are not tried in vain until the move ends.
        let fault = fault.filter(|_| results.iter().any(Option::is_none));
        fault.inspect(|fault| self.set_fault(shard, Some(*fault)));
        let postponed =
            postponed.filter(|_| fault.is_none() && results.iter().any(Option::is_none));
        if let Some((pooled, fault)) = &postponed {
            pooled.server.set_fault(&pooled.name, fault.clone());
        }
        let redirected = || match (fault, &postponed) {
            (Some(fault), _) => Err(unmarked(shard, fault)),
            (None, Some((pooled, fault))) => {
                Err(unavailable(fault.describe(&pooled.name, &[shard])))
            }
            (None, None) => Err(unavailable(format!(
                "shard {}: the Cluster kept redirecting the call; repeat it",
                shard.0
            ))),
        };
        results.into_iter().map(|answer| answer.unwrap_or_else(redirected)).collect()
    }

    /// Sends one pipeline. Returns the calls to send again; `None` if the connection broke.
    async fn one_round(
        &self,
        pooled: &PooledConnection,
        shard: ShardId,
        calls: &[Call],
        open: &[(usize, SendMode)],
        results: &mut [Option<Result<Value>>],
    ) -> Option<Resend> {
        let sent: Vec<(&Call, SendMode)> =
            open.iter().map(|(i, mode)| (&calls[*i], *mode)).collect();
        let is_repeated = sent.iter().all(|(call, _)| call.script.is_repeated());
        let kept = sent.iter().any(|(call, _)| call.script.waits_for_copies());
        let copies = self.copies.filter(|_| kept);
        let (replies, confirmed) = match pooled.round(self.seq(shard), &sent, copies).await {
            Ok(replies) => replies,
            Err(ConnectionLost { reason, is_late }) => {
                pooled.drop_connection().await;
                if is_late {
                    self.suspect(pooled);
                }
                // A call waits for one late reply at most.
                if is_repeated && !is_late {
                    // It may be sent again, on a new connection.
                    let (open, refresh) = (open.to_vec(), self.address.cluster);
                    return Some(Resend { open, refresh, ..Resend::default() });
                }
                let reason = format!("{}: {reason}", pooled.name);
                for (i, _) in open {
                    results[*i] = Some(Err(if calls[*i].script.only_reads() {
                        unavailable(&reason)
                    } else {
                        in_doubt(&reason)
                    }));
                }
                if self.address.cluster {
                    let _unknown = self.refresh_owners().await;
                }
                return None;
            }
        };
        if !confirmed {
            let replicas = copies.map_or(0, |copies| copies.replicas);
            let shown_by =
                format!("not all required copies ({replicas} replicas) have confirmed a change");
            pooled
                .server
                .set_fault(&pooled.name, MasterFault { kind: ShardFault::NoReplicas, shown_by });
        }
        let mut resend = Resend::default();
        for ((i, mode), reply) in open.iter().zip(replies) {
            let call = &calls[*i];
            match reply {
                ServerReply::Value(_) if !confirmed && call.script.waits_for_copies() => {
                    let replicas = copies.map_or(0, |copies| copies.replicas);
                    results[*i] = Some(Err(in_doubt(format!(
                        "not all required copies ({replicas} replicas) have confirmed it"
                    ))));
                }
                ServerReply::Value(value) => results[*i] = Some(Ok(value)),
                ServerReply::NoScript => resend.open.push((*i, SendMode { with_text: true })),
                ServerReply::Moved(server) => {
                    // Only this server is certain: others may not know of the move yet.
                    tracing::info!(
                        shard = shard.0,
                        %server,
                        "shard moved to another server; the call is sent there"
                    );
                    self.owners.lock()[usize::from(shard.0)] = server;
                    resend.open.push((*i, *mode));
                }
                ServerReply::Postponed(reason) => {
                    tracing::debug!(
                        shard = shard.0,
                        %reason,
                        "server postponed a call; it is sent again"
                    );
                    match reason.split(' ').next() {
                        Some("ASK" | "TRYAGAIN") => resend.fault = Some(ShardFault::OpenSlot),
                        Some("CLUSTERDOWN") => resend.fault = Some(ShardFault::NoOwner),
                        _ => resend.postponed = Some(reason),
                    }
                    resend.pause = true;
                    resend.refresh = true;
                    resend.open.push((*i, *mode));
                }
                ServerReply::Unmarked(fault) => {
                    self.set_fault(shard, Some(fault));
                    results[*i] = Some(Err(unmarked(shard, fault)));
                }
                ServerReply::Withheld(kind, shown_by) => {
                    let fault = MasterFault { kind, shown_by };
                    results[*i] = Some(Err(unavailable(fault.describe(&pooled.name, &[shard]))));
                    pooled.server.set_fault(&pooled.name, fault);
                }
                ServerReply::Refused(reason) => {
                    results[*i] = Some(Err(refused(&pooled.name, shard, reason)));
                }
            }
        }
        Some(resend)
    }
}

/// Logs a change of a shard's fault.
fn report(shard: ShardId, before: Option<ShardFault>, after: Option<ShardFault>) {
    match after {
        _ if before == after => {}
        None => tracing::info!(shard = shard.0, "shard takes calls again"),
        Some(fault) => {
            tracing::error!(
                "{}; until then its calls return unavailable",
                describe(fault, &[shard])
            )
        }
    }
}

/// Calls that a round must send again, and how.
#[derive(Debug, Default)]
struct Resend {
    open: Vec<(usize, SendMode)>,
    pause: bool,
    refresh: bool,
    /// Fault of the shard if the calls are refused again and again.
    fault: Option<ShardFault>,
    /// Reply of a master that postpones every call.
    postponed: Option<String>,
}

/// Returns the error of a call to a shard that takes no calls; nothing was done.
fn unmarked(shard: ShardId, fault: ShardFault) -> Error {
    Error::Unavailable {
        reason: describe(fault, &[shard]),
        retry_after: duly_core::Millis::from_secs(5),
    }
}

/// Returns the error of a call that a server refused; nothing was done.
fn refused(server: &str, shard: ShardId, reason: String) -> Error {
    if reason.starts_with("OOM") {
        return Error::Overloaded {
            reason: "the memory of Redis is full: raise maxmemory or add masters".to_owned(),
            retry_after: duly_core::Millis::from_secs(5),
        };
    }
    tracing::warn!(
        server,
        shard = shard.0,
        %reason,
        "Redis refused a call; the call returns unavailable"
    );
    unavailable(format!("shard {}: Redis at {server} refused: {reason}", shard.0))
}
