//! The auditor of the node: finds lanes that have due firings and make no progress.
//!
//! 1. It compares the store's list of claimable lanes with the state of the lanes in this node.
//! 2. A push lane makes progress while it holds slots or waits for an event that can still come. A pull
//!    lane is neglected while lease calls wait for it and no task serves them.
//! 3. A lane that is neglected at two audits in a row is a finding. It is counted, logged, shown in
//!    `/readyz`, and planned again from scratch.
//! 4. Namespaces with due firings and no lease call are reported too. The node cannot repair those.
//! 5. An audit reads the store's list in pages, like a walk, and remembers at most [`SUSPECTS_MAX`]
//!    lanes.
//! 6. An audit whose store call gets no reply is aborted and counted as a restart. The next one runs as
//!    usual.
//! 7. The loop iterates at least once in [`SLEEP_MAX`], except during a store call, so that a stall can
//!    be detected.
//!
//! The store has an auditor of its own for its own state.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{Error, Lane, Ready, ReadyCursor, Result};
use rustc_hash::FxHashSet;

use crate::{nodes::ShardRole, phase::Phase, recorder::Recorder, state::Shared, waker::SLEEP_MAX};

/// Lanes of one page of the store's list.
const PAGE: usize = 256;
/// Pause between two pages, so that an audit of very many lanes puts little load on the store.
const PAGE_PAUSE: Duration = Duration::from_millis(5);
/// Most lanes that are remembered from one audit to the next.
const SUSPECTS_MAX: usize = 1_000;
/// Most lanes that are named in the log and in `/readyz`.
const NAMED_MAX: usize = 10;
/// Audits in a row after which a namespace without lease calls is reported.
const AUDITS_MIN: u32 = 6;
/// Most such namespaces that are reported at once.
const REPORTED_MAX: usize = 10;

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut suspects = FxHashSet::default();
    let mut unleased = Unleased::default();
    while shared.phases.now() == Phase::Running {
        tokio::select! {
            () = pause(&shared) => {}
            () = shared.phases.reached(Phase::Draining) => return,
        }
        match audit(&shared).await {
            Ok(AuditFindings { neglected: found, pull }) => {
                let neglected: Vec<_> = found.intersection(&suspects).cloned().collect();
                report_neglected(&shared, &neglected);
                suspects = found;
                unleased.record_audit(&shared, pull).await;
            }
            Err(error) => shared.log_store_error("ready (auditor)", &error),
        }
    }
}

/// Waits for the time between two audits, in steps.
async fn pause(shared: &Shared) {
    let mut left = shared.options.audit_every;
    while !left.is_zero() {
        shared.auditor_progress.record_iteration(shared.clock.boot());
        let step = left.min(SLEEP_MAX);
        tokio::time::sleep(step).await;
        left -= step;
    }
}

/// Reads one page of the store's list. A call without a reply fails after `stall_after`.
async fn ready(shared: &Shared, shard: ShardId, after: Option<ReadyCursor>) -> Result<Ready> {
    shared.auditor_progress.record_iteration(shared.clock.boot());
    let answer = shared.store.ready(shard, after, PAGE);
    if let Ok(answer) = tokio::time::timeout(shared.options.stall_after, answer).await {
        return answer;
    }
    shared.watch.restarted("an audit", "store call timed out; the audit is aborted");
    Err(Error::InDoubt { reason: "the store did not reply in time".to_owned() })
}

/// The findings of one audit; at most [`SUSPECTS_MAX`] of each kind.
#[derive(Default)]
struct AuditFindings {
    /// Lanes that make no progress now.
    neglected: FxHashSet<(ShardId, Lane)>,
    /// Namespaces with firings due for consumers, each with a shard that has some.
    pull: BTreeMap<NamespaceName, ShardId>,
}

