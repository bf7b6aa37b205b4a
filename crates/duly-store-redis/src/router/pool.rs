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

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) connections: Vec<Arc<tokio::sync::Mutex<Option<OpenConnection>>>>,
    /// Place of one more connection, present if calls wait for replicas. A `WAIT` blocks the commands
    /// behind it on its connection, and must not delay the heartbeats of a node.
    unblocked: Option<usize>,
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
    pub(super) fn new(
        connections_each: usize,
        copies: Option<RequiredCopies>,
        liveness: Arc<Liveness>,
    ) -> Self {
        let connections_each = connections_each.max(1);
        let unblocked = copies.map(|_| connections_each);
        let connections =
            (0..connections_each + unblocked.map_or(0, |_| 1)).map(|_| Arc::default()).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::default());
        let (fault, has_fault) = (Mutex::default(), Notify::new());
        let suspected_by = Mutex::default();
        Self { connections, unblocked, next, failed, liveness, fault, suspected_by, has_fault }
    }

    /// Returns the place of the next connection for this kind of call, round-robin.
    pub(super) fn place(&self, kind: CallKind) -> usize {
        let in_turn = self.connections.len() - self.unblocked.map_or(0, |_| 1);
        let next = || self.next.fetch_add(1, Ordering::Relaxed) % in_turn;
        self.unblocked.filter(|_| kind == CallKind::Repeated).unwrap_or_else(next)
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
    pub(super) async fn drop_connection(&self) {
        let mut slot = self.server.connections[self.place].lock().await;
        slot.take_if(|open| open.connection.is(&self.connection));
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

/// Kind of call to be sent over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// In doubt if its reply is lost, so an idle connection is checked first.
    Once,
    /// Safe to repeat: it is sent without a check, and again if its reply is lost.
    Repeated,
}
