//! Connections beside the ordinary ones, for health, readiness and metrics.
//!
//! They are few and short: HTTP/1, one request at a time, a few seconds. When all are in use the oldest makes
//! room, so callers that hold them keep no probe out: it would take as many new connections as there are here
//! in the time that one probe takes.

use std::{collections::VecDeque, time::Duration};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, task::AbortHandle, time::timeout};

use super::{
    HEAD_BYTES_MAX, Settings,
    patient::{Patience, Patient},
};
use crate::http::{Door, Front, Taken};

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// How long one may last.
const LASTS_MAX: Duration = Duration::from_secs(10);

/// The connections of a listener beside its ordinary ones.
#[derive(Debug)]
pub(super) struct Reserve {
    door: Door,
    builder: http1::Builder,
    patience: Patience,
    /// The oldest first.
    connections: VecDeque<AbortHandle>,
}

impl Reserve {
    /// The reserve of a listener with these settings; all of it, where there are no ordinary connections.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(settings.header_timeout.min(LASTS_MAX))
            .max_buf_size(HEAD_BYTES_MAX as usize);
        let lasts = |time: Duration| time.min(LASTS_MAX);
        let patience =
            Patience { idle: lasts(settings.header_timeout), write: lasts(settings.write_timeout) };
        let door = if settings.connections_max == 0 { Door::Admin } else { Door::Reserve };
        Self { door, builder, patience, connections: VecDeque::new() }
    }

    /// Serves a connection; where there are too many, the oldest ends.
    pub(super) fn connect(&mut self, stream: TcpStream, front: &Front) {
        self.connections.retain(|connection| !connection.is_finished());
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        let (builder, patience) = (self.builder.clone(), self.patience);
        let front = front.clone().connected(Taken::new(patience.write), self.door);
        let serving = async move {
            stream.set_nodelay(true).ok();
            let stream = Patient::new(stream, patience);
            let connection = builder.serve_connection(TokioIo::new(stream), front);
            // One that lasts longer is cut off; the next probe has a connection of its own.
            timeout(LASTS_MAX, connection).await.ok();
        };
        self.connections.push_back(tokio::spawn(serving).abort_handle());
    }
}
