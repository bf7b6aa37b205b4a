//! One attempt's exchange: a connection, a request, the head of an answer.
//!
//! | what takes too long | time-out | outcome |
//! |---|---|---|
//! | name, TCP, proxy, TLS | `connect` | not connected: nothing was sent |
//! | the head of the answer, or the receiver's reading of the request | `header` | timed out: it may have it |
//! | the rest of a request that was answered before it was read | 0.1 s | as the answer says; the connection is given up |
//! | all of it | the destination's, or the sender's deadline | either, by what was under way |
//!
//! **What is repeated (S7).** A connection out of the pool may have been closed by the receiver just
//! now. If the client hands the request back before its first byte was written, or an HTTP/2 receiver
//! refuses its stream unprocessed, the same attempt goes on over another connection: the receiver
//! cannot have seen it. Once a byte of the request may have arrived nothing is repeated, even if no
//! byte of an answer came: the attempt ends as `connection_lost`, the retry policy decides, and the
//! next request has the next attempt's number. So a receiver sees each attempt at most once.

use ::http::Response;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    HttpSink,
    connect::Fresh,
    connection::SendError,
    failure::Failure,
    pool::{GATE_WITHIN, Lease},
    request::{self, Form},
    target::{Scheme, Target},
    unsent::{FLUSHED_WITHIN, Unsent},
};
use crate::Envelope;

/// Connections that may turn out to be closed in one attempt.
const UNSENT_MAX: usize = 3;

/// The head of an answer, the connection that it came over, and what of the request has not left.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) lease: Lease,
    pub(super) unsent: Unsent,
}

impl HttpSink {
    /// Sends the request once, and waits for the head of its answer.
    pub(super) async fn exchange(
        &self,
        envelope: &Envelope,
        target: &Target<'_>,
        ends_at: Instant,
    ) -> Result<Answer, Failure> {
        for _ in 0..UNSENT_MAX {
            let mut lease = self.connection(target, ends_at).await?;
            let form = match lease {
                Lease::Http1(_) => Form::Path,
                Lease::Http2(_) => Form::Whole,
            };
            let (request, unsent) =
                request::of(envelope, target, form, self.clock.now()).map_err(Failure::not_sent)?;
            let sent_at = Instant::now();
            let head_by = ends_at.min(sent_at + self.timeouts.header);
            let sending = async {
                match &mut lease {
                    Lease::Http1(connection) => {
                        connection.send(request, self.bounds.response_bytes_max).await
                    }
                    Lease::Http2(stream) => {
                        stream.send(request, self.bounds.response_bytes_max).await
                    }
                }
            };
            let done = timeout_at(head_by, sending).await;
            let failed = match done {
                Ok(Ok(response)) => return Ok(Answer { response, lease, unsent }),
                Ok(Err(SendError::Unsent)) => None,
                Ok(Err(SendError::Failed(error))) => Some(Failure::lost(&error)),
                Ok(Err(SendError::TooLong)) => Some(Failure::too_long()),
                Err(_elapsed) => {
                    let waited_ms = sent_at.elapsed().as_millis();
                    let which = if head_by < ends_at { " (webhook.header_timeout)" } else { "" };
                    Some(Failure::timed_out(format_args!("within {waited_ms} ms{which}")))
                }
            };
            // Nobody else has to find out that nothing comes over it.
            self.pool.retire(target.origin(), lease, unsent);
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
        let reason = "the receiver closed every connection before anything could be sent";
        Err(Failure::not_connected(reason))
    }

    /// A connection that can be sent over: a kept one, or a new one.
    async fn connection(&self, target: &Target<'_>, ends_at: Instant) -> Result<Lease, Failure> {
        let started = Instant::now();
        let connect_by = ends_at.min(started + self.timeouts.connect);
        match timeout_at(connect_by, self.kept_or_new(target)).await {
            Ok(connected) => connected.map_err(Failure::not_connected),
            Err(_elapsed) if connect_by < ends_at => {
                let waited_ms = started.elapsed().as_millis();
                let reason = format!("none within {waited_ms} ms (webhook.connect_timeout)");
                Err(Failure::not_connected(reason))
            }
            Err(_elapsed) => Err(Failure::not_connected("the time of the attempt was over first")),
        }
    }

    async fn kept_or_new(&self, target: &Target<'_>) -> Result<Lease, String> {
        match self.kept(target).await {
            Some(lease) => Ok(lease),
            // Apart, so that a delivery over a kept connection carries no room for making one.
            None => Box::pin(self.new_or_shared(target)).await,
        }
    }

    async fn new_or_shared(&self, target: &Target<'_>) -> Result<Lease, String> {
        if target.scheme == Scheme::Plain {
            return self.new_connection(target).await;
        }
        // Of many deliveries to an origin that nothing is known of one connects, and the others wait
        // for what comes of it; not for long, though: it may be stuck.
        let place = self.pool.gate(target.origin());
        let gate = place.gate();
        let turn = if gate.is_one_each() {
            None
        } else {
            tokio::time::timeout(GATE_WITHIN, gate.turn.lock()).await.ok()
        };
        if turn.is_some()
            && let Some(lease) = self.kept(target).await
        {
            return Ok(lease);
        }
        let turn = turn.filter(|_| !gate.is_one_each());
        let made = self.new_connection(target).await;
        if let Ok(lease) = &made {
            gate.learn(lease);
        }
        drop(turn);
        made
    }

    /// A kept connection that is still open.
    async fn kept(&self, target: &Target<'_>) -> Option<Lease> {
        loop {
            let mut lease = self.pool.take(target.origin())?;
            let ready = match &mut lease {
                Lease::Http1(connection) => timeout(FLUSHED_WITHIN, connection.is_ready()).await,
                Lease::Http2(_) => Ok(true),
            };
            match ready {
                Ok(true) => return Some(lease),
                Ok(false) => {}
                // The receiver does not read it out. Others may be in the same state, and the time
                // for connecting is better spent on a new one.
                Err(_elapsed) => return None,
            }
        }
    }

    async fn new_connection(&self, target: &Target<'_>) -> Result<Lease, String> {
        match self.connector.connect(target).await? {
            Fresh::Http1(connection) => Ok(Lease::Http1(connection)),
            Fresh::Http2(connection) => self
                .pool
                .share(target.origin(), connection)
                .ok_or_else(|| "the receiver closed it at once".to_owned()),
        }
    }
}
