//! `POST /v1/namespaces/{namespace}/batch`: many operations, each accepted or refused by itself.
//! `POST /v1/namespaces/{namespace}/import`: timers and dead letters of another server.
//!
//! This module handles one JSON document; [`super::lines`] handles a stream of lines. The two calls differ
//! in their [`Items`].

use axum::extract::{FromRequest, Request};
use duly_core::{Invalid, NamespaceName};

use super::{
    Problem,
    body::{self, JSON, JsonBody, NDJSON},
    lines,
    response::{self, HandlerResult},
    target::{CallOn, Query},
};
use crate::{
    memory::budget::Reservation,
    service::{
        Admitted,
        blocking::run_blocking,
        items::{BATCH_BYTES_MAX, ItemResult, Items, OPERATION_BYTES, SortedItems},
    },
};
use duly_api::{
    BatchResponse,
    batch::{Batch, Results},
    moved::{Import, ImportResults},
};

/// Many operations in one call.
///
/// Operations on one id run in order; items are independent. Each result is exactly one of `timer`,
/// `outcome`, `error`. As `application/json`: at most 10000 operations, with one response. As
/// `application/x-ndjson`: one operation a line, without limit; results are returned line by line while
/// the request is still being sent.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/batch",
    tag = "timers",
    params(("results" = Option<Results>, Query, description = "Of a stream of lines: an answer to each (`all`, the default), or to those that were refused and a summary at the end (`errors`)")),
    request_body(content(
        (Batch = "application/json"),
        (String = "application/x-ndjson")
    )),
    responses(
        (status = 200, description = "One result for each operation, in order.", content(
            (BatchResponse = "application/json"),
            (String = "application/x-ndjson")
        ))
    )
)]
pub(crate) async fn batch(call: CallOn<NamespaceName>, request: Request) -> HandlerResult {
    respond(call, request, Items::Operations).await
}

/// Take timers of another server.
///
/// The timers of an export keep incarnation, attempts and history, so that their delivery ids stay the
/// same. A timer that has been here before, in any state, is returned as `existing` and nothing changes,
/// so an import can be repeated; a timer that was cancelled here does not come back. As
/// `application/json` at most 10000 timers, as `application/x-ndjson` one a line without limit.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/import",
    tag = "moving",
    params(
        ("namespace" = String, Path, description = "Name of the namespace; that of the export, since delivery ids depend on it"),
        ("results" = Option<Results>, Query, description = "Of a stream of lines: an answer to each (`all`, the default), or to those that were refused and a summary at the end (`errors`)")
    ),
    request_body(content(
        (Import = "application/json"),
        (String = "application/x-ndjson")
    )),
    responses(
        (status = 200, description = "One result for each timer, in order.", content(
            (ImportResults = "application/json"),
            (String = "application/x-ndjson")
        ))
    )
)]
pub(crate) async fn import_timers(call: CallOn<NamespaceName>, request: Request) -> HandlerResult {
    respond(call, request, Items::Timers).await
}

/// Responds to a call of many items.
async fn respond(call: CallOn<NamespaceName>, request: Request, items: Items) -> HandlerResult {
    let CallOn { admitted, target: namespace } = call;
    let kind = body::check_content_type(request.headers(), &[JSON, NDJSON])?;
    let query = Query::read(request.uri(), &["results"])?;
    let results = Results::parse(query.get("results"))?;
    if kind == NDJSON {
        let results = results.unwrap_or(Results::All);
        return lines::respond(admitted, namespace, request, items, results).await;
    }
    if results.is_some() {
        let allowed = "left out, unless the body is a stream of lines (application/x-ndjson)";
        return Err(Invalid::unseen("results", allowed).into());
    }
    let body = JsonBody::from_request(request, &()).await?;
    if body.len() > BATCH_BYTES_MAX {
        return Err(Problem::too_large("body", "a batch", BATCH_BYTES_MAX, "split it"));
    }
    let reader = (admitted.clone(), namespace.clone());
    let prepare = move |text: &[u8]| prepare(&reader.0, &reader.1, items, text);
    let ((sorted, count, reservation), held) = body.read_held(prepare).await?;
    let applied = admitted.apply_items(&namespace, sorted).await.unless_failed()?;
    // The commands are carried out, and none of their payloads is held any more.
    drop(held);
    let written = move || {
        let outcomes = applied.outcomes().enumerate();
        write(outcomes.map(|(i, item)| items.result(&admitted, item, |kind| kind.path_at(i))))
    };
    let text = run_blocking(count * OPERATION_BYTES, written).await?;
    Ok(response::change(reservation, text.into()).await)
}

/// Reads a batch, and reserves memory for the response. Returns the number of items too.
fn prepare(
    admitted: &Admitted,
    namespace: &NamespaceName,
    items: Items,
    text: &[u8],
) -> Result<(SortedItems, usize, Reservation), Problem> {
    let texts = items.of(text)?;
    let (call, reservation) = admitted.begin_items(items, texts.len(), 0)?;
    let read = texts.iter().enumerate().map(|(i, text)| {
        let read = items.command(admitted, namespace, text.get().as_bytes());
        read.map_err(|invalid| invalid.within(&format!("{}[{i}]", items.field())).into())
    });
    Ok((call.sort(read), texts.len(), reservation))
}

/// Writes the body of a response. Each outcome and its result are dropped when they are written.
fn write(results: impl Iterator<Item = ItemResult>) -> Result<Vec<u8>, Problem> {
    let mut text = br#"{"results":["#.to_vec();
    for (i, result) in results.enumerate() {
        if i > 0 {
            text.push(b',');
        }
        response::write_json(&mut text, &result)?;
    }
    text.extend_from_slice(b"]}\n");
    Ok(text)
}
