//! `GET /v1/namespaces/{namespace}/timers`: lists timers, page by page or as one stream of lines.
//! `GET /v1/namespaces/{namespace}/export`: timers and dead letters for another server, page by page.

mod stream;

use duly_api::{
    ListResponse, Time, View, Words as _,
    moved::{Export, MovedTimer},
};
use duly_core::{Invalid, NamespaceName, State as TimerState, similar_name::with_similar};
use duly_store::{
    Page,
    query::{ListState, PAGE_MAX, Position},
};
use http::{HeaderMap, StatusCode, Uri, header::ACCEPT};

use crate::{
    http::{
        Problem,
        body::NDJSON,
        response::{HandlerResult, ResponseText},
        target::{CallOn, Query},
    },
    messages,
    service::{
        blocking::run_blocking,
        lists::{Cursor, ExportCall, FilterHash, ListCall, ListFields, shown},
        reading::ReadResult,
    },
};

/// Timers in (due time, id) order.
///
/// The work of a call is bounded: a page may be short, even empty, and still have a cursor. A timer that
/// does not change while paging comes exactly once. While shards are unavailable, a page has the timers of
/// the others, and `unavailable_shards` names the missing ones. With `accept: application/x-ndjson` the
/// response is one stream of all pages after the cursor, a timer a line, with a last line that says that
/// the stream is complete, or why it is not.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/timers",
    tag = "timers",
    params(
        ("state" = Option<String>, Query, pattern = "^(pending|scheduled|due|in_flight|retrying|finished|dead|cancelled)$", description = "`pending` (default), or one state"),
        ("due_from" = Option<Time>, Query, description = "Due at or after this"),
        ("due_to" = Option<Time>, Query, description = "Due before this"),
        ("id_prefix" = Option<String>, Query, description = "Id begins with this"),
        ("tag" = Option<String>, Query, description = "Has this tag"),
        ("view" = Option<View>, Query, description = "`full`, or `summary`: without payload, headers and history. The default is `full`, and `summary` for a key without the action `payload`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most timers of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before, with the same filters")
    ),
    responses(
        (status = 200, description = "A page, or all of them as lines.", content(
            (ListResponse = "application/json"),
            (String = "application/x-ndjson")
        ))
    )
)]
pub(crate) async fn list_timers(
    call: CallOn<NamespaceName>,
    uri: Uri,
    headers: HeaderMap,
) -> HandlerResult {
    let CallOn { admitted, target: namespace } = call;
    let known = ["state", "due_from", "due_to", "id_prefix", "tag", "view", "limit", "cursor"];
    let query = Query::read(&uri, &known)?;
    let ListCall { request, filter, view } = admitted.list_call(namespace, fields(&query))?;
    if wants_lines(&headers) {
        return stream::respond(admitted, request, filter, view).await;
    }
    let is_searched = request.is_searched();
    let ReadResult { value, reservation, rest } = admitted.read_partial_page(request).await?;
    let text = run_blocking(reservation.bytes(), move || {
        let unavailable_shards = value.unavailable_shards();
        let mut page = value.value;
        let mut text = ResponseText::new(rest);
        text.raw(r#"{"timers":["#)?;
        let timers = page.timers.iter().map(|timer| shown(timer, view));
        let shown = text.fill(timers, ResponseText::item)?;
        truncate_page(&mut page, shown);
        end_page(&mut text, cursor_of(&page, filter))?;
        if is_searched {
            text.raw(r#","examined":"#)?;
            text.value(&page.examined)?;
            if let Some(next) = &page.next {
                text.raw(r#","up_to":"#)?;
                text.value(&Time::from(next.due_at))?;
            }
        }
        if !unavailable_shards.is_empty() {
            text.raw(r#","unavailable_shards":"#)?;
            text.value(&unavailable_shards)?;
        }
        text.raw("}")?;
        drop((page, reservation));
        Ok(text)
    });
    Ok(text.await?.into_response(StatusCode::OK))
}

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
pub(crate) async fn export_timers(call: CallOn<NamespaceName>, uri: Uri) -> HandlerResult {
    let CallOn { admitted, target: name } = call;
    let query = Query::read(&uri, &["state", "limit", "cursor"])?;
    let limit = query.integer("limit", PAGE_MAX)?;
    let (state, cursor) = (query.get("state"), query.get("cursor"));
    let ExportCall { request, filter, namespace } =
        admitted.export_call(name, state, limit, cursor).await?;
    let ReadResult { value: mut page, reservation, rest } = admitted.read_page(request).await?;
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

/// Ends a page after its first `shown` timers.
fn truncate_page(page: &mut Page, shown: usize) {
    if shown < page.timers.len() {
        page.timers.truncate(shown);
        page.next = page.timers.last().map(Position::of);
    }
}

/// Writes the end of a page after its items: the cursor of the next page.
pub(crate) fn end_page(text: &mut ResponseText, cursor: Option<String>) -> Result<(), Problem> {
    text.raw("]")?;
    if let Some(cursor) = cursor {
        text.raw(r#","cursor":"#)?;
        text.value(&cursor)?;
    }
    Ok(())
}

fn view(text: Option<&str>) -> Result<Option<View>, Invalid> {
    let view = text
        .map(|text| View::parse(text).ok_or_else(|| Invalid::new("view", text, "full or summary")));
    view.transpose()
}

/// Returns the cursor of the next page.
fn cursor_of(page: &Page, filter: FilterHash) -> Option<String> {
    page.next.clone().map(|position| Cursor::new(position, filter).to_string())
}

/// Returns `true` if the caller accepts lines by name; `*/*` gets a page.
fn wants_lines(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|range| {
            let kind = range.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case(NDJSON)
        })
    })
}

fn fields(query: &Query) -> ListFields<'_> {
    let time =
        |name: &str| query.get(name).map(|text| Time::of_query(text).check(name)).transpose();
    ListFields {
        state: state(query.get("state")),
        due_from: time("due_from"),
        due_to: time("due_to"),
        id_prefix: query.get("id_prefix"),
        tag: query.get("tag"),
        limit: query.integer("limit", PAGE_MAX),
        view: view(query.get("view")),
        cursor: query.get("cursor"),
    }
}

fn state(text: Option<&str>) -> Result<ListState, Invalid> {
    let Some(text) = text.filter(|text| *text != "pending") else {
        return Ok(ListState::Pending);
    };
    TimerState::parse(text).map(ListState::Only).ok_or_else(|| {
        let states = TimerState::ALL.map(TimerState::as_str);
        let allowed = format!("pending or one of {}", states.join(", "));
        let known = states.into_iter().chain(["pending"]);
        Invalid::new("state", text, with_similar(allowed, text, known))
    })
}
