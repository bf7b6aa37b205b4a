use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn keeps_the_earliest_and_reports_completeness(
        offered in prop::collection::vec(0_u32..1_000, 0..400),
        capacity in 1_usize..50,
    ) {
        let mut earliest = Earliest::new(capacity);
        offered.iter().for_each(|one| earliest.offer(*one));
        let (mut kept, last) = earliest.into_parts();
        kept.sort_unstable();
        let mut all = offered;
        all.sort_unstable();
        let known = last.map_or(all.len(), |last| all.partition_point(|one| *one < last));
        prop_assert!(kept.len() <= capacity);
        prop_assert!(last.is_none() || kept.len() == capacity);
        prop_assert_eq!(&kept[..known], &all[..known]);
    }

    #[test]
    fn values_are_ascending_for_any_batch_size(
        values in prop::collection::vec(any::<u16>(), 0..400),
        asked in prop::collection::vec((1_usize..40, 0_usize..40), 1..400),
    ) {
        let mut expected = values.clone();
        expected.sort_unstable();
        let mut ascending = Ascending::of(values);
        let mut taken = 0;
        for (most, count) in asked {
            let left = &expected[taken..];
            let front = ascending.front(most).to_vec();
            prop_assert_eq!(&front[..], &left[..most.min(left.len())]);
            let count = count.min(front.len());
            ascending.take_out(count);
            taken += count;
            prop_assert_eq!(ascending.is_empty(), taken == expected.len());
        }
    }
}

#[test]
fn unrequested_values_are_not_sorted() {
    let values: Vec<u32> = (0..4_096).map(|n| n * 40_503 % 65_536).collect();
    let mut ascending = Ascending::of(values);
    assert_eq!(ascending.front(8).len(), 8);
    assert!(ascending.sorted <= 16, "{} are in order", ascending.sorted);
    let front: BTreeSet<u32> = ascending.front(8).iter().copied().collect();
    assert!(ascending.values[8..].iter().all(|later| front.iter().all(|one| one <= later)));
}
