//! The verdict for each HTTP status, in one table.
//!
//! | status | verdict | receiver |
//! |---|---|---|
//! | 2xx | confirmed | works |
//! | 410, 489 | rejected: a dead letter at once | works |
//! | any but 2xx, 410 and 489, with `duly-snooze` | put off for that time, 1 s to 24 h | works |
//! | 408, 425, 429, 5xx | retry; `Retry-After` raises the wait, capped at 24 h | overloaded or broken |
//! | anything else, redirects included | retry by the policy | works |

use std::time::UNIX_EPOCH;

use duly_core::{
    Millis, Timestamp,
    timer::{AttemptOutcome, Wait},
};
use url::Url;

use super::reply;
use crate::{Delivery, ReceiverHealth};

/// Header of a response that puts the firing off, with the time as in `Retry-After`.
pub(super) const SNOOZE: &str = "duly-snooze";
/// Shortest time for which a receiver puts a firing off: without it, a time in the past would make a loop of attempts.
pub(super) const SNOOZE_MIN: Millis = Millis::from_secs(1);
/// Longest wait that a receiver can ask for.
pub(super) const RETRY_AFTER_MAX: Millis = Millis::from_secs(24 * 3_600);
/// Most bytes of a redirect's target in a reason.
const LOCATION_BYTES_MAX: usize = 256;

/// The parts of a reply that decide its verdict and explain it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Millis>,
    /// The wait that [`SNOOZE`] asks for.
    pub(super) snooze: Option<Millis>,
    /// `true`: [`SNOOZE`] is there and cannot be read.
    pub(super) has_unread_snooze: bool,
    /// The target of a redirect, as [`location`] returns it.
    pub(super) location: Option<String>,
    /// The beginning of the body, made printable.
    pub(super) excerpt: String,
}

impl Answer {
    /// Returns the verdict.
    pub(super) fn verdict(self) -> Delivery {
        if let (Some(after), false) = (self.snooze, matches!(self.status, 200..=299 | 410 | 489)) {
            return Delivery::Snoozed { after };
        }
        let reason = self.reason();
        let (wait, health) = match self.status {
            200..=299 => return Delivery::Confirmed,
            410 | 489 => return Delivery::Rejected { reason },
            408 | 425 | 429 | 500..=599 => {
                (self.retry_after.map_or(Wait::Policy, Wait::AtLeast), ReceiverHealth::Overloaded)
            }
            _ => (Wait::Policy, ReceiverHealth::Good),
        };
        Delivery::Failed { kind: AttemptOutcome::Failed, wait, health, reason }
    }

    /// Returns the status and what follows from it, and behind a colon the words of the receiver.
    fn reason(&self) -> String {
        let consequence = match (self.status, self.retry_after) {
            (300..=399, _) => "redirects are not followed".to_owned(),
            (410 | 489, _) => "rejected for good, not repeated".to_owned(),
            (408 | 425 | 429 | 500..=599, Some(wait)) => {
                format!("repeated if the retry policy allows, not before {wait}")
            }
            (408 | 425 | 429 | 500..=599, None) => "repeated if the retry policy allows".to_owned(),
            _ => "no confirmation, repeated if the retry policy allows".to_owned(),
        };
        let mut reason = format!("HTTP {} ({consequence})", self.status);
        if let Some(location) = self.location.as_ref().filter(|_| (300..400).contains(&self.status))
        {
            reason.push_str(": location ");
            reason.push_str(location);
        }
        if self.has_unread_snooze {
            reason.push_str(": duly-snooze is neither whole seconds nor an HTTP date");
        }
        if !self.excerpt.is_empty() {
            reason.push_str(": ");
            reason.push_str(&self.excerpt);
        }
        reason
    }
}

/// Returns the target of a redirect without user, query and fragment, which may have secrets.
pub(super) fn location(value: &[u8]) -> String {
    let text = reply::printable(value);
    // A relative reference stays one: nothing of the destination's URL enters a reason (S6).
    let absolute = if text.starts_with("//") { format!("https:{text}") } else { text.clone() };
    let mut shown = match Url::parse(&absolute) {
        Ok(mut url) => {
            // Fails for URLs without a host only, which have no user.
            url.set_username("").ok();
            url.set_password(None).ok();
            url.set_query(None);
            url.set_fragment(None);
            url.into()
        }
        Err(_) => text.split(['?', '#']).next().unwrap_or_default().to_owned(),
    };
    if shown.len() > LOCATION_BYTES_MAX {
        shown.truncate(shown.floor_char_boundary(LOCATION_BYTES_MAX));
        shown.push('…');
    }
    shown
}

/// Parses `Retry-After` (RFC 9110, 10.2.3) or [`SNOOZE`]: seconds, or an HTTP date; any other value is ignored.
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
