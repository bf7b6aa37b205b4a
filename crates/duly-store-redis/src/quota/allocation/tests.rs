//! Tests of the count of used quota, and of the parts of an allocation.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn report(ver: &str, allocation: &str, is_allocated: bool) -> QuotaReport {
    QuotaReport {
        ver: ver.into(),
        allocation: allocation.into(),
        is_allocated,
        max: Some(10),
        quota: 3,
        used: 2,
        has_unswept: false,
        sent: HashMap::new(),
        received: HashMap::new(),
        settled: None,
    }
}

#[test]
fn use_counts_only_in_shards_that_accept_nothing() {
    let coordinator = report("7", "7", false);
    for (what, other, counted) in [
        ("it waits for the allocation", report("7", "7", false), 1),
        ("it has not taken the change", report("6", "0", true), 0),
        ("it waits for an older allocation", report("6", "6", false), 0),
        ("it has taken a change after it", report("8", "7", false), 0),
        ("it has its quota", report("7", "7", true), 0),
    ] {
        assert_eq!(super::counted(&coordinator, [&other].into_iter()).len(), counted, "{what}");
    }
}

proptest! {
    #[test]
    fn allocation_adds_up_to_the_limit_and_covers_all_use(
        max in 0_u64..200,
        used in prop::collection::vec(0_u64..20, 1..70),
    ) {
        let total: u64 = used.iter().sum();
        let Some(amounts) = split_limit(max, &used) else {
            prop_assert!(total >= max);
            return Ok(());
        };
        let shards = used.len() as u64;
        let mut allowed = 0;
        for ((shard, used), amount) in (0..).zip(&used).zip(amounts.split(' ')) {
            let amount: i64 = amount.parse().expect("a number");
            let has = even_split(max, shard, shards).checked_add_signed(amount);
            let has = has.expect("no allowance is below nothing");
            prop_assert!(has >= *used);
            allowed += has;
        }
        prop_assert_eq!(allowed, max);
    }
}
