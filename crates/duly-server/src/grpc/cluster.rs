//! `duly.v1.Cluster`: how the service is.

use duly_proto::v1::{self, cluster_server::Cluster};
use tonic::{Request, Response, Status};

use super::outbound::read;
use crate::http::App;

/// The service.
#[derive(Debug)]
pub(super) struct Service {
    app: App,
}

impl Service {
    /// The service of a server.
    pub(super) const fn new(app: App) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl Cluster for Service {
    async fn get(
        &self,
        _: Request<v1::GetClusterRequest>,
    ) -> Result<Response<v1::ClusterInfo>, Status> {
        let cluster = self.app.cluster();
        let info = v1::ClusterInfo {
            version: cluster.version.to_owned(),
            shards: cluster.shards.into(),
            ready: cluster.ready,
            reasons: cluster.reasons,
            pending: cluster.pending,
            overdue: cluster.overdue,
            in_flight: cluster.in_flight,
            dead: cluster.dead,
        };
        Ok(read(&self.app, info)?)
    }
}
