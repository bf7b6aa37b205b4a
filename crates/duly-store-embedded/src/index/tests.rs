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
