//! The failures without a reply.
//!
//! The outcome matters for a later cancel (P4). After `not_connected` nothing was sent. After
//! `timed_out` and `connection_lost` the receiver may have the request. No URL enters a reason: its
//! query may have a secret (S6).

use std::{error::Error, fmt::Display};

use duly_core::timer::{AttemptOutcome, Wait};

use super::{bounded::TooLong, reply};
use crate::{Delivery, ReceiverHealth};

/// Creates the failure of a connection: nothing was sent.
pub(super) fn not_connected(why: impl Display) -> Delivery {
    Delivery::failed(AttemptOutcome::NotConnected, format!("no connection: {why}"))
}

/// Creates a failure before sending that is not a connection failure: nothing was sent, and nothing is
/// known of the receiver.
pub(super) fn not_sent(why: impl Display) -> Delivery {
    Delivery::Failed {
        kind: AttemptOutcome::NotConnected,
        wait: Wait::Policy,
        health: ReceiverHealth::Unknown,
        reason: format!("not sent: {why}"),
    }
}

/// Creates a time-out: the request was sent, at least in part, and no reply came in time.
pub(super) fn timed_out(why: impl Display) -> Delivery {
    Delivery::failed(AttemptOutcome::TimedOut, format!("no response {why}"))
}

/// Creates a lost connection: the request was sent, at least in part, and no reply can come any
/// more.
pub(super) fn lost(error: &hyper::Error) -> Delivery {
    if caused_by::<TooLong>(error).is_some() {
        return too_long();
    }
    let reason = if error.is_timeout() {
        "the connection was lost: the receiver did not reply to keep-alive probes".to_owned()
    } else if error.is_parse() {
        format!("the connection was closed: the response is not HTTP: {}", causes(error))
    } else {
        format!("the connection was lost before a response: {}", causes(error))
    };
    Delivery::failed(AttemptOutcome::ConnectionLost, reason)
}

/// Creates the failure of a reply that is longer than the limit; the request was sent.
pub(super) fn too_long() -> Delivery {
    let reason = "the connection was closed: the response head exceeds \
                  webhook.response_bytes_max";
    Delivery::failed(AttemptOutcome::ConnectionLost, reason)
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
