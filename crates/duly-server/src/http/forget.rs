//! Removal of all that is left of an ended timer: its tombstone and its dead letters.

use duly_api::ForgetResponse;

use super::{
    body::NoBody,
    path::TimerPath,
    response::{self, HandlerResult},
};
use crate::service::Admitted;

/// Remove all that is left of an ended timer: its tombstone and its dead letters.
///
/// A pending timer is refused: cancel it first. If nothing is left, the call does nothing, so it can be
/// repeated. After it the id is as if it had never been used: a repetition of an earlier request makes a new
/// timer.
///
/// The parts are removed one by one. If the call fails in between, its code is `aborted`: repeat it. A dead
/// letter that the id gets during the call is removed, too.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/timers/{id}/forget",
    tag = "timers",
    responses((status = 200, description = "What was removed.", body = ForgetResponse))
)]
pub(crate) async fn forget_timer(
    admitted: Admitted,
    timer: TimerPath,
    _body: NoBody,
) -> HandlerResult {
    response::ok(&admitted.forget(timer.namespace, timer.id).await?)
}
