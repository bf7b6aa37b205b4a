use proptest::prelude::*;

use super::*;
use crate::index::{NAMESPACE_MAX, PackedKey};

/// The latest time of a timer: the year 2200.
const AT_MAX_MS: u64 = 7_258_118_399_999;

fn entry(key: Key, lane: u8, at_ms: u64, kind: AttemptKind, location: Location) -> Entry {
    Entry::new(key, lane, Claimable { at_ms, kind }, location)
}

prop_compose! {
    fn locations()(slot: u16, unit in 0_u64..1 << 24, bytes in 0_u64..4 << 20) -> Location {
        Location::new(slot, unit, bytes)
    }
}

prop_compose! {
    fn keys()(packed: PackedKey) -> Key { Key::unpack(packed) }
}

proptest! {
    #[test]
    fn an_entry_gives_back_what_it_holds(
        key in keys(), lane: u8, at_ms in 0..=AT_MAX_MS, retry: bool, location in locations(), flags: u8,
    ) {
        let kind = if retry { AttemptKind::Retry } else { AttemptKind::First };
        let plain = entry(key, lane, at_ms, kind, location);
        prop_assert_eq!(plain.flags(), Flags::NONE);
        let entry = plain.with_flags(Flags(flags));
        prop_assert_eq!(entry.key(key.namespace()), key);
        prop_assert_eq!((entry.lane(), entry.location(), entry.flags()), (lane, location, Flags(flags)));
        prop_assert_eq!(entry.claimable(), Claimable { at_ms, kind });
        prop_assert_eq!(Entry::from_words(entry.words()), Some(entry));
        prop_assert_eq!(entry.with_flags(Flags::NONE), plain);
    }

    #[test]
    fn an_entry_that_names_another_key_gives_it_back(
        key in keys(), other: PackedKey, at_ms in 0..=AT_MAX_MS,
    ) {
        let mut other = other;
        other[8..11].copy_from_slice(&key.pack()[8..11]);
        let other = Key::unpack(other);
        let entry = Entry::naming(key, at_ms, other);
        prop_assert_eq!(entry.named(key.namespace()), other);
        prop_assert_eq!(entry.key(key.namespace()), key);
        prop_assert_eq!(entry.claimable(), Claimable { at_ms, kind: AttemptKind::First });
        prop_assert_eq!(Entry::from_words(entry.words()), Some(entry));
    }

    #[test]
    fn a_new_location_changes_nothing_else(key in keys(), flags: u8, old in locations(), new in locations()) {
        let at_old = entry(key, 7, 1_234, AttemptKind::Retry, old).with_flags(Flags(flags));
        let at_new = entry(key, 7, 1_234, AttemptKind::Retry, new).with_flags(Flags(flags));
        prop_assert_eq!(at_old.at(new), at_new);
    }
}

#[test]
fn an_entry_is_24_bytes_and_holds_the_extremes() {
    assert_eq!(size_of::<Entry>(), 24);
    let check = |key: Key, lane, at_ms, kind, location, flags| {
        let entry = entry(key, lane, at_ms, kind, location).with_flags(flags);
        assert_eq!(entry.key(key.namespace()), key);
        assert_eq!((entry.lane(), entry.location(), entry.flags()), (lane, location, flags));
        assert_eq!(entry.claimable(), Claimable { at_ms, kind });
        assert!(!entry.is_empty());
        assert_eq!(Entry::from_words(entry.words()), Some(entry));
    };
    let nothing = Location::new(0, 0, 0);
    let last = Location::new(u16::MAX, (1 << 24) - 1, u64::MAX);
    check(Key::unpack([0; 12]), 0, 0, AttemptKind::First, nothing, Flags::NONE);
    check(Key::unpack([0xFF; 12]), 255, AT_MAX_MS, AttemptKind::Retry, last, Flags(0xFF));
    check(Key::unpack([0xFF; 12]), 255, AT_MAX_MS, AttemptKind::First, nothing, Flags::NONE);
}

#[test]
fn the_bits_of_an_entry_are_the_documented_ones() {
    let key = Key::unpack([1, 2, 3, 4, 5, 6, 7, 8, 0xAA, 0xBB, 0xCC, 0xFE]);
    assert_eq!(key.namespace(), 0x00CC_BBAA);
    let location = Location::new(0x1234, 0x0056_789A, 64 << 11);
    let all = entry(key, 0xCD, 0x0677_7777_7777, AttemptKind::Retry, location);
    let words = [
        0x0807_0605_0403_0201,
        0xFE << 56 | 0xCD << 24 | 0x0056_789A,
        0x0677_7777_7777 << 21 | 1 << 20 | 0x1234 << 4 | 11,
    ];
    assert_eq!(all.words(), words);
    let flags = Flags::COUNTED_DUE.with(Flags::LEASED).with(Flags::EXPIRES);
    assert_eq!(all.with_flags(flags).words(), [words[0], words[1] | 7 << 48, words[2]]);
}

