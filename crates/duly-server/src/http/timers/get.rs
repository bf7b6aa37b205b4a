//! `GET /v1/namespaces/{namespace}/timers/{id}`: returns one timer.

use axum::{extract::State, response::Response};
use duly_api::{Timer, timer::ScheduleMark};
use http::StatusCode;

use crate::http::{
    App, Problem, body::run_blocking, path::TimerPath, problem::Refusals, reading::ReadResult,
    response,
};

/// One timer, its tombstone, or its latest dead letter.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/timers/{id}",
    tag = "timers",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("id" = String, Path, description = "Id of the timer, percent-encoded (`/` as `%2F`)")
    ),
    responses((status = 200, description = "The timer.", body = Timer), Refusals)
)]
pub(crate) async fn get_timer(
    State(app): State<App>,
    timer: TimerPath,
) -> Result<Response, Problem> {
    let ReadResult { value, reservation, rest } = app.read_timer(timer.namespace, timer.id).await?;
    let written = move || {
        let response =
            response::json_within(rest, StatusCode::OK, &Timer::new(&value, ScheduleMark::None));
        drop(value);
        response
    };
    let response = run_blocking(reservation.bytes(), written).await;
    drop(reservation);
    response
}
