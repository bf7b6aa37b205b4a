//! Tests of edge cases by table, dense buckets, the bag alone, and random histories against a plain
//! model (`model`).

mod bag;
mod model;

use super::Calendar;

/// 2200-01-01T00:00:00Z.
const YEAR_2200_MS: u64 = 7_258_118_400_000;

/// A time in the middle of an era, like real due times.
const NOW_MS: u64 = 1_790_000_000_000;

const SECOND_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400 * SECOND_MS;

fn calendar_of(dues_ms: &[u64]) -> Calendar<usize> {
    let mut calendar = Calendar::new();
    for (value, &due_ms) in dues_ms.iter().enumerate() {
        calendar.insert(due_ms, value);
    }
    calendar
}

/// Returns all due times popped at `now_ms`, in calls of `limit`.
fn drain<T: Copy>(calendar: &mut Calendar<T>, now_ms: u64, limit: usize) -> Vec<u64> {
    let mut out = Vec::new();
    while calendar.pop_due(now_ms, limit, &mut out) {}
    out.into_iter().map(|(due_ms, _)| due_ms).collect()
}

#[track_caller]
fn check_pop(dues_ms: &[u64], now_ms: u64, popped_ms: &[u64], next_due_ms: Option<u64>) {
    for limit in [1, 2, 1000] {
        let mut calendar = calendar_of(dues_ms);
        assert_eq!(calendar.next_due(), dues_ms.iter().min().copied());
        assert_eq!(drain(&mut calendar, now_ms, limit), popped_ms);
        assert_eq!(calendar.next_due(), next_due_ms);
        assert_eq!(calendar.len(), dues_ms.len() - popped_ms.len());
    }
}

#[test]
fn a_due_time_is_reached_at_its_own_millisecond_and_not_before() {
    let boundaries = [1, 256, 1 << 16, 1 << 24, 1 << 32, SECOND_MS, DAY_MS];
    for width_ms in boundaries {
        let tick_ms = (NOW_MS / width_ms + 1) * width_ms;
        let dues_ms = [tick_ms + 1, tick_ms, tick_ms - 1];
        check_pop(&dues_ms, tick_ms - 2, &[], Some(tick_ms - 1));
        check_pop(&dues_ms, tick_ms - 1, &[tick_ms - 1], Some(tick_ms));
        check_pop(&dues_ms, tick_ms, &[tick_ms - 1, tick_ms], Some(tick_ms + 1));
        let all = [tick_ms - 1, tick_ms, tick_ms + 1];
        check_pop(&dues_ms, tick_ms + 1, &all, None);
    }
}

#[test]
fn extreme_values_are_ordinary() {
    check_pop(&[0], 0, &[0], None);
    check_pop(&[1], 0, &[], Some(1));
    check_pop(&[YEAR_2200_MS], YEAR_2200_MS - 1, &[], Some(YEAR_2200_MS));
    check_pop(&[YEAR_2200_MS], YEAR_2200_MS, &[YEAR_2200_MS], None);
    check_pop(&[u64::MAX], u64::MAX - 1, &[], Some(u64::MAX));
    let all = [u64::MAX, YEAR_2200_MS, 0, NOW_MS, u64::MAX - 1];
    let sorted = [0, NOW_MS, YEAR_2200_MS, u64::MAX - 1, u64::MAX];
    check_pop(&all, u64::MAX, &sorted, None);
    check_pop(&all, YEAR_2200_MS, &sorted[..3], Some(u64::MAX - 1));
}

#[test]
fn preparing_at_the_ends_of_time_does_not_overflow() {
    for base_ms in [0, u64::MAX - 1_999] {
        let dues_ms: Vec<u64> = (0..2_000).map(|i| base_ms + i).collect();
        for now_ms in [0, base_ms, u64::MAX] {
            let mut calendar = calendar_of(&dues_ms);
            while calendar.prepare(now_ms, 100) {}
            assert_eq!(drain(&mut calendar, u64::MAX, 7), dues_ms);
        }
    }
}

#[test]
fn a_short_timer_behind_a_long_one_and_the_reverse() {
    let (near_ms, far_ms) = (NOW_MS + SECOND_MS, NOW_MS + 800 * DAY_MS);
    for dues_ms in [[far_ms, near_ms], [near_ms, far_ms]] {
        check_pop(&dues_ms, near_ms, &[near_ms], Some(far_ms));
        check_pop(&dues_ms, far_ms, &[near_ms, far_ms], None);
    }
}

#[test]
fn an_empty_calendar_has_nothing_and_holds_nothing() {
    let mut calendar: Calendar<u8> = Calendar::new();
    let mut out = Vec::new();
    assert!(!calendar.pop_due(u64::MAX, 10, &mut out));
    assert!(!calendar.prepare(u64::MAX, 10));
    assert!(out.is_empty());
    assert_eq!((calendar.next_due(), calendar.len()), (None, 0));
    assert!(calendar.is_empty());
    assert_eq!(calendar.heap_bytes(), 0);
}

