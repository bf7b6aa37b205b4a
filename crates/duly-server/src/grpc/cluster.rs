//! `duly.v1.Cluster`: the state of the service.

use duly_api::v1::{self, cluster_server::Cluster};
use tonic::{Request, Response, Status};

use super::outbound::read_response;
use crate::http::App;

/// The service.
#[derive(Debug)]
pub(super) struct ClusterService {
    app: App,
}

impl ClusterService {
    /// Creates the service.
    pub(super) const fn new(app: App) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn get(
        &self,
        _: Request<v1::GetClusterRequest>,
    ) -> Result<Response<v1::ClusterInfo>, Status> {
        self.app.recount().await;
        Ok(read_response(&self.app, self.app.cluster())?)
    }
}
