use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn burst_is_immediate_and_the_rest_follows_the_rate() {
    let rate = Rate::new(10, 3);
    let mut limit = Gcra::default();
    assert_eq!(limit.available(rate, at(5_000)), 3);
    limit.take(rate, at(5_000), 3);
    assert_eq!(limit.available(rate, at(5_000)), 0);
    assert_eq!(limit.next_in(rate, at(5_000)), at(100));
    assert_eq!(limit.available(rate, at(5_099)), 0);
    assert_eq!(limit.available(rate, at(5_100)), 1);
    assert_eq!(limit.next_in(rate, at(5_100)), Duration::ZERO);
    assert!(!limit.is_idle(at(5_299)) && limit.is_idle(at(5_300)));
    assert_eq!(limit.available(rate, at(99_000)), 3, "what was not used does not add up");
}

#[test]
fn unused_units_can_be_released_until_the_next_take() {
    let rate = Rate::new(1, 5);
    let mut limit = Gcra::default();
    let first = limit.take(rate, at(0), 3);
    limit.release(rate, first, 2);
    assert_eq!(limit.available(rate, at(0)), 4);
    let early = limit.take(rate, at(0), 4);
    limit.take(rate, at(5_000), 5);
    limit.release(rate, early, 4);
    assert_eq!(limit.available(rate, at(5_000)), 0, "it would be more than a burst at once");
}

#[test]
fn the_highest_rate_still_has_an_interval() {
    let rate = Rate::by_the_second(u32::MAX);
    let mut limit = Gcra::default();
    limit.take(rate, at(0), u64::from(u32::MAX));
    assert_eq!(limit.available(rate, at(0)), 0);
    assert!(limit.available(rate, at(1)) > 4_000_000);
}

proptest! {
    /// No period takes more than the burst plus the rate for its length. After waiting for the returned
    /// time, one unit is available.
    #[test]
    fn no_window_sees_more_than_rate_and_burst(
        per_second in 1_u32..5_000,
        burst in 1_u32..200,
        steps in proptest::collection::vec((0_u64..300_000, 0_u64..300, 0_u64..300), 1..80),
    ) {
        let rate = Rate::new(per_second, burst);
        let mut limit = Gcra::default();
        let mut now = at(1_000);
        let mut used: Vec<(Duration, u64)> = Vec::new();
        for (wait_us, wanted, unused) in steps {
            now += Duration::from_micros(wait_us);
            let count = wanted.min(limit.available(rate, now));
            let mark = limit.take(rate, now, count);
            let unused = unused.min(count);
            limit.release(rate, mark, unused);
            used.push((now, count - unused));
            let next = now + limit.next_in(rate, now);
            prop_assert!(limit.available(rate, next) >= 1);
        }
        for from in 0..used.len() {
            let mut sum = 0;
            for (to, count) in &used[from..] {
                sum += count;
                let long = (*to - used[from].0).as_nanos();
                let worth = long * u128::from(per_second) / 1_000_000_000;
                prop_assert!(u128::from(sum) <= u128::from(burst) + worth + 1);
            }
        }
    }
}
