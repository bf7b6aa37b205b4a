use proptest::prelude::*;

use super::*;
use crate::index::{
    Cursor, Key,
    key::Fingerprint,
    tests::{NAMESPACE, entry, filled, key, pass},
};

fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(Entry::low);
    entries
}

fn loaded(announced: usize, entries: &[Entry]) -> Index {
    let mut loader = Index::load(announced);
    entries.iter().for_each(|entry| loader.push(*entry));
    let index = loader.finish();
    index.check_made_at(announced.min(entries.len()));
    index
}

fn put(entries: &[Entry]) -> Index {
    let mut index = Index::new();
    for entry in entries {
        index.put(*entry);
    }
    index
}

/// Panics unless the two hold the same entries in tables of the same spans.
fn assert_alike(loaded: &mut Index, put: &mut Index) {
    assert_eq!((loaded.len(), loaded.tables()), (put.len(), put.tables()));
    assert_eq!(loaded.is_empty(), loaded.heap_bytes() == 0);
    assert!(pass(loaded, |_| ()) == pass(put, |_| ()), "the same entries in the same order");
    let (mut one, mut other) = (Some(Cursor::START), Some(Cursor::START));
    while let Some(cursor) = one {
        assert_eq!(one, other, "the same spans");
        one = loaded.scan(cursor).and_then(|scan| scan.next);
        other = put.scan(cursor).and_then(|scan| scan.next);
    }
}

fn bytes_per_entry(index: &Index) -> f64 {
    index.heap_bytes() as f64 / index.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_loaded_index_equals_a_built_one_for_any_announced_length(
        len in prop_oneof![0_u64..20, 2_040_u64..2_060, 0_u64..20_000],
        percent in 0_usize..300,
        more in 0_u64..3_000,
    ) {
        let entries = in_order((0..len).map(|n| entry(key(n), n)).collect());
        let mut index = loaded(len as usize * percent / 100, &entries);
        assert_alike(&mut index, &mut put(&entries));
        // It continues like any other index.
        for n in len / 2..len + more {
            prop_assert_eq!(index.put(entry(key(n), 1)).is_some(), n < len);
        }
        index.check();
        for n in 0..len + more {
            prop_assert!(index.remove(key(n)).is_some());
        }
        prop_assert_eq!(index.heap_bytes(), 0);
    }

    #[test]
    fn uneven_prefixes_are_loaded_into_the_spans_that_puts_lead_to(
        even in 0_u64..8_000,
        crowds in prop::collection::vec((0_u32..40, 0_u64..4_000), 1..4),
        percent in 50_usize..200,
    ) {
        let crowd = |(bits, len): (u32, u64)| (0..len).map(move |n| {
            let Fingerprint { low, high } = key(u64::from(bits) << 32 | n).fingerprint();
            let prefix = key(u64::from(bits)).fingerprint().low;
            let low = prefix & !(u64::MAX >> bits) | low >> bits;
            entry(Key::from_parts(Fingerprint { low, high }, NAMESPACE), n)
        });
        let all = (0..even).map(|n| entry(key(n), n)).chain(crowds.into_iter().flat_map(crowd));
        let entries = in_order(all.collect());
        let mut index = loaded(entries.len() * percent / 100, &entries);
        let mut shuffled = entries.clone();
        shuffled.sort_by_key(|entry| entry.low().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut expected = put(&shuffled);
        // The last put into a crowded span is in the later half of all puts.
        expected.check_made_at(expected.len() / 2);
        prop_assert_eq!(index.len(), expected.len());
        prop_assert!(pass(&mut index, |_| ()) == pass(&mut expected, |_| ()));
    }

    #[test]
    fn entries_out_of_order_are_put_where_they_belong(
        len in 1_u64..12_000,
        late in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..13_000), 1..20),
    ) {
        let mut entries = in_order((0..len).map(|n| entry(key(n), n)).collect());
        for (at, n) in late {
            entries.insert(at.index(entries.len() + 1), entry(key(n), n + 50_000));
        }
        // The last entry of each key counts.
        let mut index = loaded(len as usize, &entries);
        let mut expected = put(&entries);
        prop_assert!(pass(&mut index, |_| ()) == pass(&mut expected, |_| ()));
    }
}

#[test]
fn one_early_entry_only_makes_the_others_late() {
    let mut entries = in_order((0..30_000).map(|n| entry(key(n), n)).collect());
    entries.rotate_right(1);
    assert_alike(&mut loaded(30_000, &entries), &mut put(&entries));
    entries.reverse();
    assert_alike(&mut loaded(30_000, &entries), &mut put(&entries));
}

#[test]
fn entries_of_one_position_are_all_loaded() {
    let of = |high, at_ms| entry(Key::from_parts(Fingerprint { low: 77, high }, NAMESPACE), at_ms);
    let entries: Vec<_> = (0..200).map(|high| of(high, 1)).chain([of(5, 2), of(9, 3)]).collect();
    let index = loaded(0, &entries);
    assert_eq!(index.len(), 200);
    assert_eq!(index.get(of(5, 0).key(NAMESPACE)), Some(of(5, 2)));
    assert_eq!(index.get(of(9, 0).key(NAMESPACE)), Some(of(9, 3)));
}

#[test]
fn a_loaded_index_takes_no_more_memory_than_one_that_has_grown() {
    for len in [1_000, 2_049, 10_000, 100_000, 300_000] {
        let entries = in_order((0..len).map(|n| entry(key(n), n)).collect());
        let grown = bytes_per_entry(&filled(0..len));
        for announced in [len / 2, len, len * 2] {
            let loaded = bytes_per_entry(&loaded(announced as usize, &entries));
            assert!((24.0..33.0).contains(&loaded), "{loaded} bytes at {len}");
            assert!(loaded < grown + 1.5, "{loaded} bytes at {len}, {grown} by puts");
        }
    }
}
