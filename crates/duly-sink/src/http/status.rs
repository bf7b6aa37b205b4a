//! The verdict for each HTTP status, in one table.
//!
//! | status | verdict | receiver |
//! |---|---|---|
//! | 2xx | confirmed | works |
//! | 410, 489 | rejected: a dead letter at once | works |
//! | 408, 425, 429, 5xx | retry; `Retry-After` raises the wait, capped at 24 h | overloaded or broken |
//! | anything else, redirects included | retry by the policy | works |

use std::time::UNIX_EPOCH;

use duly_core::{
    Millis, Timestamp,
    timer::{AttemptOutcome, Wait},
};

use crate::{Delivery, ReceiverHealth};

/// Longest wait that a receiver can ask for.
pub(super) const RETRY_AFTER_MAX: Millis = Millis::from_secs(24 * 3_600);

/// Returns the verdict on a reply. `excerpt` is the beginning of its body, made printable.
pub(super) fn verdict(status: u16, retry_after: Option<Millis>, excerpt: &str) -> Delivery {
    let reason = if excerpt.is_empty() {
        format!("HTTP {status}")
    } else {
        format!("HTTP {status}: {excerpt}")
    };
    match status {
        200..=299 => Delivery::Confirmed,
        410 | 489 => Delivery::Rejected { reason },
        408 | 425 | 429 | 500..=599 => Delivery::Failed {
            kind: AttemptOutcome::Failed,
            wait: retry_after.map_or(Wait::Policy, Wait::AtLeast),
            health: ReceiverHealth::Bad,
            reason,
        },
        _ => Delivery::Failed {
            kind: AttemptOutcome::Failed,
            wait: Wait::Policy,
            health: ReceiverHealth::Good,
            reason,
        },
    }
}

/// Parses `Retry-After` (RFC 9110, 10.2.3): seconds, or an HTTP date; any other value is ignored.
pub(super) fn retry_after(text: &str, now: Timestamp) -> Option<Millis> {
    let text = text.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().map_or(Millis::MAX, Millis::from_secs)
    } else {
        let at = httpdate::parse_http_date(text).ok()?;
        let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        Millis::from_ms(at_ms.saturating_sub(now.unix_ms()))
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests;
