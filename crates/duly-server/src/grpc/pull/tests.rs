//! Lease calls over gRPC on a server whose memory is full.

use duly_api::v1::{LeaseRequest, LeaseResponse, timers_client::TimersClient};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

use crate::world::{BODIES_BYTES, World};

async fn lease(world: &World) -> Result<Response<LeaseResponse>, Status> {
    let origin = "http://localhost".parse().unwrap();
    let mut client = TimersClient::with_origin(world.direct(), origin);
    client.lease(LeaseRequest { namespace: "a".into(), max: Some(10), ..Default::default() }).await
}

#[tokio::test(start_paused = true)]
async fn p10_a_call_that_is_refused_for_want_of_memory_claims_nothing() {
    let world = World::start().await;
    world.due(3).await;
    // What is left is enough for the call.
    let full = world.app.budget().take_anyway(BODIES_BYTES - 10_000);
    let refused = lease(&world).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.get_error_details().retry_info().unwrap().retry_delay.is_some());
    assert_eq!(world.granted(), 0);
    drop(full);
    let leased = lease(&world).await.unwrap();
    assert_eq!((leased.into_inner().firings.len(), world.granted()), (3, 3));
    assert!(world.uses_nothing(), "the answer is with its caller");
}
