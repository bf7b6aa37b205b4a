//! Calls on timers, a file each.

pub(crate) mod cancel;
pub(crate) mod fire;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod schedule;

use axum::response::Response;
use duly_store::Outcome;

use http::StatusCode;

use super::{Problem, answer, budget::Share, refused::Asked};
use crate::wire::timer::Mark;

/// The answer of a call that changes a timer.
async fn changed(outcome: Outcome, asked: Asked, share: Share) -> Result<Response, Problem> {
    match outcome {
        Outcome::Changed(view) | Outcome::Unchanged(view) => {
            answer::changed(share, StatusCode::OK, &view, Mark::None).await
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
