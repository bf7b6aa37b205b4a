//! The state of the service: warnings, reasons against its readiness, members.

use std::time::Duration;

use duly_api::cluster::{ClusterInfo, Node};
use duly_core::access::Action;
use duly_node::MemberView;
use duly_store::{Health, RestoreState, deployment::MembershipStage};
use tokio::time::timeout;

use super::Admitted;
use crate::messages::ms;

/// Time after which an idle loop counts as stuck: each loop runs at least once a second.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the counts of a shared store.
const RECOUNT_WITHIN: Duration = Duration::from_secs(2);

impl Admitted {
    /// Returns the reason why the process must be started again, as its caller may read it; `None` if it lives.
    pub(crate) fn end_reason(&self) -> Option<Vec<String>> {
        self.store.terminal_error().map(|reason| self.readable(vec![reason]))
    }

    /// Returns the warnings of a service that is ready, as its caller may read them.
    ///
    /// # Errors
    /// When it is not ready, with the reasons that its caller may read.
    pub(crate) fn readiness(&self) -> Result<Vec<String>, Vec<String>> {
        let health = self.store.health();
        let reasons = self.reasons(&health);
        if reasons.is_empty() {
            return Ok(self.readable(self.warnings(health.warnings)));
        }
        let mut shown = self.readable(reasons);
        if shown.is_empty() {
            // Each refused call says it too, and an operator has no valid key to ask with.
            shown.extend(self.auth.unusable().map(|(reason, _)| reason));
        }
        Err(shown)
    }

    /// Returns the sentences that the caller may read: none without the right to metrics.
    fn readable(&self, sentences: Vec<String>) -> Vec<String> {
        if self.caller().permits(Action::Metrics) { sentences } else { Vec::new() }
    }

    /// Returns the warnings of a service that is ready: those of its store, and the nodes that it waits for.
    ///
    /// In a rolling upgrade, nodes of an older version leave one by one, each after the previous node is
    /// ready again. So a node that waits for them has to be ready.
    fn warnings(&self, mut of_store: Vec<String>) -> Vec<String> {
        let health = self.node.health();
        let caller = self.caller();
        let unleased = health.unleased.iter().filter(|namespace| caller.covers(namespace.as_str()));
        of_store.extend(unleased.map(|namespace| {
            format!(
                "namespace {namespace} has timers due and no consumer leases them: is the name misspelled, or is a \
                 webhook missing?"
            )
        }));
        of_store.extend(self.audit.reason().filter(|_| !self.audit.is_required()));
        if self.auth.records().restore == RestoreState::Unconfirmed {
            let sentence =
                "the keys were restored and admit no caller until `duly key confirm` is run";
            of_store.push(sentence.to_owned());
        }
        of_store.extend(self.auth.tokens().and_then(|tokens| tokens.warning()));
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
    pub(crate) fn reasons(&self, health: &Health) -> Vec<String> {
        let mut reasons = [&health.not_ready[..], &health.stalls].concat();
        reasons.extend(health.keys_stall.clone());
        // Timers go on, and each call or change is refused.
        reasons.extend(self.auth.unusable().map(|(reason, _)| reason));
        reasons.extend(self.audit.reason().filter(|_| self.audit.is_required()));
        let node = self.node.health();
        if node.draining {
            reasons.push("the server is stopping".to_owned());
        }
        reasons.extend(node.cut_off_for.map(|silent| {
            format!(
                "no majority of the coordinator shards has acknowledged this node's heartbeats for \
                 {:.1} s: until one does, the node starts no attempts",
                silent.as_secs_f64()
            )
        }));
        let stuck = node.loops.iter().filter(|l| l.idle_for > IDLE_MAX);
        reasons.extend(stuck.map(|l| format!("{} has been stalled for {:?}", l.name, l.idle_for)));
        let neglected = node.neglected.iter();
        reasons.extend(
            neglected.map(|lane| format!("lane {lane} has timers due and makes no progress")),
        );
        reasons
    }

    /// Asks the store to count again, and waits for it, at most `RECOUNT_WITHIN`.
    pub(crate) async fn recount(&self) {
        // After the timeout the previous counts stay in use.
        let _in_time = timeout(RECOUNT_WITHIN, self.store.recount()).await;
    }

    /// Returns the state of the service without waiting.
    pub(crate) fn cluster(&self) -> ClusterInfo {
        let health = self.store.health();
        let reasons = self.reasons(&health);
        let members = self.node.members();
        ClusterInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: self.store.shards().into(),
            ready: reasons.is_empty(),
            reasons,
            warnings: self.warnings(health.warnings),
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

#[cfg(test)]
mod tests {
    use axum::http::{Method, StatusCode};
    use duly_store::AccessRecords;

    use crate::{
        auth::{Auth, Caller, tests::call_http},
        operations::{READYZ, of_http},
        service::Admitted,
        tests::TestServer,
    };

    #[tokio::test]
    async fn damaged_keys_make_a_server_unready() {
        let auth = Auth::new(false, None, false);
        let server = TestServer::start_with(auth.clone()).await;
        let readyz = async || call_http(&server.app, ("GET", "/readyz"), None, "").await;
        assert_eq!(readyz().await.0, StatusCode::OK);
        let damage = "both files of the keys are damaged".to_owned();
        let damaged =
            AccessRecords { version: 1, damage: Some(damage.clone()), ..Default::default() };
        auth.use_records(damaged);
        let (status, body) = readyz().await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.to_string().contains(&damage), "a stranger gets the reason: {body}");
        let operation = of_http(&Method::GET, READYZ);
        let app = server.app.clone();
        let admitted = Admitted::new(app, operation, Caller::Anyone, None, None);
        assert_eq!(admitted.reasons(&server.app.store.health()), [damage]);
    }
}
