use proptest::{collection::vec, prelude::*};

use super::*;

fn key(n: usize) -> PackedKey {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&(n as u64).to_le_bytes());
    key
}

/// Offers all of these in steps, as a sweep does.
fn caught(times: &[u64], max: usize) -> (SweptTimers, Vec<DueTimer>) {
    let mut swept = SweptTimers::new(&KindHorizon::default(), 1_000, max);
    for (n, at_ms) in times.iter().enumerate() {
        swept.offer(*at_ms, key(n));
        if n % 7 == 0 {
            swept.offer_some_again();
        }
    }
    while !swept.offer_some_again() {}
    while !swept.is_empty() {
        assert!(swept.move_into(&mut Calendar::new(), 5) <= 5);
    }
    let mut found = Vec::new();
    swept.fresh.pop_due(u64::MAX, usize::MAX, &mut found);
    (swept, found)
}

/// Most timers of one millisecond.
fn densest(found: &[DueTimer]) -> usize {
    let mut counts = std::collections::BTreeMap::new();
    found.iter().for_each(|(at_ms, _)| *counts.entry(*at_ms).or_insert(0) += 1);
    counts.into_values().max().unwrap_or(0)
}

proptest! {
    #[test]
    fn catch_is_complete_before_target_and_bounded_after(
        times in vec(prop_oneof![0..2_000_u64, 0..1_000_u64, 1_000..1_010_u64, 1_000..3_700_000_u64], 0..400),
        max in 1..60_usize,
    ) {
        let (swept, mut found) = caught(&times, max);
        found.sort_unstable();
        let all = times.iter().enumerate().map(|(n, at_ms)| (*at_ms, key(n)));
        let mut before: Vec<DueTimer> = all.filter(|(at_ms, _)| *at_ms < swept.target_ms).collect();
        before.sort_unstable();
        prop_assert_eq!(&found, &before);
        let behind = times.iter().filter(|at_ms| **at_ms >= swept.target_ms).min();
        prop_assert!(behind.is_none_or(|at_ms| swept.beyond_ms <= *at_ms));
        prop_assert!(behind.is_none() || swept.beyond_ms >= swept.target_ms);
        if found.len() < max {
            prop_assert!(!swept.is_cut, "nothing is let go while there is room");
        }
        prop_assert!(found.len() <= 2 * max + densest(&found));
    }
}

#[test]
fn dense_buckets_divide_down_to_a_millisecond() {
    let times: Vec<u64> = (0..4_000).map(|n| 1_000 + n % 100).collect();
    let (swept, found) = caught(&times, 50);
    assert_eq!(swept.width_ms, 1);
    assert!((50..=130).contains(&found.len()), "{}", found.len());
    let (_, found) = caught(&[1_000; 4_000], 50);
    assert_eq!(found.len(), 4_000, "one millisecond is taken whole");
}
