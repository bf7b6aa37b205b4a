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
//!    before its first byte was written, or an HTTP/2 receiver says that it did not process its stream,
//!    the receiver cannot have acted on it. Then the same attempt continues over another connection.
//! 2. A receiver that refuses streams gets the request again until the time of the attempt ends, with
//!    growing pauses. A receiver that closes new connections gets it a few times.
//! 3. Once a byte of the request may have arrived, nothing is repeated, even if no byte of a reply came.
//!    The attempt ends as `connection_lost` and the retry policy decides. The next request has the
//!    number of the next attempt.
//! 4. So a receiver gets each attempt at most once.

use std::{sync::Arc, time::Duration};

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

/// Most new connections that may prove closed in one attempt.
const CLOSED_MAX: u32 = 3;
/// Requests of one attempt that follow each other without a pause.
const UNPAUSED_MAX: u32 = 3;
/// First and longest pause before a request is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The age of a connection at the beginning of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// Made for the exchange.
    New,
    /// Kept by the pool, or made for another exchange.
    Kept,
}

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
        let (mut requests, mut closed) = (0, 0);
        loop {
            let began_at = Instant::now();
            let (mut pooled, age) = self.connection(target, ends_at).await?;
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
                Ok(Err(SendError::Unsent)) => {
                    closed += u32::from(age == Age::New);
                    None
                }
                Ok(Err(SendError::Refused)) => None,
                Ok(Err(SendError::Failed(error))) => {
                    if age == Age::Kept {
                        self.pool.lost(target.pool_key());
                    }
                    Some(failure::lost(&error))
                }
                Ok(Err(SendError::TooLong)) => Some(failure::too_long()),
                Err(_elapsed) => {
                    let waited_ms = sent_at.elapsed().as_millis();
                    let which = if head_by < ends_at { " (webhook.header_timeout)" } else { "" };
                    Some(failure::timed_out(format_args!("within {waited_ms} ms{which}")))
                }
            };
            // Other deliveries need not find out that the connection is dead.
            self.pool.retire(target.pool_key(), pooled, unsent);
            if let Some(failure) = failed {
                return Err(failure);
            }
            if closed == CLOSED_MAX {
                let reason = "the receiver closed every connection before anything could be sent";
                return Err(failure::not_connected(reason));
            }
            requests += 1;
            // A request that the end of the attempt cuts off would be in doubt.
            let next_takes = pause_after(requests) + 2 * began_at.elapsed();
            if Instant::now() + next_takes >= ends_at {
                let reason =
                    format!("the receiver refused the request {requests} times unprocessed");
                return Err(failure::not_connected(reason));
            }
            tokio::time::sleep(pause_after(requests)).await;
        }
    }

    /// Returns a connection that is ready to send: a kept one, or a new one.
    async fn connection(
        &self,
        target: &Target<'_>,
        ends_at: Instant,
    ) -> Result<(PooledConnection, Age), Delivery> {
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

    async fn kept_or_new(&self, target: &Target<'_>) -> Result<(PooledConnection, Age), String> {
        match self.kept(target).await {
            Some(pooled) => Ok((pooled, Age::Kept)),
            // Boxed, so that a delivery over a kept connection needs no memory for the future that
            // connects.
            None => Box::pin(self.new_or_shared(target)).await,
        }
    }

    async fn new_or_shared(&self, target: &Target<'_>) -> Result<(PooledConnection, Age), String> {
        if target.scheme == Scheme::Plain {
            return Ok((self.new_connection(target).await?, Age::New));
        }
        // Of many deliveries to an unknown origin one connects, and the others wait for its result and
        // for the number of exchanges that the receiver allows on it. They wait only for a short time,
        // because it may hang.
        let guard = self.pool.single_flight(target.pool_key());
        let single_flight = &guard.single_flight;
        let connecting = if single_flight.is_one_each() {
            None
        } else {
            timeout(SINGLE_FLIGHT_WAIT, single_flight.connecting()).await.ok()
        };
        if connecting.is_some()
            && let Some(pooled) = self.kept(target).await
        {
            return Ok((pooled, Age::Kept));
        }
        let connecting = connecting.filter(|_| !single_flight.is_one_each());
        let made = self.new_connection(target).await?;
        single_flight.learn(&made);
        if let (Some(connecting), PooledConnection::Http2(stream)) = (connecting, &made) {
            let connection = Arc::clone(&stream.0);
            tokio::spawn(async move {
                timeout(SINGLE_FLIGHT_WAIT, connection.settings_known()).await.ok();
                drop(connecting);
            });
        }
        Ok((made, Age::New))
    }

    /// Returns a kept connection that is still open.
    async fn kept(&self, target: &Target<'_>) -> Option<PooledConnection> {
        loop {
            let mut pooled = self.pool.take(target.pool_key())?;
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
                .share(target.pool_key(), connection)
                .ok_or_else(|| "the receiver closed it at once".to_owned()),
        }
    }
}

/// Returns the pause after this number of requests that the receiver did not process.
fn pause_after(requests: u32) -> Duration {
    match requests.checked_sub(UNPAUSED_MAX) {
        None | Some(0) => Duration::ZERO,
        Some(paused) => PAUSE_MIN.saturating_mul(1 << (paused - 1).min(16)).min(PAUSE_MAX),
    }
}
