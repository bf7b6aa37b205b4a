//! `GET /v1/audit`: what administrators have done, as the store keeps it.

use axum::extract::State;
use duly_api::access::{AuditRecord, ListAuditResponse};
use duly_core::access::NamespacePattern;
use duly_store::AuditId;
use http::Uri;

use super::{
    App,
    query::Query,
    response::{self, HandlerResult},
    timers::list::page_limit,
};
use crate::{auth::Caller, call};

/// Pages of the store that one call reads, at most, while the caller may see few of the records.
const PAGES_MAX: usize = 10;

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
pub(crate) async fn list_audit(State(app): State<App>, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let limit = page_limit(query.integer("limit")?)?;
    let mut before = query.get("cursor").map(str::parse::<AuditId>).transpose()?;
    let mut records = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = app.store.read_audit(before, limit).await?;
        let is_last = page.len() < limit;
        for entry in page {
            before = Some(entry.id);
            let record = serde_json::from_str::<AuditRecord>(&entry.line);
            records.extend(record.ok().filter(is_visible));
            if records.len() == limit {
                break;
            }
        }
        if is_last && records.len() < limit {
            before = None;
        }
        if before.is_none() || records.len() == limit {
            break;
        }
    }
    let cursor = before.map(|id| id.to_string());
    response::ok(&ListAuditResponse { records, cursor })
}

/// Returns `true` if the caller may see a record.
fn is_visible(record: &AuditRecord) -> bool {
    let caller = call::caller();
    match (&caller, &record.namespace) {
        (Caller::Anyone, _) => true,
        (_, Some(namespace)) => caller.covers(namespace),
        (_, None) => {
            caller.key().is_some_and(|key| key.namespaces.contains(&NamespacePattern::all()))
        }
    }
}