#[test]
fn limit_zero_only_checks_and_out_is_only_appended_to() {
    let mut calendar = calendar_of(&[5, 5, 6]);
    let mut out = vec![(1, 99)];
    assert!(!calendar.pop_due(4, 0, &mut out));
    assert!(calendar.pop_due(5, 0, &mut out));
    assert_eq!(out, [(1, 99)]);
    assert!(calendar.pop_due(6, 2, &mut out));
    assert_eq!((out.len(), out[0]), (3, (1, 99)));
    assert!(!calendar.pop_due(6, 1, &mut out));
    assert_eq!(out[3], (6, 2));
}

#[test]
fn clock_step_back_pops_nothing_later_than_now() {
    let dues_ms: Vec<u64> = (0..1_000).map(|i| NOW_MS + i * 10).collect();
    let mut calendar = calendar_of(&dues_ms);
    let mut out = Vec::new();
    assert!(calendar.pop_due(NOW_MS + 5_000, 100, &mut out));
    assert_eq!(calendar.next_due(), Some(NOW_MS + 1_000));

    out.clear();
    assert!(!calendar.pop_due(NOW_MS + 999, 100, &mut out));
    assert!(out.is_empty());
    assert!(!calendar.prepare(NOW_MS - 40 * DAY_MS, usize::MAX));
    calendar.insert(NOW_MS - 3, 7);
    assert_eq!(drain(&mut calendar, NOW_MS + 999, 10), [NOW_MS - 3]);
    assert_eq!(drain(&mut calendar, u64::MAX, 10), dues_ms[100..]);
}

#[test]
fn jump_of_decades_pops_in_order_and_spreads_only_due_buckets() {
    // One entry per 4 hours for 33 years: each era is big enough to be spread.
    let dues_ms: Vec<u64> = (0..72_000).map(|i| NOW_MS + i * 4 * 3_600_000).collect();
    let mut calendar = calendar_of(&dues_ms);
    let bytes = calendar.heap_bytes();
    let mut out = Vec::new();
    let later_ms = NOW_MS + 60 * 365 * DAY_MS;
    while calendar.prepare(later_ms, 1_000) {}
    assert!(calendar.pop_due(later_ms, 100, &mut out));
    assert!(calendar.heap_bytes() < bytes + bytes / 10);
    assert_eq!(out.len(), 100);
    assert_eq!(out[99].0, dues_ms[99]);
    assert_eq!(drain(&mut calendar, later_ms, 999), dues_ms[100..]);
}

#[test]
fn inserts_around_a_partly_popped_bucket_stay_in_order() {
    // 20 000 in one second: the bucket is spread when it becomes current.
    let dues_ms: Vec<u64> = (0..20_000).map(|i| NOW_MS + i % SECOND_MS).collect();
    let mut calendar = calendar_of(&dues_ms);
    let now_ms = NOW_MS + SECOND_MS;
    let mut out = Vec::new();
    assert!(calendar.pop_due(now_ms, 10_010, &mut out));
    let position_ms = out[10_009].0;
    assert_eq!(position_ms, NOW_MS + 500);

    let late_ms = [0, NOW_MS - DAY_MS, NOW_MS, position_ms, position_ms + 1, now_ms, now_ms + 1];
    for due_ms in late_ms {
        calendar.insert(due_ms, 1);
    }
    let mut expected_ms: Vec<u64> = dues_ms.iter().copied().filter(|&d| d > position_ms).collect();
    expected_ms.extend([position_ms; 10]);
    expected_ms.extend(&late_ms[..6]);
    expected_ms.sort_unstable();
    assert_eq!(drain(&mut calendar, now_ms, 100), expected_ms);
    assert_eq!(calendar.next_due(), Some(now_ms + 1));
}

#[test]
fn a_bucket_that_is_half_spread_stays_exact() {
    let dues_ms: Vec<u64> = (0..30_000).rev().map(|i| NOW_MS + i * 60_000).collect();
    let mut calendar = calendar_of(&dues_ms);
    // The entries inserted last are the earliest due, and are spread first.
    assert!(calendar.prepare(NOW_MS, 5_000));
    assert_eq!(calendar.next_due(), Some(NOW_MS));
    let mut out = Vec::new();
    assert!(!calendar.pop_due(NOW_MS + 120_000, 10, &mut out));
    assert_eq!(out.len(), 3);
    for due_ms in [NOW_MS + 29_999 * 60_000, NOW_MS + 1, NOW_MS - 1] {
        calendar.insert(due_ms, 1);
    }
    assert_eq!(calendar.next_due(), Some(NOW_MS - 1));
    assert!(calendar.prepare(NOW_MS, 5_000));

    let mut expected_ms: Vec<u64> = dues_ms[..29_997].to_vec();
    expected_ms.extend([NOW_MS + 29_999 * 60_000, NOW_MS + 1, NOW_MS - 1]);
    expected_ms.sort_unstable();
    assert_eq!(drain(&mut calendar, u64::MAX, 1_000), expected_ms);
}

