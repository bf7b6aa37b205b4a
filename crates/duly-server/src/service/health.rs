//! The state of the service: warnings, reasons against its readiness, members.

use std::time::Duration;

use duly_api::cluster::{ClusterInfo, Node};
use duly_core::access::Action;
use duly_node::{MemberView, NodeHealth};
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
        let caller = self.caller();
        let node = NodeSentences::new(self.node.health(), |namespace| caller.covers(namespace));
        of_store.extend(node.warnings);
        of_store.extend(self.audit.reason().filter(|_| !self.audit.is_required()));
        if self.auth.records().restore == RestoreState::Unconfirmed {
            let sentence =
                "the keys were restored and admit no caller until `duly key confirm` is run";
            of_store.push(sentence.to_owned());
        }
        of_store.extend(self.auth.tokens().and_then(|tokens| tokens.warning()));
        of_store
    }

    /// Returns the reasons why the service cannot work; none if it can.
    pub(crate) fn reasons(&self, health: &Health) -> Vec<String> {
        let mut reasons = [&health.not_ready[..], &health.stalls].concat();
        reasons.extend(health.keys_stall.clone());
        // Timers go on, and each call or change is refused.
        reasons.extend(self.auth.unusable().map(|(reason, _)| reason));
        reasons.extend(self.audit.reason().filter(|_| self.audit.is_required()));
        reasons.extend(NodeSentences::new(self.node.health(), |_| false).reasons);
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

/// The sentences about a node.
#[derive(Debug, Default, PartialEq, Eq)]
struct NodeSentences {
    /// Warnings while it can work.
    warnings: Vec<String>,
    /// Reasons why it cannot work.
    reasons: Vec<String>,
}

impl NodeSentences {
    /// Returns the sentences; those about a namespace only if `covers` is `true` for its name.
    fn new(health: NodeHealth, covers: impl Fn(&str) -> bool) -> Self {
        let NodeHealth { loops, draining, neglected, unleased, cut_off_for, waits_for, .. } =
            health;
        let mut warnings: Vec<_> = unleased
            .iter()
            .filter(|namespace| covers(namespace.as_str()))
            .map(|namespace| {
                format!(
                    "namespace {namespace} has timers due and no consumer leases them: is the name misspelled, or is \
                     a webhook missing?"
                )
            })
            .collect();
        if !waits_for.is_empty() {
            warnings.push(format!(
                "nodes of an older version are still members: {}; until they have stopped, this node \
                 accepts calls and starts no attempts: upgrade them",
                waits_for.join(", ")
            ));
        }
        let mut reasons = Vec::new();
        if draining {
            reasons.push("the server is stopping".to_owned());
        }
        reasons.extend(cut_off_for.map(|silent| {
            format!(
                "no majority of the coordinator shards has acknowledged this node's heartbeats for \
                 {:.1} s: until one does, the node starts no attempts",
                silent.as_secs_f64()
            )
        }));
        let stuck = loops.iter().filter(|it| it.idle_for > IDLE_MAX);
        reasons
            .extend(stuck.map(|it| format!("{} has been stalled for {:?}", it.name, it.idle_for)));
        reasons.extend(
            neglected
                .iter()
                .map(|lane| format!("lane {lane} has timers due and makes no progress")),
        );
        Self { warnings, reasons }
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
    use duly_core::NamespaceName;
    use duly_node::LoopHealth;
    use duly_store::AccessRecords;

    use crate::{
        auth::{Auth, Caller, tests::call_http},
        operations::{READYZ, of_http},
        service::Admitted,
        tests::TestServer,
    };

    use super::*;

    fn anyone(server: &TestServer) -> Admitted {
        let operation = of_http(&Method::GET, READYZ);
        Admitted::new(server.app.clone(), operation, Caller::Anyone, None, None)
    }

    #[test]
    fn each_trouble_of_a_node_has_its_sentence() {
        // Exhaustive: a new field gets a sentence here, or the reason for none.
        let healthy = || NodeHealth {
            loops: vec![LoopHealth { name: "shard 3".to_owned(), idle_for: IDLE_MAX }],
            // Counts are in the metrics.
            waiters: 1,
            deliveries_in_flight: 1,
            unsettled: 1,
            restarts: 1,
            draining: false,
            neglected: Vec::new(),
            unleased: Vec::new(),
            cut_off_for: None,
            waits_for: Vec::new(),
        };
        let sentences = |change: fn(&mut NodeHealth)| {
            let mut health = healthy();
            change(&mut health);
            let NodeSentences { warnings, reasons } =
                NodeSentences::new(health, |namespace| namespace == "orders");
            (warnings.join("; "), reasons.join("; "))
        };
        assert_eq!(sentences(|_| {}), Default::default());
        for (change, expected) in [
            (
                (|it| {
                    it.unleased =
                        ["orders", "foreign"].map(|it| NamespaceName::new(it).unwrap()).into()
                }) as fn(&mut NodeHealth),
                "namespace orders has timers due and no consumer leases them",
            ),
            (
                |it| it.waits_for = vec!["old-1".to_owned()],
                "members: old-1; until they have stopped",
            ),
        ] {
            let (warnings, reasons) = sentences(change);
            assert!(warnings.contains(expected) && !warnings.contains("foreign"), "{warnings}");
            assert_eq!(reasons, "", "the node is ready");
        }
        for (change, expected) in [
            ((|it| it.draining = true) as fn(&mut NodeHealth), "the server is stopping"),
            (
                |it| it.cut_off_for = Some(Duration::from_millis(12_340)),
                "acknowledged this node's heartbeats for 12.3 s",
            ),
            (
                |it| it.loops[0].idle_for += Duration::from_secs(1),
                "shard 3 has been stalled for 11s",
            ),
            (
                |it| it.neglected = vec!["orders".to_owned()],
                "lane orders has timers due and makes no progress",
            ),
        ] {
            let (warnings, reasons) = sentences(change);
            assert!(reasons.contains(expected), "{reasons}");
            assert_eq!(warnings, "");
        }
    }

    #[tokio::test]
    async fn restored_keys_are_a_warning() {
        let auth = Auth::new(false, None, false);
        let server = TestServer::start_with(auth.clone()).await;
        auth.use_records(AccessRecords {
            version: 1,
            restore: RestoreState::Unconfirmed,
            ..Default::default()
        });
        let warnings = anyone(&server).readiness().expect("it is ready");
        assert!(warnings.join("; ").contains("until `duly key confirm` is run"), "{warnings:?}");
    }

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
        assert_eq!(anyone(&server).reasons(&server.app.store.health()), [damage]);
    }
}
