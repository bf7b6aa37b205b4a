//! Tests of the reference store alone. The conformance suite tests the rest.

use std::sync::Arc;

use duly_core::{Millis, NamespaceName, Schedule, TimerId, schedule::When};
use duly_core::{destination::LaneKey, schedule::IfExists, shard::ShardId};

use super::*;
use crate::{
    Firing, LaneClaim, Operation,
    conformance::{ManualClock, block_on},
    error::Error,
};

const SHARD: ShardId = ShardId(0);

/// Schedules a due timer and claims it.
async fn fired(store: &MemoryStore) -> Firing {
    let namespace = NamespaceName::new("shop").unwrap();
    let put = Put::IfAbsent(Box::default());
    store.put_namespace(namespace.clone(), put).await.unwrap();
    let schedule = Schedule::new(TimerId::new("a").unwrap(), When::After(Millis::ZERO));
    let operation = Operation::Schedule { schedule: Box::new(schedule), if_exists: IfExists::Fail };
    let command = Command { namespace: namespace.clone(), operation, answer: crate::Answer::Whole };
    store.apply(SHARD, vec![command]).await.unwrap();
    let key = LaneKey::Pull;
    let request = ClaimRequest {
        lanes: vec![LaneClaim { lane: crate::Lane { namespace, key }, first_max: 1, retry_max: 0 }],
        total_max: 1,
        bytes_max: 0,
        owner: Owner::Consumer { lease: None },
    };
    store.claim(SHARD, request).await.unwrap().firings.remove(0)
}

fn store(random_seed: u64) -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::default()), random_seed)
}

#[test]
fn equal_seeds_give_equal_results() {
    let [one, again, other] = [1, 1, 2].map(|seed| block_on(fired(&store(seed))));
    assert_eq!(one, again);
    assert_ne!((one.token, one.delivery_id), (other.token, other.delivery_id));
}

#[test]
fn p8_a_token_of_another_store_is_none_of_ours() {
    let (ours, theirs) = (store(1), store(2));
    let token = block_on(fired(&theirs)).token;
    block_on(fired(&ours));
    let settlement = Settlement { token, namespace: None, verdict: crate::SettleVerdict::Ack };
    let settled = block_on(ours.settle(SHARD, vec![settlement]));
    assert_eq!(settled, Ok::<_, Error>(vec![SettleOutcome::InvalidToken]));
}

#[test]
fn a_future_that_is_never_polled_does_nothing() {
    let store = store(1);
    let name = NamespaceName::new("shop").unwrap();
    drop(store.put_namespace(name.clone(), Put::IfAbsent(Box::default())));
    assert_eq!(block_on(store.get_namespace(name)), Ok(None));
}
