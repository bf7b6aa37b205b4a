//! Additional connections for health, readiness and metrics.
//!
//! They are few and short: HTTP/1, one request at a time, at most ten seconds. When all are in use, a
//! new one closes the oldest. So callers that hold these connections do not keep probes out: they would
//! need 64 new connections in the time that one probe takes.

use std::{collections::VecDeque, time::Duration};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, task::AbortHandle, time::timeout};

use super::{
    ConnectionSettings, HEAD_BYTES_MAX,
    timeout_stream::{ConnectionTimeouts, TimeoutStream},
};
use crate::http::{ConnectionKind, RouterSwitch, WriteProgress};

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// Longest time of one connection.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// The additional connections of a listener.
#[derive(Debug)]
pub(super) struct Reserve {
    kind: ConnectionKind,
    builder: http1::Builder,
    timeouts: ConnectionTimeouts,
    /// Running connections, oldest first.
    connections: VecDeque<AbortHandle>,
}

impl Reserve {
    /// Creates the reserve of a listener. With `connections_max` 0 every connection belongs to it.
    pub(super) fn new(settings: &ConnectionSettings) -> Self {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout.min(CONNECTION_TIME_MAX))
            .max_buf_size(HEAD_BYTES_MAX as usize);
        let bounded = |time: Duration| time.min(CONNECTION_TIME_MAX);
        let timeouts = ConnectionTimeouts {
            idle: bounded(settings.header_timeout),
            write: bounded(settings.write_timeout),
        };
        let kind = if settings.connections_max == 0 {
            ConnectionKind::Admin
        } else {
            ConnectionKind::Reserve
        };
        Self { kind, builder, timeouts, connections: VecDeque::new() }
    }

    /// Serves a connection; closes the oldest if there are too many.
    pub(super) fn connect(&mut self, stream: TcpStream, switch: &RouterSwitch) {
        self.connections.retain(|connection| !connection.is_finished());
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        let (builder, timeouts) = (self.builder.clone(), self.timeouts);
        let switch = switch.clone().for_connection(WriteProgress::new(timeouts.write), self.kind);
        let serving = async move {
            stream.set_nodelay(true).ok();
            let stream = TimeoutStream::new(stream, timeouts);
            let connection = builder.serve_connection(TokioIo::new(stream), switch);
            // A connection that lasts longer is cut off; the next probe opens its own.
            timeout(CONNECTION_TIME_MAX, connection).await.ok();
        };
        self.connections.push_back(tokio::spawn(serving).abort_handle());
    }
}
