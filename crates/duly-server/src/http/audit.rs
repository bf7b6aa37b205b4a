//! `GET /v1/audit`: what administrators have done, as the store keeps it.

use axum::extract::State;
use duly_api::access::ListAuditResponse;
use http::Uri;

use super::{
    App,
    query::Query,
    response::{self, HandlerResult},
};
use crate::call::Admitted;

/// What administrators have done: the newest 10,000 changes of the last 90 days, the newest first.
///
/// Refused calls, and the changes of timers, are only in the file of `audit.file`. A key that does not cover
/// all namespaces sees the records of those that it covers.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most records of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListAuditResponse))
)]
pub(crate) async fn list_audit(
    State(app): State<App>,
    admitted: Admitted,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    response::ok(&app.list_audit(&admitted, limit, cursor).await?)
}
