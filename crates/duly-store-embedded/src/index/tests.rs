use std::collections::HashMap;

use proptest::prelude::*;

use super::{
    entry::{Claimable, Kind, NAMESPACE_MAX},
    *,
};

fn key(n: u64) -> Key {
    Key::of(7, 3, &n.to_string())
}

fn entry(key: Key, due: u64) -> Entry {
    Entry::new(key, 9, Claimable { at_ms: due, kind: Kind::First }, Location::new(5, 77, 100))
}

#[test]
fn an_entry_is_24_bytes_and_gives_back_what_it_holds() {
    assert_eq!(size_of::<Entry>(), 24);
    let check = |namespace, lane, at_ms, kind, location: Location| {
        let key = Key::of(1, namespace, "x");
        let entry = Entry::new(key, lane, Claimable { at_ms, kind }, location);
        assert_eq!((entry.key(), entry.lane(), entry.location()), (key, lane, location));
        assert_eq!(entry.claimable(), Claimable { at_ms, kind });
        assert_eq!(entry.key().namespace(), namespace);
        assert!(!entry.is_empty());
    };
    check(0, 0, 0, Kind::First, Location::new(0, 0, 0));
    let last = Location::new(u16::MAX, (1 << 24) - 1, u64::MAX);
    check(NAMESPACE_MAX, 255, duly_core::Timestamp::MAX.unix_ms(), Kind::Retry, last);
}

#[test]
fn keys_pack_and_unpack() {
    let key = Key::of(u128::MAX, NAMESPACE_MAX, "…");
    assert_eq!(Key::unpack(key.pack()), key);
    assert_ne!(Key::of(1, 1, "a"), Key::of(1, 2, "a"));
    assert_ne!(Key::of(1, 1, "a"), Key::of(2, 1, "a"));
}

#[test]
fn size_classes_cover_the_record() {
    for bytes in [1, 64, 65, 128, 129, 4096, 1 << 20] {
        assert!(Location::new(0, 0, bytes).bytes_max() >= bytes, "{bytes}");
    }
}

proptest! {
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec((0_u64..200, 0_u8..3, 1_u64..1000), 1..600)) {
        let mut index = Index::new();
        let mut model: HashMap<u64, u64> = HashMap::new();
        for (n, what, due) in steps {
            match what {
                0 | 1 => {
                    let old = index.put(entry(key(n), due)).map(|e| e.claimable().at_ms);
                    prop_assert_eq!(old, model.insert(n, due));
                }
                _ => {
                    let old = index.remove(key(n)).map(|e| e.claimable().at_ms);
                    prop_assert_eq!(old, model.remove(&n));
                }
            }
            prop_assert_eq!(index.len(), model.len());
        }
        for n in 0..200 {
            prop_assert_eq!(index.get(key(n)).map(|e| e.claimable().at_ms), model.get(&n).copied());
        }
        let walked = (0..TABLES).flat_map(|t| index.table(t)).count();
        prop_assert_eq!(walked, model.len());
    }

    #[test]
    fn one_table_survives_crowding(steps in prop::collection::vec((0_u64..60, prop::bool::ANY), 1..400)) {
        let mut table = table::Table::default();
        let mut model: HashMap<u64, u64> = HashMap::new();
        for (i, (n, put)) in steps.into_iter().enumerate() {
            let due = i as u64;
            if put {
                prop_assert_eq!(table.put(entry(key(n), due)).is_some(), model.insert(n, due).is_some());
            } else {
                prop_assert_eq!(table.remove(key(n)).is_some(), model.remove(&n).is_some());
            }
            for m in 0..60 {
                prop_assert_eq!(table.get(key(m)).map(|e| e.claimable().at_ms), model.get(&m).copied());
            }
        }
    }
}

#[test]
fn the_bits_of_an_entry_are_the_documented_ones() {
    let key = Key::unpack([1, 2, 3, 4, 5, 6, 7, 8, 0xAA, 0xBB, 0xCC, 0xFE]);
    assert_eq!(key.namespace(), 0x00CC_BBAA);
    let claim = Claimable { at_ms: 0x0677_7777_7777, kind: Kind::Retry };
    let location = Location::new(0x1234, 0x0056_789A, 64 << 11);
    let entry = Entry::new(key, 0xCD, claim, location);
    let words = [
        0x0807_0605_0403_0201,
        0xFE << 56 | 0x00CC_BBAA << 32 | 0xCD << 24 | 0x0056_789A,
        0x0677_7777_7777 << 21 | 1 << 20 | 0x1234 << 4 | 11,
    ];
    assert_eq!(entry.words(), words);
    let first = Entry::new(key, 0, Claimable { at_ms: 0, kind: Kind::First }, location);
    assert_eq!(first.words()[2], 0x1234 << 4 | 11);
}

/// Checkpoints will hold fingerprints, so the hash is part of the format from the start.
#[test]
fn the_hash_of_an_id_is_frozen() {
    let check = |hash_key, namespace, id, packed: &str| {
        let hex: String =
            Key::of(hash_key, namespace, id).pack().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, packed, "{hash_key} {namespace} {id:?}");
    };
    check(0, 0, "", "e106c3f5e281204a000000d5");
    check(1, 1, "a", "a2a1f84ec455a9de010000c7");
    check(u128::MAX, NAMESPACE_MAX, "order-4711", "9a80586117a6ccfdffffff32");
}

#[test]
fn a_size_class_is_the_smallest_that_covers() {
    let check = |bytes, bytes_max| assert_eq!(Location::new(0, 0, bytes).bytes_max(), bytes_max);
    check(0, 64);
    check(64, 64);
    check(65, 128);
    check(1 << 20, 1 << 20);
    check((1 << 20) + 1, 2 << 20);
    // The last class: the read tells the size.
    check((2 << 20) + 1, 2 << 20);
    check(256 << 20, 2 << 20);
}

#[test]
#[should_panic(expected = "segments have at most 256 MiB")]
fn a_place_past_256_mib_is_a_broken_invariant() {
    let location = Location::new(0, 1 << 24, 64);
    panic!("{location:?} is past what an entry can hold");
}

#[test]
fn a_table_grows_in_small_steps_and_shrinks_again() {
    let mut table = table::Table::default();
    assert_eq!(table.heap_bytes(), 0, "an empty table owns nothing");
    let mut before = 0;
    for n in 0..5_000 {
        table.put(entry(key(n), n));
        let now = table.heap_bytes();
        let grew = now - before;
        assert!(before < 500 || grew <= before / 4 + 24, "{before} to {now} bytes at {n}");
        before = now;
    }
    let per_entry = before / 5_000;
    assert!((24..=35).contains(&per_entry), "{per_entry} bytes an entry");
    for n in 0..4_990 {
        table.remove(key(n));
    }
    assert!(table.heap_bytes() < 64 * 24, "{} bytes for 10 entries", table.heap_bytes());
    assert!((4_990..5_000).all(|n| table.get(key(n)).is_some()));
}

#[test]
fn a_pass_over_the_tables_meets_what_does_not_change_exactly_once() {
    let mut index = Index::new();
    for n in 0..20_000 {
        index.put(entry(key(n), n));
    }
    let mut met = HashMap::new();
    for number in 0..TABLES {
        for found in index.table(number) {
            *met.entry(found.key()).or_insert(0) += 1;
        }
        // Others come and go meanwhile.
        let stranger = 100_000 + number as u64;
        index.put(entry(key(stranger), 1));
        index.remove(key(stranger / 2 + 50_000));
    }
    assert!((0..20_000).all(|n| met.get(&key(n)) == Some(&1)));
}