#[test]
fn each_field_has_bits_of_its_own() {
    let zero = Key::unpack([0; 12]);
    let nowhere = Location::new(0, 0, 0);
    let none = entry(zero, 0, 0, AttemptKind::First, nowhere);
    assert_eq!(none.words(), [0; 3]);
    let low = Key::unpack([255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0]);
    let high = Key::unpack([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255]);
    let of_namespace = Key::unpack([0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 0]);
    let check = |entry: Entry, words: [u64; 3]| assert_eq!(entry.words(), words);
    check(entry(low, 0, 0, AttemptKind::First, nowhere), [u64::MAX, 0, 0]);
    check(entry(high, 0, 0, AttemptKind::First, nowhere), [0, 0xFF << 56, 0]);
    check(entry(of_namespace, 0, 0, AttemptKind::First, nowhere), [0; 3]);
    check(none.with_flags(Flags(0xFF)), [0, 0xFF << 48, 0]);
    check(entry(zero, 255, 0, AttemptKind::First, nowhere), [0, 0xFF << 24, 0]);
    check(none.at(Location::new(0, (1 << 24) - 1, 0)), [0, 0xFF_FFFF, 0]);
    check(
        entry(zero, 0, (1 << 43) - 2, AttemptKind::First, nowhere),
        [0, 0, ((1 << 43) - 2) << 21],
    );
    check(entry(zero, 0, 0, AttemptKind::Retry, nowhere), [0, 0, 1 << 20]);
    check(none.at(Location::new(u16::MAX, 0, 0)), [0, 0, 0xFFFF << 4]);
    check(none.at(Location::new(0, 0, u64::MAX)), [0, 0, 15]);
}

#[test]
fn the_words_of_an_empty_slot_are_no_entry() {
    assert_eq!(Entry::from_words(Entry::EMPTY.words()), None);
    assert_eq!(Entry::from_words([1, 2, EMPTY]), None);
    assert!(Entry::from_words([u64::MAX, u64::MAX, EMPTY - 1]).is_some());
}

#[test]
fn flags_are_set_and_cleared_one_by_one() {
    let both = Flags::NONE.with(Flags::COUNTED_DUE).with(Flags::EXPIRES);
    assert!(both.has(Flags::COUNTED_DUE) && both.has(Flags::EXPIRES) && !both.has(Flags::LEASED));
    assert!(!both.has(Flags::COUNTED_DUE.with(Flags::LEASED)), "all that is asked for");
    assert_eq!(both.without(Flags::COUNTED_DUE), Flags::EXPIRES);
    assert_eq!(both.without(Flags::LEASED), both);
    assert_eq!(both.with(Flags::EXPIRES), both);
}

#[test]
fn another_timer_is_told_by_any_field() {
    let key = Key::of(1, 1, "a");
    let location = Location::new(1, 2, 300);
    let one = entry(key, 1, 10, AttemptKind::First, location);
    for other in [
        entry(Key::of(1, 1, "b"), 1, 10, AttemptKind::First, location),
        entry(key, 2, 10, AttemptKind::First, location),
        entry(key, 1, 11, AttemptKind::First, location),
        entry(key, 1, 10, AttemptKind::Retry, location),
        entry(key, 1, 10, AttemptKind::First, Location::new(1, 2, 64)),
    ] {
        assert_ne!(one, other);
    }
    assert_ne!(one, one.with_flags(Flags::LEASED));
}

#[test]
fn keys_pack_and_unpack() {
    let key = Key::of(u128::MAX, NAMESPACE_MAX, "…");
    assert_eq!(Key::unpack(key.pack()), key);
    assert_ne!(Key::of(1, 1, "a"), Key::of(1, 2, "a"));
    assert_ne!(Key::of(1, 1, "a"), Key::of(2, 1, "a"));
    assert_eq!(Key::of(1, 1, "a"), Key::of_bytes(1, 1, b"a"));
    assert_ne!(Key::of_bytes(1, 1, &[0xFF, 0]), Key::of_bytes(1, 1, &[0xFF]));
}

/// Checkpoints hold fingerprints, so the hash is part of the format.
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
    // The last class: the read shows the size.
    check((2 << 20) + 1, 2 << 20);
    check(256 << 20, 2 << 20);
}

#[test]
#[should_panic(expected = "segments have at most 256 MiB")]
fn a_place_past_256_mib_is_a_broken_invariant() {
    let location = Location::new(0, 1 << 24, 64);
    panic!("{location:?} is past what an entry can hold");
}
