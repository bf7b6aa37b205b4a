//! The failures without a reply.
//!
//! The outcome matters for a later cancel (P4). After `not_connected` nothing was sent. After
//! `timed_out` and `connection_lost` the receiver may have the request. No URL enters a reason: its
//! query may have a secret (S6).

use std::{error::Error, fmt::Display};

use duly_core::timer::AttemptOutcome;

use super::{bounded::TooLong, reply};
use crate::Delivery;

/// The reason why there is no reply.
#[derive(Debug)]
pub(super) struct Failure {
    kind: AttemptOutcome,
    reason: String,
}

impl Failure {
    /// Creates the failure of a connection: nothing was sent.
    pub(super) fn not_connected(why: impl Display) -> Self {
        let reason = format!("no connection: {why}");
        Self { kind: AttemptOutcome::NotConnected, reason }
    }

    /// Creates a failure before sending that is not a connection failure: nothing was sent.
    pub(super) fn not_sent(why: impl Display) -> Self {
        Self { kind: AttemptOutcome::NotConnected, reason: format!("not sent: {why}") }
    }

    /// Creates a time-out: the request was sent, at least in part, and no reply came in time.
    pub(super) fn timed_out(why: impl Display) -> Self {
        Self { kind: AttemptOutcome::TimedOut, reason: format!("no response {why}") }
    }

    /// Creates a lost connection: the request was sent, at least in part, and no reply can come any
    /// more.
    pub(super) fn lost(error: &hyper::Error) -> Self {
        if caused_by::<TooLong>(error).is_some() {
            return Self::too_long();
        }
        let reason = if error.is_timeout() {
            "the connection was lost: the receiver did not reply to keep-alive probes".to_owned()
        } else if error.is_parse() {
            format!("the connection was closed: the response is not HTTP: {}", causes(error))
        } else {
            format!("the connection was lost before a response: {}", causes(error))
        };
        Self { kind: AttemptOutcome::ConnectionLost, reason }
    }

    /// Creates the failure of a reply that is longer than the limit; the request was sent.
    pub(super) fn too_long() -> Self {
        let reason = "the connection was closed: the response head exceeds \
                      webhook.response_bytes_max";
        Self { kind: AttemptOutcome::ConnectionLost, reason: reason.to_owned() }
    }
}

impl From<Failure> for Delivery {
    fn from(failure: Failure) -> Self {
        Self::failed(failure.kind, failure.reason)
    }
}

/// Returns the cause of this type, if there is one.
pub(super) fn caused_by<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        // The source of an I/O error is not the error that it wraps, but the source of that.
        if let Some(inner) = cause.downcast_ref::<std::io::Error>().and_then(|e| e.get_ref())
            && let Some(found) = inner.downcast_ref()
        {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

/// Most bytes of a reason that come from errors. A receiver can influence them: the error of a refused
/// certificate, for example, lists all names of the certificate.
const CAUSES_BYTES_MAX: usize = 1024;

/// Formats an error and its causes on one line, outermost first, without repetitions.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = reply::printable(cause.to_string().as_bytes());
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    let mut text = parts.join(": ");
    if text.len() > CAUSES_BYTES_MAX {
        text.truncate(text.floor_char_boundary(CAUSES_BYTES_MAX));
        text.push('…');
    }
    text
}