#[test]
fn preparing_keeps_to_its_budget_and_comes_to_an_end() {
    const ENTRIES: u64 = 100_000;
    let dues_ms: Vec<u64> = (0..ENTRIES).map(|i| NOW_MS + i * 1_000).collect();
    let mut calendar = calendar_of(&dues_ms);
    assert!(calendar.prepare(NOW_MS, 0));
    let mut calls = 0;
    while calendar.prepare(NOW_MS, 1_000) {
        calls += 1;
    }
    assert!((60..500).contains(&calls), "{calls} calls");
    assert!(!calendar.prepare(NOW_MS, 0));
    assert_eq!(drain(&mut calendar, u64::MAX, 1_000), dues_ms);
}

#[test]
fn a_bucket_far_ahead_is_left_whole() {
    let dues_ms: Vec<u64> = (0..10_000).map(|i| NOW_MS + 200 * DAY_MS + i * 1_000).collect();
    let mut calendar = calendar_of(&dues_ms);
    assert!(!calendar.prepare(NOW_MS, 0));
    assert!(calendar.prepare(NOW_MS + 200 * DAY_MS, 0));
}

#[test]
fn only_near_buckets_are_spread() {
    let dues_ms: Vec<u64> = (0..100_000).map(|i| NOW_MS + i * 10_000).collect();
    let mut calendar = calendar_of(&dues_ms);
    let bytes = calendar.heap_bytes();
    while calendar.prepare(NOW_MS, 1_000) {}
    assert!(calendar.heap_bytes() < bytes + bytes / 10);
}

#[test]
fn a_million_in_one_millisecond() {
    const ENTRIES: usize = 1_000_000;
    let mut calendar = Calendar::new();
    for value in 0..ENTRIES {
        calendar.insert(NOW_MS, value);
    }
    // Other entries of the same era, so that the bucket is spread around the hot millisecond.
    calendar.insert(NOW_MS - 1, ENTRIES);
    calendar.insert(NOW_MS + 1, ENTRIES + 1);
    calendar.insert(NOW_MS + DAY_MS, ENTRIES + 2);

    let mut seen = vec![false; ENTRIES + 2];
    let mut last_ms = 0;
    let mut out = Vec::new();
    loop {
        out.clear();
        let more = calendar.pop_due(NOW_MS + 1, 10_000, &mut out);
        for &(due_ms, value) in &out {
            assert!(due_ms >= last_ms);
            assert!(!std::mem::replace(&mut seen[value], true), "{value} twice");
            last_ms = due_ms;
        }
        if !more {
            break;
        }
        assert_eq!(out.len(), 10_000);
    }
    assert!(seen.iter().all(|&seen| seen));
    assert_eq!((calendar.len(), calendar.next_due()), (1, Some(NOW_MS + DAY_MS)));
    assert!(calendar.heap_bytes() < 16 * 1024);
}

#[test]
fn drained_buckets_give_their_memory_back() {
    let mut calendar = Calendar::new();
    for i in 0..200_000 {
        calendar.insert(NOW_MS + (i * 7_919) % (30 * DAY_MS), [0_u8; 12]);
    }
    let full_bytes = calendar.heap_bytes();
    let mut out = Vec::new();
    calendar.pop_due(u64::MAX, 150_000, &mut out);
    assert!(calendar.heap_bytes() < full_bytes * 2 / 5);
    calendar.pop_due(u64::MAX, 50_000, &mut out);
    assert_eq!((out.len(), calendar.heap_bytes()), (200_000, 0));
}

#[test]
fn an_entry_costs_its_size_and_a_little() {
    for spread_days in [1, 30, 50 * 365] {
        let mut calendar = Calendar::new();
        for i in 0..300_000 {
            let offset_ms = i * 2_654_435_761 % (spread_days * DAY_MS);
            calendar.insert(NOW_MS + offset_ms, [0_u8; 12]);
        }
        let bytes = calendar.heap_bytes() / calendar.len();
        assert!((16..=26).contains(&bytes), "{bytes} B over {spread_days} days");
    }
}

#[test]
fn clear_releases_everything() {
    let mut calendar = calendar_of(&[1, 2, YEAR_2200_MS]);
    calendar.clear();
    assert!(calendar.is_empty());
    assert_eq!((calendar.next_due(), calendar.heap_bytes()), (None, 0));
    calendar.insert(3, 0);
    assert_eq!(calendar.next_due(), Some(3));
}
