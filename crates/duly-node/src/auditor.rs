//! The auditor of the node: lanes that have something due and that nobody works on.
//!
//! It compares what the store says is claimable with what the lanes know. A lane is worked on while
//! it holds slots or waits for something that can still come; a pull lane is neglected when calls
//! wait for it and nobody serves them. What looks neglected at two looks in a row is a finding: it is
//! counted, logged, shown in `/readyz`, and the lane is looked at anew. The store has an auditor of
//! its own for what it forgot itself.
//!
//! Namespaces with something due for consumers that nobody leases are reported too; nothing can be done
//! about them here.
//!
//! A look reads the store's list in pages like any walk, and remembers at most [`SUSPECTS_MAX`]. One
//! that gets no answer is given up and counted like a call that is made again; the next comes as
//! ever. The loop turns at least once in [`SLEEP_MAX`] but for a call to the store, so that its
//! standing still can be seen.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{Error, Lane, Ready, ReadyCursor, Result};
use rustc_hash::FxHashSet;

mod unleased;

use unleased::Unleased;

use crate::{nodes::Part, phase::Phase, record::Recorder, state::Shared, waker::SLEEP_MAX};

/// Lanes of one page.
const PAGE: usize = 256;
/// Pause between two pages, so that a look at very many lanes takes little of the store.
const PAGE_PAUSE: Duration = Duration::from_millis(5);
/// Lanes that are remembered from one look to the next.
const SUSPECTS_MAX: usize = 1_000;
/// Lanes that are named.
const NAMED_MAX: usize = 10;

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut suspects = FxHashSet::default();
    let mut unleased = Unleased::default();
    while shared.phases.now() == Phase::Running {
        tokio::select! {
            () = pause(&shared) => {}
            () = shared.phases.reached(Phase::Draining) => return,
        }
        match look(&shared).await {
            Ok(Seen { neglected: seen, pull }) => {
                let neglected: Vec<_> = seen.intersection(&suspects).cloned().collect();
                conclude(&shared, &neglected);
                suspects = seen;
                unleased.looked(&shared, pull).await;
            }
            Err(error) => shared.log_store_error("ready (auditor)", &error),
        }
    }
}

/// The time between two looks, in steps.
async fn pause(shared: &Shared) {
    let mut left = shared.options.audit_every;
    while !left.is_zero() {
        shared.auditor_beat.turn(shared.clock.boot());
        let step = left.min(SLEEP_MAX);
        tokio::time::sleep(step).await;
        left -= step;
    }
}

/// One page of the store's list. A call that is never answered ends as one that failed.
async fn ready(shared: &Shared, shard: ShardId, after: Option<ReadyCursor>) -> Result<Ready> {
    shared.auditor_beat.turn(shared.clock.boot());
    let answer = shared.store.ready(shard, after, PAGE);
    if let Ok(answer) = tokio::time::timeout(shared.options.stall_after, answer).await {
        return answer;
    }
    shared.watch.restarted("the look of the auditor", "got no answer of the store");
    Err(Error::InDoubt { reason: "the store gave no answer".to_owned() })
}

/// The findings of a look; of each at most [`SUSPECTS_MAX`].
#[derive(Default)]
struct Seen {
    /// Lanes that nobody works on now.
    neglected: FxHashSet<(ShardId, Lane)>,
    /// Namespaces with something due for consumers, each with a shard that has it.
    pull: BTreeMap<NamespaceName, ShardId>,
}

async fn look(shared: &Shared) -> Result<Seen> {
    let mut seen = Seen::default();
    for shard in shared.shards() {
        // The lanes of another node's shards are its work.
        if shared.nodes.part(shard, shared.clock.boot()) != Part::Ours {
            continue;
        }
        let mut after = None;
        loop {
            let page = ready(shared, shard, after).await?;
            for ready in page.lanes {
                if ready.lane.key == LaneKey::Pull && seen.pull.len() < SUSPECTS_MAX {
                    seen.pull.insert(ready.lane.namespace.clone(), shard);
                }
                let is_full = seen.neglected.len() >= SUSPECTS_MAX;
                if !is_full && !is_worked_on(shared, shard, &ready.lane) {
                    seen.neglected.insert((shard, ready.lane));
                }
            }
            after = page.cursor;
            if after.is_none() {
                break;
            }
            tokio::time::sleep(PAGE_PAUSE).await;
        }
    }
    Ok(seen)
}

fn is_worked_on(shared: &Shared, shard: ShardId, lane: &Lane) -> bool {
    match lane.key {
        LaneKey::Pull => !shared.pull.is_neglected(&lane.namespace),
        LaneKey::Origin(_) | LaneKey::Overflow => {
            let lanes = shared.lanes.lock();
            // With more waiting than can be remembered, one that is not is no wonder.
            lanes.is_full(shard) || lanes.is_worked_on(shard, lane, shared.clock.boot())
        }
    }
}

fn conclude(shared: &Arc<Shared>, neglected: &[(ShardId, Lane)]) {
    let name = |lane: &Lane| format!("{} of namespace {}", lane.key.label(), lane.namespace);
    let names = neglected.iter().take(NAMED_MAX).map(|(_, lane)| name(lane)).collect();
    let before = std::mem::replace(&mut *shared.watch.neglected.lock(), names);
    Recorder::neglected(neglected.len(), neglected.len());
    if neglected.is_empty() {
        if !before.is_empty() {
            tracing::info!("every lane that has something due is worked on again");
        }
        return;
    }
    tracing::error!(
        count = neglected.len(),
        some = ?*shared.watch.neglected.lock(),
        "lanes have something due and nobody works on them; they are looked at anew"
    );
    for (shard, lane) in neglected {
        match lane.key {
            LaneKey::Pull => crate::pull::ready(shared, *shard, &lane.namespace),
            LaneKey::Origin(_) | LaneKey::Overflow => shared.lanes.lock().look_anew(*shard, lane),
        }
        shared.bell(*shard).ring_due();
    }
}
