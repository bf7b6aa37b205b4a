//! Calls on timers, one file each.

pub(crate) mod cancel;
pub(crate) mod fire;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod schedule;

use axum::response::Response;
use duly_store::Outcome;

use http::StatusCode;

use super::{Problem, answer, budget::Share, refused::Sent};
use crate::messages;
use duly_api::timer::Mark;

/// Responds to a call that changed a timer.
async fn changed(
    outcome: Outcome,
    sent: impl Into<Sent>,
    share: Share,
) -> Result<Response, Problem> {
    match outcome {
        Outcome::Changed(view) | Outcome::Unchanged(view) => {
            answer::changed(share, StatusCode::OK, &view, Mark::None).await
        }
        other => Err(messages::refused(sent, &other, "")),
    }
}