async fn audit(shared: &Shared) -> Result<AuditFindings> {
    let mut findings = AuditFindings::default();
    for shard in shared.shards() {
        // Another node audits the lanes of its own shards.
        if shared.nodes.shard_role(shard, shared.clock.boot()) != ShardRole::Owner {
            continue;
        }
        let mut after = None;
        loop {
            let page = ready(shared, shard, after).await?;
            for ready in page.lanes {
                if ready.lane.key == LaneKey::Pull && findings.pull.len() < SUSPECTS_MAX {
                    findings.pull.insert(ready.lane.namespace.clone(), shard);
                }
                let is_full = findings.neglected.len() >= SUSPECTS_MAX;
                if !is_full && !can_progress(shared, shard, &ready.lane) {
                    findings.neglected.insert((shard, ready.lane));
                }
            }
            after = page.cursor;
            if after.is_none() {
                break;
            }
            tokio::time::sleep(PAGE_PAUSE).await;
        }
    }
    Ok(findings)
}

fn can_progress(shared: &Shared, shard: ShardId, lane: &Lane) -> bool {
    match lane.key {
        LaneKey::Pull => !shared.pull.waiters.lock().is_neglected(&lane.namespace),
        LaneKey::Receiver(_) | LaneKey::Overflow => {
            let lanes = shared.pools.webhooks();
            // When the backlog is full, a lane that is not in it is no finding.
            lanes.is_full(shard) || lanes.can_progress(shard, lane, shared.clock.boot())
        }
    }
}

fn report_neglected(shared: &Arc<Shared>, neglected: &[(ShardId, Lane)]) {
    let name = |lane: &Lane| format!("{} of namespace {}", lane.key.label(), lane.namespace);
    let names = neglected.iter().take(NAMED_MAX).map(|(_, lane)| name(lane)).collect();
    let before = std::mem::replace(&mut *shared.watch.neglected.lock(), names);
    Recorder::neglected(neglected.len());
    if neglected.is_empty() {
        if !before.is_empty() {
            tracing::info!("all lanes with timers due make progress again");
        }
        return;
    }
    tracing::error!(
        count = neglected.len(),
        some = ?*shared.watch.neglected.lock(),
        "lanes with timers due make no progress; the dispatcher polls them again"
    );
    for (shard, lane) in neglected {
        match lane.key {
            LaneKey::Pull => crate::pull::ready(shared, *shard, &lane.namespace),
            LaneKey::Receiver(_) | LaneKey::Overflow => {
                shared.pools.webhooks().reset_neglected(*shard, lane)
            }
        }
        shared.notifier(*shard).notify_due();
    }
}

/// The namespaces with timers due for consumers but no lease call, and the number of audits in a row that found
/// each: often the name is misspelled.
#[derive(Debug, Default)]
struct Unleased {
    audits: BTreeMap<NamespaceName, u32>,
}

impl Unleased {
    /// Records the findings of an audit: namespaces with firings due for consumers, each with a shard
    /// that has some.
    async fn record_audit(&mut self, shared: &Shared, due: BTreeMap<NamespaceName, ShardId>) {
        self.audits.retain(|namespace, _| due.contains_key(namespace));
        let mut found = Vec::new();
        for (namespace, shard) in due {
            if shared.pull.waiters.lock().was_waited_for(&namespace) {
                self.audits.remove(&namespace);
                continue;
            }
            let audits = self.audits.entry(namespace.clone()).or_default();
            *audits += 1;
            if *audits >= AUDITS_MIN
                && found.len() < REPORTED_MAX
                && !is_leased(shared, shard, &namespace).await
            {
                found.push(namespace);
            }
        }
        Recorder::unleased(found.len());
        let before = std::mem::replace(&mut *shared.watch.unleased.lock(), found.clone());
        for namespace in found.iter().filter(|namespace| !before.contains(namespace)) {
            tracing::warn!(
                %namespace,
                "timers are due and no consumer leases them; check the namespace name, or set a webhook"
            );
        }
    }
}

/// Returns `true` if consumers of this node or another hold leases of the namespace.
async fn is_leased(shared: &Shared, shard: ShardId, namespace: &NamespaceName) -> bool {
    match shared.store.stats(shard, namespace.clone()).await {
        Ok(stats) => stats.is_none_or(|stats| stats.in_flight > 0),
        // Without the counts nothing is reported.
        Err(_) => true,
    }
}
