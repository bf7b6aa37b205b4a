//! Plans as tables, and a property: no plan moves more than there is.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn report(allowance: u64, used: u64) -> Report {
    Report {
        ver: "3".into(),
        deal: "0".into(),
        is_dealt: true,
        max: Some(1_000),
        allowance,
        used,
        owes: false,
        given: HashMap::new(),
        taken: HashMap::new(),
        settled: None,
    }
}

/// Makes a plan. Shard 0 is the coordinator shard; each shard has a quota and uses some of it.
fn plan_of(shards: &[(u64, u64)], wanted: &[(u16, u64)]) -> Plan {
    let reports: Vec<Report> = shards.iter().map(|(has, used)| report(*has, *used)).collect();
    let reports = (0..).zip(&reports).collect();
    plan(0, shards.len() as u16, &reports, &wanted.iter().copied().collect())
}

#[test]
fn missing_quota_is_transferred_through_the_coordinator() {
    let nothing = Plan::default();
    let moved = |gifts: &[(u16, u64)], onward: &[(u16, u64)]| Plan {
        gifts: gifts.to_vec(),
        onward: onward.to_vec(),
        ..Plan::default()
    };
    for (what, shards, wanted, expected) in [
        ("nothing is unused", vec![(2, 2), (1, 1), (1, 1)], vec![(1, 1)], nothing.clone()),
        ("nobody is short", vec![(2, 0), (1, 0), (1, 1)], vec![(1, 1)], nothing),
        ("the home has some", vec![(1, 0), (1, 1), (1, 1)], vec![(1, 1)], moved(&[], &[(1, 1)])),
        ("the home is short", vec![(1, 1), (1, 1), (1, 0)], vec![(0, 1)], moved(&[(2, 1)], &[])),
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
            "who overdraws gets that too",
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
    reports[2].given.insert(0, 7);
    reports[0].taken.insert(2, 5);
    reports[0].given.insert(1, 4);
    let by_shard = (0..).zip(&reports).collect();
    let told = plan(0, 3, &by_shard, &BTreeMap::from([(2, 1)]));
    let expected = Plan {
        told_home: vec![(2, 7)],
        told_others: vec![(1, 4)],
        gifts: vec![(1, 1)],
        onward: vec![(2, 2)],
    };
    assert_eq!(told.told_home, expected.told_home);
    assert_eq!(told.told_others, expected.told_others);
    assert!(!told.onward.is_empty(), "{told:?}");
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
        for giver in 0..shards.len() as u16 {
            let gives = plan.gifts.iter().filter(|(own, _)| *own == giver).map(|(_, most)| most);
            prop_assert!(gives.sum::<u64>() <= unused(giver));
        }
        let gifts: u64 = plan.gifts.iter().map(|(_, most)| most).sum();
        let onward: u64 = plan.onward.iter().map(|(_, most)| most).sum();
        prop_assert!(onward <= gifts + unused(0));
        // If any quota is unused, the plan moves some to the shards that are short.
        let is_short = |(shard, want): &(u16, u64)| {
            let (has, used) = shards[usize::from(*shard)];
            used + want > has
        };
        let short: Vec<u16> = wanted.iter().filter(|w| is_short(w)).map(|w| w.0).collect();
        let free: u64 = (0..shards.len() as u16).filter(|s| !short.contains(s)).map(unused).sum();
        prop_assert_eq!(plan.is_empty(), short.is_empty() || free == 0);
    }
}
