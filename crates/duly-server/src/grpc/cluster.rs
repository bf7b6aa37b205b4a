//! `duly.v1.Cluster`: how the service is.

use duly_proto::v1::{self, cluster_server::Cluster};
use tonic::{Request, Response, Status};

use super::outbound::read;
use crate::{http::App, wire::NodeOut};

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
        self.app.recount().await;
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
            protocol: cluster.protocol.into(),
            nodes: cluster.nodes.into_iter().map(node).collect(),
            warnings: cluster.warnings,
        };
        Ok(read(&self.app, info)?)
    }
}

fn node(node: NodeOut) -> v1::Node {
    v1::Node {
        name: node.name,
        member_id: node.member_id,
        this: node.this,
        leaving: node.state == "leaving",
        shards: u32::try_from(node.shards).unwrap_or(u32::MAX),
        heartbeat_age_ms: node.heartbeat_age_ms,
    }
}
