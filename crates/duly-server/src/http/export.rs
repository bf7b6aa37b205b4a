//! `GET /v1/namespaces/{namespace}/export`: timers and dead letters for another server, page by page.

use axum::{extract::State, response::Response};
use duly_core::{Invalid, State as TimerState};
use duly_store::query::{ListRequest, ListState, PAGE_MAX};
use http::Uri;

use super::{
    App, Problem, answer, cursor::Cursor, pages, path::InNamespace, problem::Refusals, query::Query,
};
use crate::wire::{ExportOut, TransportOut};

/// Timers in transport form, in (due time, id) order.
///
/// The answer holds secrets: credentials in the headers of destinations are shown, so that a moved timer
/// can be delivered. Signing secrets are not in it. The first page has the namespace's settings. A timer
/// that does not change while paging comes exactly once: pause the namespace and let what is in flight
/// end first, or what fires meanwhile may fire at both servers.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/export",
    tag = "moving",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("state" = Option<String>, Query, description = "`pending` (default) or `dead`"),
        ("limit" = Option<u32>, Query, description = "Most timers of the page, 1 to 1000, default 1000"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before, with the same state")
    ),
    responses((status = 200, description = "A page.", body = ExportOut), Refusals)
)]
pub(crate) async fn export_timers(
    State(app): State<App>,
    InNamespace(name): InNamespace,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["state", "limit", "cursor"])?;
    let limit = match query.integer("limit")? {
        Some(limit) => limit.within("limit", 1, PAGE_MAX as u64)?,
        None => PAGE_MAX as u64,
    };
    let state = match query.get("state") {
        None | Some("pending") => ListState::Pending,
        Some("dead") => ListState::Only(TimerState::Dead),
        Some(other) => return Err(Invalid::new("state", other, "pending or dead").into()),
    };
    let mut request = ListRequest::new(name.clone(), state);
    request.limit = usize::try_from(limit).unwrap_or(PAGE_MAX);
    let filter = Cursor::filter_of(&request);
    let namespace = match query.get("cursor") {
        Some(text) => {
            request.after = Some(Cursor::parse("cursor", text, filter)?.position);
            None
        }
        None => match app.store().get_namespace(name.clone()).await? {
            Some(namespace) => Some(namespace),
            None => return Err(Problem::no_namespace(name.as_str())),
        },
    };
    let page = pages::page(app.store(), request).await?;
    answer::ok(&ExportOut {
        namespace: namespace.as_ref().map(Into::into),
        timers: page.timers.iter().filter_map(TransportOut::new).collect(),
        cursor: page.next.map(|position| Cursor::new(position, filter).to_string()),
    })
}
