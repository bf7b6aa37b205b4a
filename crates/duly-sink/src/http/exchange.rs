//! The exchange of one attempt: a connection, a request, the head of a reply.
//!
//! | slow part | time-out | outcome |
//! |---|---|---|
//! | name, TCP, proxy, TLS | `connect` | not connected: nothing was sent |
//! | head of the reply, or the receiver reads the request slowly | `header` | timed out: it may have it |
//! | rest of a request answered before it was read | 0.1 s | as the reply says; the connection is closed |
//! | all of it | the destination's, or the sender's deadline | either, by the current part |
//!
//! **Repeated requests (S7).**
//!
//! 1. The receiver may just have closed a connection of the pool. If the client returns the request
//!    before its first byte was written, or an HTTP/2 receiver refuses its stream unprocessed, the
//!    receiver cannot have seen it. Then the same attempt continues over another connection.
//! 2. Once a byte of the request may have arrived, nothing is repeated, even if no byte of a reply came.
//!    The attempt ends as `connection_lost` and the retry policy decides. The next request has the
//!    number of the next attempt.
//! 3. So a receiver gets each attempt at most once.

use ::http::Response;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    HttpSink,
    connect::NewConnection,
    connection::SendError,
    failure,
    pool::{PooledConnection, SINGLE_FLIGHT_WAIT},
    request,
    target::{Scheme, Target},
    unsent::{FLUSHED_WITHIN, Unsent},
};
use crate::{Delivery, Envelope};

/// Most connections that may prove closed in one attempt.
const UNSENT_MAX: usize = 3;

/// The head of a reply, its connection, and the watch on the request's body.
pub(super) struct Reply {
    pub(super) response: Response<Incoming>,
    pub(super) pooled: PooledConnection,
    pub(super) unsent: Unsent,
}

impl HttpSink {
    /// Sends the request once, and waits for the head of its reply.
    pub(super) async fn exchange(
        &self,
        envelope: &Envelope,
        target: &Target<'_>,
        ends_at: Instant,
    ) -> Result<Reply, Delivery> {
        for _ in 0..UNSENT_MAX {
            let mut pooled = self.connection(target, ends_at).await?;
            let (request, unsent) = request::build(envelope, target, &pooled, self.clock.now())
                .map_err(failure::not_sent)?;
            let sent_at = Instant::now();
            let head_by = ends_at.min(sent_at + self.timeouts.header);
            let sending = async {
                match &mut pooled {
                    PooledConnection::Http1(connection) => {
                        connection.send(request, self.bounds.response_bytes_max).await
                    }
                    PooledConnection::Http2(stream) => {
                        stream.send(request, self.bounds.response_bytes_max).await
                    }
                }
            };
            let done = timeout_at(head_by, sending).await;
            let failed = match done {
                Ok(Ok(response)) => return Ok(Reply { response, pooled, unsent }),
                Ok(Err(SendError::Unsent)) => None,
                Ok(Err(SendError::Failed(error))) => Some(failure::lost(&error)),
                Ok(Err(SendError::TooLong)) => Some(failure::too_long()),
                Err(_elapsed) => {
                    let waited_ms = sent_at.elapsed().as_millis();
                    let which = if head_by < ends_at { " (webhook.header_timeout)" } else { "" };
                    Some(failure::timed_out(format_args!("within {waited_ms} ms{which}")))
                }
            };
            // Other deliveries need not find out that the connection is dead.
            self.pool.retire(target.origin(), pooled, unsent);
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
        let reason = "the receiver closed every connection before anything could be sent";
        Err(failure::not_connected(reason))
    }

    /// Returns a connection that is ready to send: a kept one, or a new one.
    async fn connection(
        &self,
        target: &Target<'_>,
        ends_at: Instant,
    ) -> Result<PooledConnection, Delivery> {
        let started = Instant::now();
        let connect_by = ends_at.min(started + self.timeouts.connect);
        match timeout_at(connect_by, self.kept_or_new(target)).await {
            Ok(connected) => connected.map_err(failure::not_connected),
            Err(_elapsed) if connect_by < ends_at => {
                let waited_ms = started.elapsed().as_millis();
                let reason = format!("none within {waited_ms} ms (webhook.connect_timeout)");
                Err(failure::not_connected(reason))
            }
            Err(_elapsed) => Err(failure::not_connected("the time of the attempt ended first")),
        }
    }

    async fn kept_or_new(&self, target: &Target<'_>) -> Result<PooledConnection, String> {
        match self.kept(target).await {
            Some(pooled) => Ok(pooled),
            // Boxed, so that a delivery over a kept connection needs no memory for the future that
            // connects.
            None => Box::pin(self.new_or_shared(target)).await,
        }
    }

    async fn new_or_shared(&self, target: &Target<'_>) -> Result<PooledConnection, String> {
        if target.scheme == Scheme::Plain {
            return self.new_connection(target).await;
        }
        // Of many deliveries to an unknown origin one connects, and the others wait for its result. They
        // wait only for a short time, because it may hang.
        let guard = self.pool.single_flight(target.origin());
        let single_flight = &guard.single_flight;
        let connecting = if single_flight.is_one_each() {
            None
        } else {
            tokio::time::timeout(SINGLE_FLIGHT_WAIT, single_flight.connecting.lock()).await.ok()
        };
        if connecting.is_some()
            && let Some(pooled) = self.kept(target).await
        {
            return Ok(pooled);
        }
        let connecting = connecting.filter(|_| !single_flight.is_one_each());
        let made = self.new_connection(target).await;
        if let Ok(pooled) = &made {
            single_flight.learn(pooled);
        }
        drop(connecting);
        made
    }

    /// Returns a kept connection that is still open.
    async fn kept(&self, target: &Target<'_>) -> Option<PooledConnection> {
        loop {
            let mut pooled = self.pool.take(target.origin())?;
            let ready = match &mut pooled {
                PooledConnection::Http1(connection) => {
                    timeout(FLUSHED_WITHIN, connection.is_ready()).await
                }
                PooledConnection::Http2(_) => Ok(true),
            };
            match ready {
                Ok(true) => return Some(pooled),
                Ok(false) => {}
                // The receiver does not read the rest of the last request. Other kept connections may be
                // in the same state, so the time is better spent on a new one.
                Err(_elapsed) => return None,
            }
        }
    }

    async fn new_connection(&self, target: &Target<'_>) -> Result<PooledConnection, String> {
        match self.connector.connect(target).await? {
            NewConnection::Http1(connection) => Ok(PooledConnection::Http1(connection)),
            NewConnection::Http2(connection) => self
                .pool
                .share(target.origin(), connection)
                .ok_or_else(|| "the receiver closed it at once".to_owned()),
        }
    }
}
