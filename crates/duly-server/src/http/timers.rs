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

use super::{Problem, budget::Reservation, refusal_texts::SentOperation, response};
use crate::messages;
use duly_api::timer::ScheduleMark;

/// Responds to a call that changed a timer.
async fn changed(
    outcome: Outcome,
    sent: impl Into<SentOperation>,
    reservation: Reservation,
) -> Result<Response, Problem> {
    match outcome {
        Outcome::Changed(view) | Outcome::Unchanged(view) => {
            response::changed_timer(reservation, StatusCode::OK, &view, ScheduleMark::None).await
        }
        other => Err(messages::refused(sent, &other, "")),
    }
}
