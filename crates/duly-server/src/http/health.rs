//! `GET /healthz` (liveness: the process needs no restart), `GET /readyz` (readiness, or the reasons
//! against it), `GET /v1/cluster` (the state of the service) and `GET /metrics` (for Prometheus).

use std::time::Duration;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use duly_api::cluster::{ClusterInfo, Node, Readiness, Recovery};
use duly_core::{Millis, access::Action};
use duly_node::MemberView;
use duly_store::{Health, deployment::MembershipStage};
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};

use super::{
    App,
    response::{self, HandlerResult},
};
use crate::{call, messages::ms};

/// Time after which an idle loop counts as stuck: each loop runs at least once a second.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Wait before the next question to a service that is not ready.
const READINESS_RETRY: Millis = Millis::from_secs(1);

/// Paths of health, readiness and metrics.
pub(super) const HEALTHZ: &str = "/healthz";
pub(super) const READYZ: &str = "/readyz";
pub(super) const METRICS: &str = "/metrics";

/// Liveness: 503 means that the store has ended and the process must be started again.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "service",
    responses(
        (status = 200, description = "It lives.", body = Readiness),
        (status = 503, description = "Its store has ended: start it again.", body = Readiness)
    )
)]
pub(crate) async fn healthz(State(app): State<App>) -> HandlerResult {
    match app.store.terminal_error() {
        None => alive().await,
        Some(reason) => not_ready("failed", visible(vec![reason]), None),
    }
}

/// Responds that the process is alive, before the store is open.
pub(super) async fn alive() -> HandlerResult {
    let status = "alive".to_owned();
    response::ok(&Readiness { status, ..Readiness::default() })
}

/// Readiness: 200 if the service can work, otherwise 503 with the reasons.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "service",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It cannot.", body = Readiness)
    )
)]
pub(crate) async fn readyz(State(app): State<App>) -> HandlerResult {
    let health = app.store.health();
    let reasons = reasons(&app, &health);
    if reasons.is_empty() {
        let (status, warnings) = ("ready".to_owned(), visible(warnings(&app, health.warnings)));
        return response::ok(&Readiness { status, warnings, ..Readiness::default() });
    }
    not_ready("not_ready", visible(reasons), None)
}

/// Returns the sentences that the caller may read: none without the right to metrics.
fn visible(sentences: Vec<String>) -> Vec<String> {
    if call::caller().permits(Action::Metrics) { sentences } else { Vec::new() }
}

/// Responds that the service is not ready, with the time of the next question.
pub(super) fn not_ready(
    status: &str,
    reasons: Vec<String>,
    progress: Option<Recovery>,
) -> HandlerResult {
    let (status, retry_after_ms) = (status.to_owned(), Some(READINESS_RETRY.ms()));
    let out = Readiness { status, reasons, progress, retry_after_ms, ..Readiness::default() };
    let mut response = response::json(StatusCode::SERVICE_UNAVAILABLE, &out)?;
    response.headers_mut().insert(RETRY_AFTER, READINESS_RETRY.ms().div_ceil(1_000).into());
    Ok(response)
}

/// Returns the warnings of a service that is ready: those of its store, and the nodes that it waits for.
///
/// In a rolling upgrade, nodes of an older version leave one by one, each after the previous node is
/// ready again. So a node that waits for them has to be ready.
pub(crate) fn warnings(app: &App, mut of_store: Vec<String>) -> Vec<String> {
    let health = app.node.health();
    let caller = call::caller();
    let unleased = health.unleased.iter().filter(|namespace| caller.covers(namespace.as_str()));
    of_store.extend(unleased.map(|namespace| {
        format!(
            "namespace {namespace} has timers due and no consumer leases them: is the name misspelled, or is a \
             webhook missing?"
        )
    }));
    let names = health.waits_for;
    if !names.is_empty() {
        of_store.push(format!(
            "nodes of an older version are still members: {}; until they have stopped, this node \
             accepts calls and starts no attempts: upgrade them",
            names.join(", ")
        ));
    }
    of_store
}

/// Returns the reasons why the service cannot work; none if it can.
pub(crate) fn reasons(app: &App, health: &Health) -> Vec<String> {
    let mut reasons = [&health.not_ready[..], &health.stalls].concat();
    let node = app.node.health();
    if node.draining {
        reasons.push("the server is stopping".to_owned());
    }
    reasons.extend(node.cut_off_for.map(|silent| {
        format!(
            "no majority of the coordinator shards has acknowledged this node's heartbeats for \
             {silent:.1?}: until one does, the node starts no attempts"
        )
    }));
    let stuck = node.loops.iter().filter(|l| l.idle_for > IDLE_MAX);
    reasons.extend(stuck.map(|l| format!("{} has been stalled for {:?}", l.name, l.idle_for)));
    let neglected = node.neglected.iter();
    reasons
        .extend(neglected.map(|lane| format!("lane {lane} has timers due and makes no progress")));
    reasons
}

/// State of the service: version, shards, readiness, counts over all namespaces.
#[utoipa::path(
    get,
    path = "/v1/cluster",
    tag = "service",
    responses((status = 200, description = "How it is.", body = ClusterInfo))
)]
pub(crate) async fn cluster(State(app): State<App>) -> HandlerResult {
    app.recount().await;
    response::ok(&app.cluster())
}

impl App {
    /// Returns the state of the service without waiting.
    pub(crate) fn cluster(&self) -> ClusterInfo {
        let health = self.store.health();
        let reasons = reasons(self, &health);
        let members = self.node.members();
        ClusterInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: self.store.shards().into(),
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

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "service",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4"))
)]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    app.recount().await;
    let health = app.store.health();
    let is_ready = reasons(&app, &health).is_empty();
    metrics_text(app.metrics.render(Some(&health), is_ready))
}

/// Returns a response in the text format of Prometheus.
pub(super) fn metrics_text(text: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text).into_response()
}
