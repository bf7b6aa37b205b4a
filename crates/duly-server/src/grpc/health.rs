//! `grpc.health.v1.Health`, the readiness of `/readyz` over gRPC, and `duly.v1.Cluster`, the state of the
//! service.
//!
//! All services run and stop together, so each has the health of the whole server.

use std::{pin::Pin, time::Duration};

use duly_api::v1::{self, cluster_server::Cluster};
use futures::{Stream, stream};
use tokio::time::sleep;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health,
};

use super::{GrpcResult, Problem, outbound::read_response, read, status::stopping};
use crate::service::Admitted;

/// Poll interval of a watched service.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The known services; an empty name is the server.
const SERVICES: [&str; 4] = ["", "duly.v1.Timers", "duly.v1.Namespaces", "duly.v1.Cluster"];

/// The service `Cluster`.
#[derive(Debug)]
pub(super) struct ClusterService;

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn get(&self, request: Request<v1::GetClusterRequest>) -> GrpcResult<v1::ClusterInfo> {
        let (admitted, _) = read(request)?;
        admitted.recount().await;
        Ok(read_response(&admitted, admitted.cluster())?)
    }

    async fn whoami(&self, request: Request<v1::WhoamiRequest>) -> GrpcResult<v1::WhoamiResponse> {
        let (admitted, _) = read(request)?;
        Ok(read_response(&admitted, admitted.whoami().into())?)
    }
}

/// The service `Health`.
#[derive(Debug)]
pub(super) struct HealthService;

fn now(admitted: &Admitted) -> ServingStatus {
    match admitted.readiness() {
        Ok(_) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

fn is_known(request: &HealthCheckRequest) -> bool {
    SERVICES.contains(&&*request.service)
}

const fn response_with(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> GrpcResult<HealthCheckResponse> {
        let (admitted, request) = read(request)?;
        if !is_known(&request) {
            let known = SERVICES[1..].join(", ");
            let detail = format!("there is no such service: ask for {known}, or for none");
            return Err(Problem::new(duly_core::Code::NotFound, detail).into());
        }
        Ok(Response::new(response_with(now(&admitted))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> GrpcResult<Self::WatchStream> {
        // As the protocol requires: an unknown service may become known.
        let (admitted, request) = read(request)?;
        let state = HealthWatch { admitted, is_known: is_known(&request), last_sent: None };
        Ok(Response::new(Box::pin(stream::unfold(Some(state), next))))
    }
}

struct HealthWatch {
    admitted: Admitted,
    is_known: bool,
    last_sent: Option<ServingStatus>,
}

/// Waits for a status that differs from the last sent one.
async fn next(
    watch: Option<HealthWatch>,
) -> Option<(Result<HealthCheckResponse, Status>, Option<HealthWatch>)> {
    let mut watch = watch?;
    loop {
        let status =
            if watch.is_known { now(&watch.admitted) } else { ServingStatus::ServiceUnknown };
        if watch.last_sent != Some(status) {
            watch.last_sent = Some(status);
            return Some((Ok(response_with(status)), Some(watch)));
        }
        let admitted = watch.admitted.clone();
        tokio::select! {
            () = admitted.stopping() => return Some((Err(stopping()), None)),
            () = sleep(POLL_INTERVAL) => {}
        }
    }
}
