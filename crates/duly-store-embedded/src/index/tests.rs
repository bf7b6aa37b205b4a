use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

pub(super) const NAMESPACE: u32 = 3;

pub(super) fn key(n: u64) -> Key {
    Key::of_bytes(7, NAMESPACE, &n.to_le_bytes())
}

pub(super) fn entry(key: Key, at_ms: u64) -> Entry {
    let claim = Claimable { at_ms, kind: AttemptKind::First };
    Entry::new(key, 9, claim, location(at_ms))
}

fn location(n: u64) -> Location {
    Location::new(5, n % (1 << 24), 100)
}

pub(super) fn filled(keys: std::ops::Range<u64>) -> Index {
    let mut index = Index::new();
    for n in keys {
        index.put(entry(key(n), n));
    }
    index
}

impl Index {
    /// Panics unless all invariants hold.
    pub(super) fn check(&self) {
        self.check_made_at(self.len());
    }

    /// Panics unless all invariants hold, if the long tables had their last put at this length.
    pub(super) fn check_made_at(&self, len: usize) {
        match &self.0 {
            Root::One(table) => {
                table.check();
                assert!(table.len() <= TABLE_LEN_MAX);
            }
            Root::Many(directory) => {
                directory.check_made_at(len);
                assert!(directory.tables() > 1);
            }
        }
    }

    pub(super) fn tables(&self) -> usize {
        match &self.0 {
            Root::One(_) => 1,
            Root::Many(directory) => directory.tables(),
        }
    }
}

/// Performs a complete scan, and calls `between` before each step.
pub(super) fn pass(index: &mut Index, mut between: impl FnMut(&mut Index)) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut next = Some(Cursor::START);
    while let Some(cursor) = next {
        between(index);
        next = index.scan(cursor).and_then(|scan| {
            assert!(scan.next.is_none_or(|next| next > cursor), "a step gets on");
            found.extend(scan.entries());
            scan.next
        });
    }
    found
}

/// An operation on a range of keys.
#[derive(Debug, Clone, Copy)]
enum Step {
    Put,
    Remove,
    Relocate,
    Flag,
}

/// Ranges of up to 8,000 keys among 20,000.
fn steps() -> impl Strategy<Value = (Step, std::ops::Range<u64>)> {
    let step = prop_oneof![
        3 => Just(Step::Put),
        3 => Just(Step::Remove),
        1 => Just(Step::Relocate),
        1 => Just(Step::Flag),
    ];
    let range = (0_u64..20_000, prop_oneof![1_u64..20, 1_u64..20_000])
        .prop_map(|(from, more)| from..(from + more).min(20_000));
    (step, range)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_like_a_map_through_growth_and_shrinking(
        steps in prop::collection::vec(steps(), 1..16),
    ) {
        let mut index = Index::new();
        let mut model: HashMap<u64, Entry> = HashMap::new();
        for (at_ms, (step, range)) in (0..).zip(steps) {
            for n in range {
                match step {
                    Step::Put => {
                        let new = entry(key(n), at_ms);
                        assert_eq!(index.put(new), model.insert(n, new));
                    }
                    Step::Remove => assert_eq!(index.remove(key(n)), model.remove(&n)),
                    Step::Relocate => {
                        // Every third relocation names a wrong place.
                        let old = model.get(&n).map_or(location(0), Entry::location);
                        let from = if n % 3 == 0 { Location::new(6, 1, 1) } else { old };
                        let to = location(at_ms + 100);
                        let there = model.get_mut(&n).filter(|held| held.location() == from);
                        assert_eq!(index.relocate(key(n), from, to).is_some(), there.is_some());
                        there.into_iter().for_each(|held| *held = held.at(to));
                    }
                    Step::Flag => {
                        let flags = if n % 2 == 0 { Flags::LEASED } else { Flags::EXPIRES };
                        let held = model.get_mut(&n);
                        assert_eq!(index.set_flags(key(n), flags), held.is_some());
                        held.into_iter().for_each(|held| *held = held.with_flags(flags));
                    }
                }
                assert_eq!(index.len(), model.len());
            }
            index.check();
        }
        for n in 0..20_000 {
            prop_assert_eq!(index.get(key(n)), model.get(&n).copied());
        }
        prop_assert_eq!(index.is_empty(), model.is_empty());
        prop_assert!(!model.is_empty() || index.heap_bytes() == 0);
        let mut expected: Vec<_> = model.into_values().collect();
        expected.sort_by_key(Entry::low);
        prop_assert_eq!(pass(&mut index, |_| ()), expected);
    }

    #[test]
    fn a_scan_visits_each_staying_entry_exactly_once(
        stays in 1_u64..6_000,
        before in 0_u64..20_000,
        changes in prop::collection::vec(steps(), 1..12),
    ) {
        const STRANGERS: u64 = 1 << 32;
        let mut index = filled(0..stays);
        for n in 0..before {
            index.put(entry(key(STRANGERS + n), n));
        }
        let mut changes = changes.into_iter();
        let found = pass(&mut index, |index| {
            for (step, range) in changes.by_ref().take(1) {
                for n in range {
                    match step {
                        Step::Put => drop(index.put(entry(key(STRANGERS + n), n))),
                        Step::Remove => drop(index.remove(key(STRANGERS + n))),
                        Step::Relocate | Step::Flag => {
                            index.set_flags(key(n), Flags::COUNTED_DUE);
                            index.relocate(key(n), location(n), location(n));
                        }
                    }
                }
                index.check();
            }
        });
        let mut seen = HashMap::new();
        for entry in &found {
            *seen.entry(entry.fingerprint().low).or_insert(0) += 1;
        }
        for n in 0..stays {
            prop_assert_eq!(seen.get(&key(n).fingerprint().low), Some(&1), "{}", n);
        }
        prop_assert!(found.is_sorted_by(|a, b| a.low() < b.low()), "in order, each once");
    }
}

