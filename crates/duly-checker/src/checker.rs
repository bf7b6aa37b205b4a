//! The checker: what a history proves about the server.
//!
//! [`check`] is pure. It splits the history into one timeline per timer and applies every rule to
//! each. A rule adds a [`Finding`] only if no order of the overlapping calls, and no outcome of the
//! calls in doubt, can explain the history.
//!
//! ```text
//!  operation   sent ├──────────┤ answered        took effect somewhere in between
//!  in doubt    sent ├──────────────────┤ the kill that ended the process which had it (or never)
//!  pull        lease sent ├────┤ received        claimed somewhere in between
//!  webhook                    ?┤ received        claimed before; without a crash since the timer
//!                                                was made the claim outlives the request
//! ```
//!
//! A stop (SIGSTOP) loses no state, so it excuses far less than a kill. It excuses only that a
//! webhook's response, or the request itself, came after the server had stopped waiting for it.
//!
//! * `received`: early, unexpected.
//! * `superseded`: claims after a confirmed cancel, deliveries of a replaced due time or payload.
//! * `repeated`: duplicates, resurrections, changed delivery ids.
//! * `settled`: settlements accepted from a token whose lease was lost.
//! * `ended`: lost, undone, stuck, recovered.

mod crashes;
mod ended;
mod lateness;
mod received;
mod repeated;
mod settled;
mod superseded;
mod timeline;
mod verdict;

#[cfg(test)]
mod tests;

pub use crate::Percentiles;
pub use lateness::{Lateness, timers_with_one_operation, untouched};
pub use verdict::{Count, Finding, Verdict};

use crate::history::{Action, History, Operation};
use crashes::Crashes;

/// Checks the history of a whole run.
pub fn check(history: &History) -> Verdict {
    let crashes = Crashes::new(&history.crashes, &history.stops);
    let mut verdict = Verdict::default();
    let is_schedule = |operation: &&Operation| matches!(operation.action, Action::Schedule { .. });
    verdict.attempted = history.operations.iter().filter(is_schedule).count();
    verdict.deliveries = history.deliveries.len();
    for timeline in timeline::split(history, &crashes) {
        received::check(&timeline, &mut verdict);
        superseded::check(&timeline, &mut verdict);
        repeated::check(&timeline, &mut verdict);
        settled::check(&timeline, &mut verdict);
        ended::check(&timeline, history.drained, &mut verdict);
    }
    settled::check_unknown_tokens(history, &mut verdict);
    verdict.lateness = lateness::measure(history, &crashes);
    verdict
}
