//! Writes responses as JSON, and problems as `application/problem+json` (RFC 9457).

use std::sync::Arc;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use duly_core::Code;
use duly_store::TimerView;
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;

use super::{Problem, body::JSON, text::ResponseText};
use crate::{
    auth,
    memory::budget::{self, IsCounted, Reservation},
    messages,
    service::{Admitted, blocking::run_blocking},
};
use duly_api::timer::ScheduleMark;

/// Media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The result of a handler.
pub(super) type HandlerResult = Result<Response, Problem>;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code().http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = Body::from(to_bytes(self.body()).unwrap_or_default());
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if self.code() == Code::Unauthenticated {
            auth::challenge(&mut response);
        }
        if let Some(wait_ms) = self.body().retry_after_ms {
            response.headers_mut().insert(RETRY_AFTER, wait_ms.div_ceil(1_000).into());
        }
        response
    }
}

/// Returns a JSON response.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> HandlerResult {
    Ok(with_body(status, Body::from(to_bytes(value)?)))
}

/// Returns a JSON response with status 200.
pub(super) fn ok(value: &impl Serialize) -> HandlerResult {
    json(StatusCode::OK, value)
}

/// Returns a JSON response whose text takes its memory from `reservation`, and from the budget where that
/// is too small.
pub(super) fn json_within(
    reservation: Reservation,
    status: StatusCode,
    value: &impl Serialize,
) -> HandlerResult {
    let mut text = ResponseText::new(reservation);
    text.value(value)?;
    Ok(text.into_response(status))
}

/// Returns a JSON response that shows a timer after a change.
///
/// The change is made, so the response cannot be refused any more. `reservation` counts the timer and
/// the text; if it is too small for the text, the text exceeds the budget.
pub(super) async fn changed_timer(
    admitted: &Admitted,
    mut reservation: Reservation,
    status: StatusCode,
    view: &Arc<TimerView>,
    mark: ScheduleMark,
) -> HandlerResult {
    let bytes = usize::try_from(view.memory_bytes()).unwrap_or(usize::MAX);
    let own = reservation.split(bytes);
    let write = |reservation| {
        let (view, admitted) = (Arc::clone(view), admitted.clone());
        run_blocking(bytes, move || {
            let mut text = ResponseText::new(reservation);
            let written = text.value(&messages::shown(admitted.caller(), &view, mark));
            Ok((written, text))
        })
    };
    let (mut written, mut text) = write(reservation).await?;
    if written.is_err() {
        reservation = text.into_reservation();
        let shown = messages::shown(admitted.caller(), view, mark);
        reservation.grow_past_budget_to(ResponseText::bytes_of(&shown)).await;
        drop(shown);
        (written, text) = write(reservation).await?;
    }
    written?;
    drop(own);
    Ok(text.into_response(status))
}

/// Returns a response with a JSON text.
pub(super) fn with_body(status: StatusCode, body: Body) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}

/// Returns a JSON response with status 200 to a change that was made. It counts against `reservation`; if
/// that is too small it exceeds the budget, because the response cannot be refused any more.
pub(super) async fn change(mut reservation: Reservation, text: Bytes) -> Response {
    reservation.grow_past_budget_to(text.len()).await;
    let mut response = with_body(StatusCode::OK, budget::count_bytes(text, reservation).into());
    response.extensions_mut().insert(IsCounted);
    response
}

/// Returns the JSON text of a response, which ends with a line break.
pub(super) fn to_bytes(value: &impl Serialize) -> Result<Bytes, Problem> {
    let mut text = Vec::new();
    append_json(&mut text, value)?;
    text.push(b'\n');
    Ok(text.into())
}

/// Appends the JSON text of a value.
pub(super) fn append_json(text: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Problem> {
    serde_json::to_writer(text, value).map_err(|error| {
        tracing::error!(%error, "response could not be serialized; the call fails");
        Problem::fault("the response could not be serialized")
    })
}
