use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::index::span::position;
use crate::index::{AttemptKind, Claimable, Key, Location};

impl Table {
    /// Panics unless all invariants hold.
    pub(in crate::index) fn check(&self) {
        let (start, end) = (self.span.start(), self.span.end());
        let mut before = 0;
        let mut entries = 0;
        let mut run_start = 0;
        for (place, entry) in self.slots.iter().enumerate() {
            if entry.is_empty() {
                run_start = place + 1;
                continue;
            }
            let position = entry.position();
            assert!(before <= entry.low(), "in order");
            assert!(start <= position, "within its span");
            assert!(end.is_none_or(|end| position < end), "within its span");
            let home = self.home(entry.low());
            assert!(home <= place, "not before its home");
            assert!(run_start <= home, "no gap to its home");
            before = entry.low();
            entries += 1;
        }
        assert_eq!(entries, self.len());
    }
}

fn key(low: u64, high: u8) -> Key {
    Key::from_parts(Fingerprint { low, high }, 3)
}

fn get(table: &Table, key: Key) -> Option<Entry> {
    table.find(key.fingerprint()).ok().map(|place| *table.at(place))
}

fn remove(table: &mut Table, key: Key) -> Option<Entry> {
    table.find(key.fingerprint()).ok().map(|place| table.remove(place))
}

fn entry(low: u64, high: u8, at_ms: u64) -> Entry {
    let claim = Claimable { at_ms, kind: AttemptKind::First };
    Entry::new(key(low, high), 9, claim, Location::new(5, 77, 100))
}

/// Spreads numbers evenly, in no order.
const fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Positions of all sorts: spread evenly, crowded in a few places, at the ends.
fn positions() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u64..60).prop_map(spread),
        (0_u64..8).prop_map(|n| 1 << 40 | n),
        (0_u64..8).prop_map(|n| u64::MAX - n),
        (0_u64..4),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map_and_stays_in_order_however_crowded(
        steps in prop::collection::vec((positions(), 0_u8..4, 0_u8..5), 1..400),
        from in positions(),
    ) {
        let mut table = Table::new(Span::default());
        let mut model = BTreeMap::new();
        for (at_ms, (low, high, what)) in (0..).zip(steps) {
            let old = if what < 3 {
                let old = table.put(&entry(low, high, at_ms));
                prop_assert_eq!(old, model.insert((low, high), entry(low, high, at_ms)));
                old
            } else {
                let old = remove(&mut table, key(low, high));
                prop_assert_eq!(old, model.remove(&(low, high)));
                old
            };
            prop_assert!(old.is_none_or(|old| old.fingerprint() == key(low, high).fingerprint()));
            table.check();
            prop_assert_eq!(table.len(), model.len());
        }
        for (low, high) in model.keys().copied() {
            let found = get(&table, key(low, high));
            prop_assert_eq!(found, model.get(&(low, high)).copied());
        }
        let mut scanned: Vec<_> = table.from(position(from)).collect();
        scanned.sort_by_key(|entry| (entry.low(), entry.fingerprint().high));
        let expected: Vec<_> = model
            .values()
            .copied()
            .filter(|entry| entry.position() >= position(from))
            .collect();
        prop_assert_eq!(scanned, expected);
    }

    #[test]
    fn halves_hold_what_the_whole_did_and_merge_to_it_again(
        all in prop::collection::btree_set((positions(), 0_u8..4), 0..200),
    ) {
        let mut table = Table::new(Span::default());
        for (low, high) in &all {
            table.put(&entry(*low, *high, 1));
        }
        let before: Vec<_> = table.iter().collect();
        let (first, second) = table.split();
        first.check();
        second.check();
        prop_assert!(first.iter().chain(second.iter()).eq(before.iter().copied()));
        let merged = Table::merged(table.span(), &first, &second);
        merged.check();
        prop_assert!(merged.iter().eq(before));
    }
}

#[test]
fn entries_of_one_position_are_told_apart() {
    let mut table = Table::new(Span::default());
    for high in 0..=255 {
        assert_eq!(table.put(&entry(u64::MAX, high, u64::from(high))), None);
    }
    table.check();
    assert!(table.heap_bytes() < 256 * 24 * 8, "{} bytes", table.heap_bytes());
    for high in (0..=255).rev() {
        let found = get(&table, key(u64::MAX, high));
        assert_eq!(found, Some(entry(u64::MAX, high, u64::from(high))));
    }
    assert_eq!(table.from(position(u64::MAX)).count(), 256);
    assert_eq!(get(&table, key(u64::MAX - 1, 0)), None);
}

#[test]
fn a_table_grows_in_small_steps_and_shrinks_again() {
    let mut table = Table::new(Span::default());
    assert_eq!(table.heap_bytes(), 0, "an empty table owns nothing");
    let mut before = 0;
    for n in 0..5_000 {
        table.put(&entry(spread(n), 0, n));
        let now = table.heap_bytes();
        assert!(before < 400 || now <= before / 4 * 5 + 24, "{before} to {now} bytes at {n}");
        before = now;
    }
    let per_entry = before / 5_000;
    assert!((24..=34).contains(&per_entry), "{per_entry} bytes an entry");
    for n in 0..4_990 {
        remove(&mut table, key(spread(n), 0));
        assert!(table.len() < 10 || table.heap_bytes() <= table.len() * 24 * 3 + 24);
    }
    assert!(table.heap_bytes() <= 30 * 24, "{} bytes for 10 entries", table.heap_bytes());
    table.check();
    assert!((4_990..5_000).all(|n| remove(&mut table, key(spread(n), 0)).is_some()));
    assert_eq!(table.heap_bytes(), 0, "an empty table owns nothing again");
}

#[test]
fn capacities_fill_the_size_classes() {
    for slots in 1..5_000 {
        let rounded = rounded(slots);
        assert!(rounded >= slots && larger(rounded) > rounded);
        // Four classes a doubling, never more than a slot short of one.
        let step = (rounded * 24).next_power_of_two() / 8;
        assert!(rounded < 6 || (rounded * 24).next_multiple_of(step) - rounded * 24 < 24);
        assert!(slots < 6 || rounded * 4 <= slots * 5 + 4);
    }
    for len in 1..5_000 {
        assert!(len_max(slots_for(len)) >= len, "{len} entries have room");
    }
}
