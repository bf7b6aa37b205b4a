//! `GET /v1/cluster`: the state of the service.

use axum::{extract::State, response::Response};

use duly_node::MemberView;
use duly_store::deployment::MembershipStage;

use super::{
    App, Problem,
    health::{reasons, warnings},
    problem::Refusals,
    response,
};
use crate::messages::ms;
use duly_api::{ClusterInfo, Node};

/// State of the service: version, shards, readiness, counts over all namespaces.
#[utoipa::path(
    get,
    path = "/v1/cluster",
    tag = "service",
    responses((status = 200, description = "How it is.", body = ClusterInfo), Refusals)
)]
pub(crate) async fn cluster(State(app): State<App>) -> Result<Response, Problem> {
    app.recount().await;
    response::ok(&app.cluster())
}

impl App {
    /// Returns the state of the service without waiting.
    pub(crate) fn cluster(&self) -> ClusterInfo {
        let health = self.store().health();
        let reasons = reasons(self, &health);
        let members = self.node().members();
        ClusterInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: self.store().shards().into(),
            ready: reasons.is_empty(),
            reasons,
            warnings: warnings(self, health.warnings),
            pending: health.pending,
            overdue: health.overdue,
            in_flight: health.in_flight,
            dead: health.dead,
            protocol: members
                .iter()
                .map(|member| member.protocols.1.into())
                .min()
                .unwrap_or_default(),
            nodes: members.into_iter().map(node).collect(),
        }
    }
}

fn node(member: MemberView) -> Node {
    Node {
        name: member.name,
        member_id: format!("{:016x}", member.member_id.0),
        this: member.is_this,
        state: match member.presence {
            MembershipStage::Joining => "joining",
            MembershipStage::Here => "active",
            MembershipStage::Leaving | MembershipStage::Left => "leaving",
        }
        .to_owned(),
        shards: u32::try_from(member.shards).unwrap_or(u32::MAX),
        heartbeat_age_ms: ms(member.heartbeat_age),
    }
}
