//! The script that allocates lanes' limits against the reference, step by step.

use std::sync::Arc;

use duly_core::{Millis, NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{
    Lane, MemberId, Store as _,
    conformance::{Harness, ManualClock},
    deployment::Ask,
    memory::MemoryStore,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::harness::RedisHarness;

#[test]
fn p10_lane_allocations_equal_the_reference() {
    let harness = RedisHarness::new();
    let clock = ManualClock::default();
    let reference = MemoryStore::new(Arc::new(clock.clone()), 1).shared_by_nodes();
    let store = harness.store();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut random = StdRng::seed_from_u64(7);
    let lane = |i: u32| Lane {
        namespace: NamespaceName::new("shop").expect("a name"),
        key: LaneKey::Receiver(format!("https://r{i}.example").into()),
    };
    let mut held = std::collections::HashMap::new();
    runtime.block_on(async {
        for step in 0..400 {
            let member_id = MemberId(0xE0 + random.random_range(0..4_u64));
            let (i, cap) = (random.random_range(0..2), [1, 3, 10, 100][random.random_range(0..4)]);
            let keep: u32 = *held.get(&(member_id, i)).unwrap_or(&0);
            let keep = random.random_range(0..=keep);
            let wanted = random.random_range(0..15);
            let per_second = random.random_bool(0.5).then_some(cap);
            let asks = vec![Ask { lane: lane(i), cap, per_second, keep, wanted }];
            let (ours, theirs) = {
                let ours = store.deployment().expect("nodes share it");
                let theirs = reference.deployment().expect("nodes share it");
                (
                    ours.allot(ShardId(0), member_id, asks.clone()).await,
                    theirs.allot(ShardId(0), member_id, asks.clone()).await,
                )
            };
            assert_eq!(ours, theirs, "step {step}: {member_id:?} {asks:?}");
            let slots = ours.expect("it is shared out")[0].slots;
            held.insert((member_id, i), slots.max(keep));
            if random.random_bool(0.2) {
                let by = Millis::from_ms(random.random_range(0..1_500));
                clock.advance(by);
                harness.advance(by).await;
            }
        }
    });
}
