//! Lease and settle, a call each.

use duly_node::LeaseRequest;
use duly_proto::v1;
use tonic::Response;

use super::{
    namespace,
    outbound::{made, read},
};
use crate::{
    http::{
        App, Problem,
        body::aside,
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
    let leased = app
        .node()
        .lease(LeaseRequest {
            namespace,
            max: call.max,
            bytes_max: call.bytes_max,
            lease: call.lease,
            wait: call.wait,
            room: None,
        })
        .await?;
    let firings = leased.firings.iter().map(firing_out).collect();
    read(app, v1::LeaseResponse { firings, paused: leased.paused }, Some(leased))
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
    let answer = made(app, v1::SettleResponse { results });
    drop(share);
    Ok(answer)
}