#[test]
fn a_scan_survives_splits_and_merges() {
    let mut index = filled(0..3_000);
    let mut fresh = 1_000_000;
    let mut tables = vec![];
    let grown = pass(&mut index, |index| {
        for _ in 0..(if fresh < 1_100_000 { 10_000 } else { 0 }) {
            index.put(entry(key(fresh), 1));
            fresh += 1;
        }
        tables.push(index.tables());
    });
    assert!(tables.is_sorted() && tables.len() > 20 && index.tables() > 40, "{tables:?}");
    let met = |found: &[Entry]| {
        let mut met = BTreeMap::new();
        found.iter().for_each(|e| *met.entry(e.key(NAMESPACE)).or_insert(0) += 1);
        (0..3_000).all(|n| met.get(&key(n)) == Some(&1))
    };
    assert!(met(&grown));
    tables.clear();
    let shrunk = pass(&mut index, |index| {
        for _ in 0..(if fresh > 1_000_000 { 10_000 } else { 0 }) {
            fresh -= 1;
            index.remove(key(fresh));
        }
        tables.push(index.tables());
    });
    assert!(met(&shrunk));
    assert!(tables.is_sorted_by(|a, b| a >= b) && tables.len() > 4, "{tables:?}");
    assert_eq!(index.len(), 3_000);
    index.check();
}

#[test]
fn an_empty_index_owns_nothing_and_has_nothing_to_scan() {
    assert!(size_of::<Index>() <= 56, "{} bytes", size_of::<Index>());
    let mut index = Index::new();
    assert_eq!((index.heap_bytes(), index.len()), (0, 0));
    assert!(index.scan(Cursor::START).is_none());
    assert_eq!(index.get(key(1)), None);
    assert_eq!(index.remove(key(1)), None);
    assert!(!index.set_flags(key(1), Flags::LEASED));
    assert!(index.relocate(key(1), location(1), location(2)).is_none());
    index = filled(0..20_000);
    (0..20_000).for_each(|n| assert!(index.remove(key(n)).is_some()));
    assert_eq!((index.heap_bytes(), index.len()), (0, 0));
    assert!(index.scan(Cursor::START).is_none());
}

#[test]
fn an_entry_costs_at_most_34_bytes_however_many_there_are() {
    let mut index = Index::new();
    let mut tiny = vec![];
    for n in 0..1_000_000 {
        index.put(entry(key(n), n));
        let len = index.len();
        match len {
            1 | 2 | 3 | 4 | 10 => tiny.push(index.heap_bytes()),
            1_000 | 100_000 | 1_000_000 => {
                let per_entry = index.heap_bytes() / len;
                assert!((24..=34).contains(&per_entry), "{per_entry} bytes at {len}");
            }
            _ => {}
        }
    }
    assert_eq!(tiny, [48, 48, 72, 96, 312]);
    index.check();
}

/// Keys whose fingerprints begin with the same 20 bits.
fn crowded(n: u64) -> Key {
    let low = 0xABCD_E000_0000_0000 | key(n).fingerprint().low >> 20;
    Key::from_parts(Fingerprint { low, high: 0 }, NAMESPACE)
}

#[test]
fn similar_fingerprints_make_a_long_table() {
    let mut index = Index::new();
    for n in 0..6_000 {
        assert_eq!(index.put(entry(crowded(n), n)), None);
    }
    index.check();
    assert!(index.heap_bytes() < 6_000 * 24 * 4, "{} bytes", index.heap_bytes());
    let Root::Many(directory) = &index.0 else { panic!("more than one table") };
    assert!(directory.depth() <= 8, "{} bits", directory.depth());
    assert!((0..6_000).all(|n| index.get(crowded(n)) == Some(entry(crowded(n), n))));
    // Other entries beside it come and go.
    for n in 0..50_000 {
        index.put(entry(key(n), n));
    }
    index.check();
    for n in 0..6_000 {
        assert!(index.remove(crowded(n)).is_some());
    }
    index.check();
    assert_eq!(pass(&mut index, |_| ()).len(), 50_000);
}

#[test]
fn a_long_table_is_split_fully_when_the_depth_allows() {
    // All keys are in the first 512th.
    let low = |n: u64| key(n).fingerprint().low >> 9;
    let first = |n| Key::from_parts(Fingerprint { low: low(n), high: 0 }, NAMESPACE);
    let mut index = Index::new();
    for n in 0..12_000 {
        index.put(entry(first(n), n));
    }
    index.check();
    let elsewhere = |n: &u64| key(*n).fingerprint().low > 1 << 57;
    (0..60_000).filter(elsewhere).for_each(|n| assert_eq!(index.put(entry(key(n), n)), None));
    let tables = index.tables();
    index.put(entry(first(12_000), 1));
    assert!(index.tables() > tables + 3, "more than one split");
    index.check();
}

#[test]
fn uneven_tables_merge_only_with_their_other_half() {
    let mut index = Index::new();
    for n in 0..3_000 {
        index.put(entry(crowded(n), n));
    }
    for n in 0..500 {
        index.put(entry(key(n), n));
        index.check();
    }
    for n in 0..500 {
        assert!(index.remove(key(n)).is_some());
        index.check();
    }
    for n in 0..3_000 {
        assert!(index.remove(crowded(n)).is_some());
        if n % 50 == 0 || n > 2_400 {
            index.check();
        }
    }
    assert_eq!(index.heap_bytes(), 0);
}
