//! Tests of the table of tags, which is part of the storage format.

use super::*;

#[test]
fn slots_are_those_of_the_cluster_specification() {
    for (key, slot) in [("123456789", 12_739), ("foo", 12_182), ("{user1000}.following", 3_443)] {
        assert_eq!(slot_of(key), slot, "{key}");
    }
    assert_eq!(slot_of("{}foo"), slot_of("{}foo"), "an empty tag is none");
    assert_ne!(slot_of("{}foo"), slot_of("{}bar"));
}

#[test]
fn shards_spread_evenly_over_the_slots() {
    for shards in [1_u16, 3, 16, 64, 100, 256] {
        let slots: Vec<u16> = (0..shards).map(|i| slot_of(&seq(ShardId(i), shards))).collect();
        assert!(slots.is_sorted_by(|a, b| a < b), "{shards} shards: {slots:?}");
        let even = 16_384 / u32::from(shards);
        for (i, slot) in slots.iter().enumerate() {
            let from = u32::try_from(i).unwrap() * 16_384 / u32::from(shards);
            let off = u32::from(*slot).abs_diff(from);
            assert!(off < even.max(64), "{shards} shards: shard {i} is in slot {slot}");
        }
    }
}

#[test]
fn the_table_is_frozen() {
    let of = |i| seq(ShardId(i), 64);
    assert_eq!([of(0), of(1), of(2)], ["duly:{17q}:seq", "duly:{9t}:seq", "duly:{6l}:seq"]);
    assert_eq!(key(&of(0), "wake"), "duly:{17q}:wake");
}

#[test]
fn firing_keys_parse_to_their_parts() {
    let id = TimerId::new("a {b} é").unwrap();
    let key = firing_key(&id, Incarnation(u64::MAX - 1), 7);
    assert_eq!(parse_firing_key(&key), Some((id.clone(), Incarnation(u64::MAX - 1), 7)));
    assert_eq!(parse_firing_key(id.as_str().as_bytes()), Some((id, Incarnation(0), 0)));
    assert_eq!(parse_firing_key(b"a\0x"), None);
}
