//! Calls on timers, a file each.

pub(crate) mod cancel;
pub(crate) mod fire;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod schedule;

use axum::response::Response;
use duly_store::Outcome;

use super::{Problem, answer, refused::Asked};
use crate::wire::{TimerOut, timer::Mark};

/// The answer of a call that changes a timer.
fn changed(outcome: Outcome, asked: Asked) -> Result<Response, Problem> {
    match outcome {
        Outcome::Changed(view) | Outcome::Unchanged(view) => {
            answer::ok(&TimerOut::new(&view, Mark::None))
        }
        Outcome::Refused(refusal) => Err(Problem::refused(refusal, asked, "")),
        Outcome::Failed(error) => Err(error.into()),
        other => {
            // Its kind alone: a whole outcome holds payload and headers.
            tracing::error!(kind = kind(&other), "the store answered another kind of outcome");
            Err(Problem::fault("an outcome of another kind"))
        }
    }
}

const fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Created(_) => "created",
        Outcome::Existing(_) => "existing",
        Outcome::Replaced(_) => "replaced",
        Outcome::Changed(_) => "changed",
        Outcome::Unchanged(_) => "unchanged",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::Purged => "purged",
        Outcome::Refused(_) => "refused",
        Outcome::Failed(_) => "failed",
    }
}
