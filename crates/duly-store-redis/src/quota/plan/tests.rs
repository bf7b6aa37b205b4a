//! Plans as tables, and a property: no plan moves more than there is.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn report(quota: u64, used: u64) -> QuotaReport {
    QuotaReport {
        ver: "3".into(),
        allocation: "0".into(),
        is_allocated: true,
        max: Some(1_000),
        quota,
        used,
        has_unswept: false,
        sent: HashMap::new(),
        received: HashMap::new(),
        settled: None,
    }
}

/// Makes a plan. Shard 0 is the coordinator shard; each shard has a quota and uses some of it.
fn plan_of(shards: &[(u64, u64)], wanted: &[(u16, u64)]) -> TransferPlan {
    let reports: Vec<QuotaReport> = shards.iter().map(|(has, used)| report(*has, *used)).collect();
    let reports = (0..).zip(&reports).collect();
    plan_transfers(0, shards.len() as u16, &reports, &wanted.iter().copied().collect())
}

#[test]
fn missing_quota_is_transferred_through_the_coordinator() {
    let nothing = TransferPlan::default();
    let moved = |to_coordinator: &[(u16, u64)], from_coordinator: &[(u16, u64)]| TransferPlan {
        to_coordinator: to_coordinator.to_vec(),
        from_coordinator: from_coordinator.to_vec(),
        ..TransferPlan::default()
    };
    for (what, shards, wanted, expected) in [
        ("nothing is unused", vec![(2, 2), (1, 1), (1, 1)], vec![(1, 1)], nothing.clone()),
        ("no shard is short", vec![(2, 0), (1, 0), (1, 1)], vec![(1, 1)], nothing),
        (
            "the coordinator has some",
            vec![(1, 0), (1, 1), (1, 1)],
            vec![(1, 1)],
            moved(&[], &[(1, 1)]),
        ),
        (
            "the coordinator is short",
            vec![(1, 1), (1, 1), (1, 0)],
            vec![(0, 1)],
            moved(&[(2, 1)], &[]),
        ),
        (
            "one for another",
            vec![(1, 1), (1, 1), (1, 0)],
            vec![(1, 1)],
            moved(&[(2, 1)], &[(1, 1)]),
        ),
        (
            "less than is wanted",
            vec![(1, 1), (1, 1), (3, 1)],
            vec![(1, 9)],
            moved(&[(2, 2)], &[(1, 2)]),
        ),
        // 30 are unused. A shard that lacks 3 gets 3, and 9, the average that each shard has left.
        (
            "and some to spare",
            vec![(1, 1), (1, 1), (40, 10)],
            vec![(1, 3)],
            moved(&[(2, 12)], &[(1, 12)]),
        ),
        (
            "an overdraft is covered too",
            vec![(9, 0), (1, 4), (9, 9)],
            vec![(1, 1)],
            moved(&[], &[(1, 5)]),
        ),
    ] {
        assert_eq!(plan_of(&shards, &wanted), expected, "{what}");
    }
}

#[test]
fn lost_transfers_are_planned_again() {
    let mut reports = [report(1, 1), report(1, 1), report(0, 0)];
    reports[2].sent.insert(0, 7);
    reports[0].received.insert(2, 5);
    reports[0].sent.insert(1, 4);
    let by_shard = (0..).zip(&reports).collect();
    let plan = plan_transfers(0, 3, &by_shard, &BTreeMap::from([(2, 1)]));
    let expected = TransferPlan {
        unreceived_by_coordinator: vec![(2, 7)],
        unreceived_from_coordinator: vec![(1, 4)],
        to_coordinator: vec![(1, 1)],
        from_coordinator: vec![(2, 2)],
    };
    assert_eq!(plan.unreceived_by_coordinator, expected.unreceived_by_coordinator);
    assert_eq!(plan.unreceived_from_coordinator, expected.unreceived_from_coordinator);
    assert!(!plan.from_coordinator.is_empty(), "{plan:?}");
}

proptest! {
    #[test]
    fn no_plan_moves_more_than_there_is(
        shards in prop::collection::vec((0_u64..20, 0_u64..20), 2..20),
        wanted in prop::collection::btree_map(0_u16..20, 1_u64..30, 0..6),
    ) {
        let wanted: Vec<_> =
            wanted.into_iter().filter(|(shard, _)| usize::from(*shard) < shards.len()).collect();
        let plan = plan_of(&shards, &wanted);
        let unused = |shard: u16| {
            let (has, used) = shards[usize::from(shard)];
            has.saturating_sub(used)
        };
        for sender in 0..shards.len() as u16 {
            let gives = plan.to_coordinator.iter().filter(|(own, _)| *own == sender).map(|(_, most)| most);
            prop_assert!(gives.sum::<u64>() <= unused(sender));
        }
        let to_coordinator: u64 = plan.to_coordinator.iter().map(|(_, most)| most).sum();
        let from_coordinator: u64 = plan.from_coordinator.iter().map(|(_, most)| most).sum();
        prop_assert!(from_coordinator <= to_coordinator + unused(0));
        // If any quota is unused, the plan moves some to the shards that are short.
        let is_short = |(shard, want): &(u16, u64)| {
            let (has, used) = shards[usize::from(*shard)];
            used + want > has
        };
        let short: Vec<u16> = wanted.iter().filter(|w| is_short(w)).map(|w| w.0).collect();
        let free: u64 = (0..shards.len() as u16).filter(|s| !short.contains(s)).map(unused).sum();
        prop_assert_eq!(plan == TransferPlan::default(), short.is_empty() || free == 0);
    }
}
