//! `GET /v1/namespaces/{namespace}/export`: timers and dead letters for another server, page by page.

use axum::extract::State;
use duly_core::{Invalid, State as TimerState};
use duly_store::query::{ListRequest, ListState, PAGE_MAX};
use http::{StatusCode, Uri};

use super::{
    App,
    body::run_blocking,
    cursor::apply_cursor,
    path::NamespacePath,
    query::Query,
    reading::ReadResult,
    response::HandlerResult,
    text::ResponseText,
    timers::list::{cursor_of, end_page, truncate_page},
};
use crate::messages;
use duly_api::{
    moved::{Export, MovedTimer},
    number::within,
};

/// Timers in transport form, in (due time, id) order.
///
/// The response holds secrets: credentials in the headers of destinations are shown, so that a moved
/// timer can be delivered. Signing secrets are not in it. The first page has the namespace's settings. A
/// timer that does not change while paging comes exactly once. Pause the namespace and let the attempts
/// in flight end first: a timer that fires meanwhile may fire at both servers.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/export",
    tag = "moving",
    params(
        ("state" = Option<String>, Query, pattern = "^(pending|dead)$", description = "`pending` (default) or `dead`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most timers of the page, 1 to 1000, default 1000"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before, with the same state")
    ),
    responses((status = 200, description = "A page.", body = Export))
)]
pub(crate) async fn export_timers(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["state", "limit", "cursor"])?;
    let limit = query.integer("limit")?.map(usize::try_from).and_then(Result::ok);
    let limit = within("limit", limit.unwrap_or(PAGE_MAX), 1, PAGE_MAX)?;
    let state = match query.get("state") {
        None | Some("pending") => ListState::Pending,
        Some("dead") => ListState::Only(TimerState::Dead),
        Some(other) => return Err(Invalid::new("state", other, "pending or dead").into()),
    };
    let mut request = ListRequest::new(name.clone(), state);
    request.limit = limit;
    let filter = apply_cursor(&mut request, query.get("cursor"))?;
    let namespace = match request.after {
        Some(_) => None,
        None => Some(app.namespace(name).await?),
    };
    let ReadResult { value: mut page, reservation, rest } = app.read_page(request).await?;
    let text = run_blocking(reservation.bytes(), move || {
        let mut text = ResponseText::new(rest);
        text.raw("{")?;
        if let Some(namespace) = &namespace {
            text.raw(r#""namespace":"#)?;
            text.value(&messages::exported(namespace))?;
            text.raw(",")?;
        }
        text.raw(r#""timers":["#)?;
        // Tombstones have no transport form; the exported states have none.
        let timers = page.timers.iter().filter_map(MovedTimer::new);
        let shown = text.fill(timers, ResponseText::item)?;
        truncate_page(&mut page, shown);
        end_page(&mut text, cursor_of(&page, filter))?;
        text.raw("}")?;
        drop((page, reservation));
        Ok(text)
    });
    Ok(text.await?.into_response(StatusCode::OK))
}
