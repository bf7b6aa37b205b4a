//! The connections to one server: a fixed number of places, each with a connection that is made on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;

use crate::connection::{Connection, RequiredCopies};

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) connections: Vec<Arc<tokio::sync::Mutex<Option<Connection>>>>,
    /// Place of one more connection, present if calls wait for replicas. A `WAIT` blocks the commands
    /// behind it on its connection, and must not delay the heartbeats of a node.
    unblocked: Option<usize>,
    next: AtomicUsize,
    /// Time and reason of the last failed connect.
    pub(super) failed: Mutex<Option<(Instant, String)>>,
}

impl Server {
    pub(super) fn new(connections_each: usize, copies: Option<RequiredCopies>) -> Self {
        let connections_each = connections_each.max(1);
        let unblocked = copies.map(|_| connections_each);
        let connections =
            (0..connections_each + unblocked.map_or(0, |_| 1)).map(|_| Arc::default()).collect();
        Self { connections, unblocked, next: AtomicUsize::new(0), failed: Mutex::default() }
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
        slot.take_if(|connection| connection.is(&self.connection));
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
