use super::*;

fn exponential(jitter: f64) -> RetryPolicy {
    RetryPolicy::Exponential(Exponential { jitter, ..Exponential::default() })
}

#[test]
fn exponential_waits_double_up_to_the_cap() {
    let policy = exponential(0.0);
    let waits: Vec<u64> = (1..16).map(|n| policy.wait_after(n, 7).unwrap().ms()).collect();
    assert_eq!(waits[..5], [1_000, 2_000, 4_000, 8_000, 16_000]);
    assert_eq!(waits[14], 3_600_000);
    assert_eq!(policy.wait_after(16, 7), None);
    assert_eq!(policy.wait_after(u32::MAX, 7), None);
}

#[test]
fn zero_backoff_stays_zero_after_any_attempt() {
    let policy = RetryPolicy::Exponential(Exponential {
        min_backoff: Millis::ZERO,
        multiplier: 100.0,
        max_attempts: 1_000,
        ..Exponential::default()
    });
    for attempt in [1, 2, 200, 999] {
        assert_eq!(policy.wait_after(attempt, 7), Some(Millis::ZERO), "{attempt}");
    }
}

#[test]
fn jitter_is_bounded_and_repeats_for_a_seed() {
    let policy = exponential(0.2);
    for seed in 0..1_000 {
        let wait = policy.wait_after(3, seed).unwrap().ms();
        assert!((3_200..=4_800).contains(&wait), "{wait}");
        assert_eq!(policy.wait_after(3, seed).unwrap().ms(), wait);
    }
    let differing =
        (0..100).map(|s| policy.wait_after(3, s)).collect::<std::collections::BTreeSet<_>>();
    assert!(differing.len() > 90);
}

#[test]
fn a_wait_that_was_asked_for_is_spread_upwards_only() {
    let (policy, asked) = (exponential(0.2), Millis::from_secs(30));
    let waits: std::collections::BTreeSet<_> =
        (0..1_000).map(|seed| policy.spread(asked, 1, seed).ms()).collect();
    assert!(waits.iter().all(|wait| (30_000..36_000).contains(wait)), "{waits:?}");
    assert!(waits.len() > 800, "{} different waits", waits.len());
    assert_eq!(exponential(0.0).spread(asked, 1, 7), asked);
    assert_eq!(RetryPolicy::Delays(vec![asked]).spread(asked, 1, 7), asked);
    assert_eq!(policy.spread(Millis::ZERO, 1, 7), Millis::ZERO);
}

#[test]
fn a_list_of_k_delays_makes_k_plus_one_attempts() {
    let policy = RetryPolicy::Delays(vec![Millis::from_secs(10), Millis::from_secs(60)]);
    assert_eq!(policy.max_attempts(), 3);
    assert_eq!(policy.wait_after(1, 0), Some(Millis::from_secs(10)));
    assert_eq!(policy.wait_after(2, 0), Some(Millis::from_secs(60)));
    assert_eq!(policy.wait_after(3, 0), None);
}

#[test]
fn refused_policies_name_their_field() {
    let check = |change: fn(&mut Exponential), field: &str| {
        let mut policy = Exponential::default();
        change(&mut policy);
        assert_eq!(RetryPolicy::Exponential(policy).check().unwrap_err().field, field);
    };
    check(|p| p.max_attempts = 0, "max_attempts");
    check(|p| p.max_attempts = 1_001, "max_attempts");
    check(|p| p.min_backoff = Millis::from_secs(7_200), "min_backoff");
    check(|p| p.max_backoff = Millis::MAX, "max_backoff");
    check(|p| p.multiplier = 0.5, "multiplier");
    check(|p| p.multiplier = f64::NAN, "multiplier");
    check(|p| p.jitter = 1.5, "jitter");
    assert_eq!(RetryPolicy::Delays(vec![]).check().unwrap_err().field, "delays");
    assert_eq!(RetryPolicy::Delays(vec![Millis::MAX]).check().unwrap_err().field, "delays[0]");
}
