//! `POST /v1/namespaces/{namespace}/lease`: leases firings to a consumer.
//! `POST /v1/namespaces/{namespace}/settle`: settles leased firings, and leases the next ones.

use duly_api::{
    LeaseResponse, SettleResponse, Settlement as SettlementMessage, json, lease::LeaseCall,
    settle::Settle,
};
use duly_core::NamespaceName;
use duly_store::Firing;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    Problem,
    body::JsonBody,
    response::{self, HandlerResult, ResponseText},
    target::CallOn,
};
use crate::{
    memory::budget::Reservation,
    service::{
        Admitted,
        blocking::run_blocking,
        pull::{CheckedSettlements, Claims, settle_result},
    },
};

/// Lease due firings of the pull lane.
///
/// Returns as soon as there is one, or after `wait`. If the client disconnects before the response is
/// written, its claims are released at once and do not count as attempts.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/lease",
    tag = "pull",
    request_body(content = duly_api::LeaseRequest, content_type = "application/json"),
    responses((status = 200, description = "The firings, possibly none.", body = LeaseResponse))
)]
pub(crate) async fn lease(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let lease = body.parse::<duly_api::LeaseRequest>().await?.check()?;
    let claims = Claims::take(&call.admitted, call.target, lease).await?;
    respond(&call.admitted, claims, |leased| leased).await
}

/// Responds with the value that `body` makes of claimed firings. If the response is refused, the claims are
/// released and do not count as attempts.
async fn respond<T: Serialize>(
    admitted: &Admitted,
    claims: Claims,
    body: impl FnOnce(LeaseResponse) -> T + Send + 'static,
) -> HandlerResult {
    let mut reservation = claims.memory.for_firings(&admitted.budget(), &claims.leased.firings)?;
    let own = reservation.split(reservation.bytes() / 2);
    let bytes = claims.leased.firings.iter().map(Firing::bytes).sum::<u64>();
    let (text, leased) = run_blocking(usize::try_from(bytes).unwrap_or(usize::MAX), move || {
        let mut text = ResponseText::new(reservation);
        text.value(&body(claims.shown()))?;
        let mut leased = claims.leased;
        leased.firings = Vec::new();
        drop(own);
        Ok((text, leased))
    })
    .await?;
    Ok(text.into_response_of(StatusCode::OK, Some(leased)))
}

/// Settle leased firings, at most 10000, and lease the next ones in the same call.
///
/// Each settlement has exactly one verdict; each result is exactly one of `outcome`, `error`. With
/// `lease`, the next firings are leased after the settlements, as by a lease call; a consumer needs no
/// other call.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/settle",
    tag = "pull",
    request_body(content = Settle, content_type = "application/json"),
    responses((status = 200, description = "One result for each settlement, in order.", body = SettleResponse))
)]
pub(crate) async fn settle(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let CallOn { admitted, target: namespace } = call;
    let (reader, within) = (admitted.clone(), namespace.clone());
    let SettleBody { checked, lease, reservation } =
        body.read(move |text| read_settle(&reader, &within, text)).await?;
    let results = admitted.settle_many(checked).await?.into_iter().map(settle_result).collect();
    let mut message = SettleResponse { results, leased: None };
    if let Some(call) = lease {
        let results = message.results.clone();
        let with = |leased| SettleResponse { results, leased: Some(leased) };
        let respond = |claims| respond(&admitted, claims, with);
        let leased = Claims::take_after_settlements(&admitted, namespace, call, respond).await;
        if let Some(response) = leased {
            return Ok(response);
        }
        message.leased = Some(LeaseResponse::default());
    }
    Ok(response::change(reservation, response::to_bytes(&message)?).await)
}

/// A parsed body.
struct SettleBody {
    checked: CheckedSettlements,
    lease: Option<LeaseCall>,
    reservation: Reservation,
}

fn read_settle(
    admitted: &Admitted,
    namespace: &NamespaceName,
    text: &[u8],
) -> Result<SettleBody, Problem> {
    let request: Settle = json::parse_body(text)?;
    let (call, reservation) = admitted.begin_settle(namespace, request.settlements.len())?;
    let lease = request.lease.map(|lease| lease.check().map_err(|it| it.within("lease")));
    let lease = lease.transpose()?;
    let settlements = request.settlements.iter();
    let parse = |text: &&RawValue| json::parse::<SettlementMessage>(text.get().as_bytes());
    Ok(SettleBody { checked: call.check(settlements.map(parse)), lease, reservation })
}

#[cfg(test)]
mod tests;
