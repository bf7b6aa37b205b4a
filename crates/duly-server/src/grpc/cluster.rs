//! `duly.v1.Cluster`: how the service is.

use duly_proto::v1::{self, cluster_server::Cluster};
use tonic::{Request, Response, Status};

use super::outbound::read;
use crate::http::{App, health::reasons};

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
        let health = self.app.store().health();
        let reasons = reasons(&self.app, &health);
        let info = v1::ClusterInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: self.app.store().shards().into(),
            ready: reasons.is_empty(),
            reasons,
            pending: health.pending,
            overdue: health.overdue,
            in_flight: health.in_flight,
            dead: health.dead,
        };
        Ok(read(&self.app, info, None)?)
    }
}
