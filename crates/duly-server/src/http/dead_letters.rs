//! `POST /v1/namespaces/{namespace}/dead/{redrive,purge,overdue}`: redrives or purges dead letters, and
//! dead-letters overdue timers in place of late deliveries.
//!
//! The last one is meant for a paused namespace after a restore: timers that fired since the backup was
//! made would fire again. A call reads the pages of timers that were due by a time, and dead-letters each
//! on the condition that it still was. So a repeated or interrupted call does no harm.

use duly_api::{
    DeadLetterOverdueRequest, DeadLetterOverdueResponse, PurgeRequest, PurgeResponse,
    RedriveRequest, RedriveResponse, json,
};
use duly_core::NamespaceName;

use super::{
    body::JsonBody,
    response::{self, HandlerResult},
    target::CallOn,
};

/// Send dead letters again, at most 10000 a call.
///
/// The delivery id stays the same. The count of attempts continues, with a fresh number of attempts
/// allowed.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/redrive",
    tag = "dead letters",
    request_body(content = RedriveRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were sent again.", body = RedriveResponse))
)]
pub(crate) async fn redrive(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let checked = body.read(|text| Ok(json::parse_body::<RedriveRequest>(text)?.check()?));
    let (selection, spacing) = checked.await?;
    response::ok(&call.admitted.redrive(call.target, selection, spacing).await?)
}

/// Drop dead letters for good, at most 10000 a call.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/purge",
    tag = "dead letters",
    request_body(content = PurgeRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were dropped.", body = PurgeResponse))
)]
pub(crate) async fn purge(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let selection = body.read(|text| Ok(json::parse_body::<PurgeRequest>(text)?.check()?)).await?;
    response::ok(&call.admitted.purge(call.target, selection).await?)
}

/// Dead-letter overdue timers: due and retrying timers become dead letters with the reason `overdue`.
///
/// At most 10000 timers a call; a leased timer is left alone. The call stops at the namespace's limit of
/// dead letters, and leaves the remaining timers unchanged.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/dead/overdue",
    tag = "dead letters",
    request_body(content = DeadLetterOverdueRequest, content_type = "application/json"),
    responses((status = 200, description = "How many were given up.", body = DeadLetterOverdueResponse))
)]
pub(crate) async fn dead_letter_overdue(
    call: CallOn<NamespaceName>,
    body: JsonBody,
) -> HandlerResult {
    response::ok(&call.admitted.dead_letter_overdue(call.target, body.parse().await?).await?)
}
