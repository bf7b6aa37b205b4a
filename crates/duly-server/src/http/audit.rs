//! `GET /v1/audit`: what administrators have done, as the store keeps it.

use duly_api::access::ListAuditResponse;
use http::Uri;

use super::{
    query::Query,
    response::{self, HandlerResult},
};
use crate::service::Admitted;

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
pub(crate) async fn list_audit(admitted: Admitted, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    response::ok(&admitted.list_audit(limit, cursor).await?)
}
