//! The connections to one server: a fixed number of places, each with a connection that is made on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use redis::{Cmd, RedisResult, Value};
use tokio::sync::Notify;

use super::{
    faults::MasterFault,
    liveness::{Liveness, Silence},
};
use crate::connection::{Call, Connection, ConnectionLost, RequiredCopies, SendMode, ServerReply};

/// Number of connections beside those for changes: one each for repeated changes, for reads and for trials.
const OTHER_PLACES: usize = 3;

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) connections: Vec<Arc<tokio::sync::Mutex<Option<OpenConnection>>>>,
    /// Number of connections for changes; each other kind of call has one connection behind them.
    for_changes: usize,
    next: AtomicUsize,
    /// Time and reason of the last failed connect.
    pub(super) failed: Mutex<Option<(Instant, String)>>,
    pub(super) liveness: Arc<Liveness>,
    /// Fault of the master, while it carries out no changes.
    pub(super) fault: Mutex<Option<MasterFault>>,
    /// The connection that has got no reply in time, if no trial was made since.
    pub(super) suspected_by: Mutex<Option<Connection>>,
    /// Wakes the rounds that wait for replicas when the master gets a fault.
    pub(super) has_fault: Notify,
}

/// A connection, and the number of silences of its server before the connect.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) connection: Connection,
    pub(super) silences: u64,
}

impl Server {
    pub(super) fn new(connections_each: usize, liveness: Arc<Liveness>) -> Self {
        let for_changes = connections_each.max(1);
        let connections = (0..for_changes + OTHER_PLACES).map(|_| Arc::default()).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::default());
        let (fault, has_fault) = (Mutex::default(), Notify::new());
        let suspected_by = Mutex::default();
        Self { connections, for_changes, next, failed, liveness, fault, suspected_by, has_fault }
    }

    /// Returns the place of the next connection for this kind of call, round-robin.
    pub(super) fn place(&self, kind: CallKind) -> usize {
        match kind {
            CallKind::Change => self.next.fetch_add(1, Ordering::Relaxed) % self.for_changes,
            CallKind::RepeatedChange => self.for_changes,
            CallKind::Read | CallKind::Question => self.for_changes + 1,
            CallKind::Trial => self.for_changes + 2,
        }
    }
}

/// A connection in use by a round, with its place, so that it can be dropped if it breaks.
pub(super) struct PooledConnection {
    pub(super) connection: Connection,
    pub(super) server: Arc<Server>,
    pub(super) place: usize,
    pub(super) name: String,
}

impl PooledConnection {
    /// Drops the connection; the next caller that needs it makes a new one.
    ///
    /// The server may have ended: its other connections are checked before their next use, so that no call that begins
    /// later is in doubt.
    pub(super) async fn drop_connection(&self) {
        for (place, slot) in self.server.connections.iter().enumerate() {
            if place == self.place {
                slot.lock().await.take_if(|open| open.connection.is(&self.connection));
            } else if let Ok(slot) = slot.try_lock()
                && let Some(open) = &*slot
            {
                open.connection.distrust();
            }
        }
    }

    /// Sends a command that is no script.
    pub(super) async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        self.reply_of(self.connection.command(command)).await?
    }

    /// Sends several commands that are no scripts; each has a reply of its own.
    pub(super) async fn commands(&self, commands: &[Cmd]) -> Result<Vec<Value>, ConnectionLost> {
        self.reply_of(self.connection.commands(commands)).await?
    }

    /// Sends calls in one pipeline. The second result is `true` if the required copies are confirmed.
    pub(super) async fn round(
        &self,
        seq: &str,
        calls: &[(&Call, SendMode)],
        copies: Option<RequiredCopies>,
    ) -> Result<(Vec<ServerReply>, bool), ConnectionLost> {
        let reply = self.reply_of(self.connection.round(seq, calls, copies));
        if copies.is_none() {
            return reply.await?;
        }
        // A `WAIT` that is not confirmed delays every round behind it on the connection.
        tokio::select! {
            biased;
            reply = reply => reply?,
            () = self.server.has_fault.notified() => {
                Err(ConnectionLost::because("replicas do not confirm the changes of this master"))
            }
        }
    }

    /// Waits for a reply, unless the server is silent.
    async fn reply_of<T, E>(
        &self,
        reply: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, Silence> {
        let reply = self.server.liveness.unless_silent(reply).await?;
        if reply.is_ok() {
            self.server.liveness.note_reply();
        }
        Ok(reply)
    }
}

impl From<Silence> for ConnectionLost {
    fn from(silence: Silence) -> Self {
        Self::because(silence)
    }
}

/// Kind of call to be sent over a connection. Calls that a server may hold back share no connection with others: a
/// `WAIT` for replicas blocks the commands behind it, and so does a change during `CLIENT PAUSE WRITE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// A change that is in doubt if its reply is lost. It may wait for replicas.
    Change,
    /// A change that waits for no replica and is safe to repeat.
    RepeatedChange,
    /// A read that is repeated if its reply is lost.
    Read,
    /// A read that is not repeated.
    Question,
    /// A change that tries out if the master carries out changes.
    Trial,
}

impl CallKind {
    /// Returns the kind of a pipeline of these calls.
    pub(super) fn of(calls: &[Call]) -> Self {
        if calls.iter().all(|call| call.script.only_reads()) {
            Self::Read
        } else if calls.iter().all(|call| call.script.is_repeated()) {
            Self::RepeatedChange
        } else {
            Self::Change
        }
    }

    /// Returns `true` if an idle connection is checked before the call is sent, because a lost call is not repeated.
    pub(super) const fn is_checked(self) -> bool {
        !matches!(self, Self::Read | Self::RepeatedChange)
    }
}
