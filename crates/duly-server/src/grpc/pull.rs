//! The calls Lease and Settle.

use duly_api::{lease::LeaseCall, v1};
use duly_core::{Invalid, NamespaceName};
use prost::Message;
use tonic::{Request, Response};

use super::{
    Problem, namespace,
    outbound::{change_response, with_guards},
    read,
};
use crate::service::{
    blocking::run_blocking,
    pull::{
        CheckedSettlement, Claims, SETTLEMENT_BYTES, check_settlement, reserve_settlements,
        settle_result,
    },
};

/// Leases firings to a consumer.
pub(super) async fn lease(
    request: Request<v1::LeaseRequest>,
) -> Result<Response<v1::LeaseResponse>, Problem> {
    let (admitted, request) = read(request)?;
    let namespace = namespace(&admitted, &request.namespace)?;
    let claims = Claims::take(&admitted, namespace, request.check()?).await?;
    let message = claims.shown();
    // If this is refused, the claims are released and do not count as attempts.
    let reservation = claims.memory.for_response(&admitted.budget(), message.encoded_len())?;
    Ok(with_guards(message, reservation, Some(claims.leased)))
}

/// Settles leased firings, and leases the next ones.
pub(super) async fn settle(
    request: Request<v1::SettleRequest>,
) -> Result<Response<v1::SettleResponse>, Problem> {
    let (admitted, request) = read(request)?;
    let namespace = namespace(&admitted, &request.namespace)?;
    let lease = request.lease.map(|lease| within_settle(lease).map_err(|it| it.within("lease")));
    let lease = lease.transpose()?;
    let count = request.settlements.len();
    let reservation = reserve_settlements(&admitted.budget(), count)?;
    let within = namespace.clone();
    let checked = run_blocking(count * SETTLEMENT_BYTES, move || {
        Ok(check_settlements(&within, request.settlements))
    })
    .await?;
    let results = admitted.settle_many(checked).await?.into_iter().map(settle_result).collect();
    let mut message = v1::SettleResponse { results, leased: None };
    if let Some(call) = lease {
        // The settlements count whether or not firings can be leased.
        if let Ok(claims) = Claims::take(&admitted, namespace, call).await {
            message.leased = Some(claims.shown());
            if let Ok(reservation) =
                claims.memory.for_response(&admitted.budget(), message.encoded_len())
            {
                return Ok(with_guards(message, reservation, Some(claims.leased)));
            }
        }
        message.leased = Some(v1::LeaseResponse::default());
    }
    let response = change_response(&admitted, message).await;
    drop(reservation);
    Ok(response)
}

/// Returns the checked lease of a settle call, which must name no namespace: it is that of the
/// settlements.
fn within_settle(lease: v1::LeaseRequest) -> Result<LeaseCall, Invalid> {
    if !lease.namespace.is_empty() {
        let allowed = "left out: the firings are of the namespace of the settlements";
        return Err(Invalid::new("namespace", lease.namespace, allowed));
    }
    lease.check()
}

/// Returns the settlements of one message, checked.
pub(super) fn check_settlements(
    namespace: &NamespaceName,
    settlements: Vec<v1::Settlement>,
) -> Vec<CheckedSettlement> {
    let settlements = settlements.into_iter().enumerate();
    settlements.map(|(i, settlement)| check_settlement(namespace, i, Ok(settlement))).collect()
}

#[cfg(test)]
mod tests;
