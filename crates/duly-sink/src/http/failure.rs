//! What it means when there is no answer at all.
//!
//! The difference matters to who cancels later (P4): after `not_connected` nothing was sent; after
//! `timed_out` and `connection_lost` the receiver may have it.

use std::error::Error as _;

use duly_core::timer::AttemptOutcome;

use crate::Delivery;

/// The delivery that ended with this error.
pub(super) fn delivery(error: reqwest::Error) -> Delivery {
    // The URL may carry a secret in its query, so it never enters a reason (S6).
    let error = error.without_url();
    let kind = if error.is_connect() || error.is_dns() || error.is_builder() {
        AttemptOutcome::NotConnected
    } else if error.is_timeout() {
        AttemptOutcome::TimedOut
    } else {
        AttemptOutcome::ConnectionLost
    };
    let what = match kind {
        AttemptOutcome::NotConnected => "no connection",
        AttemptOutcome::TimedOut => "no answer in time",
        _ => "the connection was lost",
    };
    Delivery::failed(kind, format!("{what}: {}", causes(&error)))
}

/// An error and its causes on one line, outermost first, without saying anything twice.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = super::answer::printable(cause.to_string().as_bytes());
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() {
        parts.push(error.to_string());
    }
    parts.join(": ")
}
