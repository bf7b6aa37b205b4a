//! Lease and settle, a call each.

use std::sync::Arc;

use duly_node::LeaseRequest;
use duly_proto::v1;
use prost::Message;
use tonic::Response;

use super::{
    namespace,
    outbound::{handing_out, made},
};
use crate::{
    http::{
        App, Problem,
        body::aside,
        room::LeaseRoom,
        settle::{SETTLEMENT_BYTES, set_aside},
    },
    wire::proto::{
        firing::{firing_out, lease_in},
        settlement::{settled_out, settlements_in},
    },
};

/// Hands firings to a consumer.
pub(super) async fn lease(
    app: &App,
    request: v1::LeaseRequest,
) -> Result<Response<v1::LeaseResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let call = lease_in(request)?;
    let room = Arc::new(LeaseRoom::new(app.budget()));
    let leased = app
        .node()
        .lease(LeaseRequest {
            namespace,
            max: call.max,
            bytes_max: call.bytes_max,
            lease: call.lease,
            wait: call.wait,
            room: Some(Arc::<LeaseRoom>::clone(&room)),
        })
        .await?;
    let firings = leased.firings.iter().map(firing_out).collect();
    let message = v1::LeaseResponse { firings, paused: leased.paused };
    // Refused here, the claims go back uncounted as `leased` is dropped.
    let share = room.for_answer(app.budget(), message.encoded_len())?;
    Ok(handing_out(message, share, leased))
}

/// Takes verdicts on leased firings.
pub(super) async fn settle(
    app: &App,
    request: v1::SettleRequest,
) -> Result<Response<v1::SettleResponse>, Problem> {
    let namespace = namespace(&request.namespace)?;
    let count = request.settlements.len();
    let share = set_aside(app.budget(), count)?;
    let asked = aside(count * SETTLEMENT_BYTES, move || {
        Ok(settlements_in(&namespace, request.settlements))
    })
    .await?;
    let results = app.settle_many(asked).await?.into_iter().map(settled_out).collect();
    let answer = made(app, v1::SettleResponse { results }).await;
    drop(share);
    Ok(answer)
}

#[cfg(test)]
mod tests;
