use crate::index::{
    Flags,
    tests::{entry, filled, key},
};

#[test]
fn what_is_found_is_replaced_and_removed_in_its_place() {
    for len in [1, 100, 10_000] {
        let mut index = filled(0..len);
        assert!(index.find(key(len)).is_none());
        for n in 0..len {
            let mut held = index.find(key(n)).expect("it was put in");
            assert_eq!(held.entry(), entry(key(n), n));
            let other = entry(key(n), n + 1).with_flags(Flags::LEASED);
            assert_eq!(held.replace(other), entry(key(n), n));
            assert_eq!(held.entry(), other);
            assert_eq!(index.get(key(n)), Some(other));
        }
        index.check();
        for n in 0..len {
            let held = index.find(key(n)).expect("it is still there");
            assert_eq!(held.remove().claimable().at_ms, n + 1);
            assert!(index.find(key(n)).is_none());
            assert_eq!(index.len() as u64, len - n - 1);
        }
        assert_eq!(index.heap_bytes(), 0, "tables merge and go");
    }
}

#[test]
#[should_panic(expected = "another key has another place")]
fn an_entry_of_another_key_is_refused() {
    let mut index = filled(0..10);
    index.find(key(1)).expect("it was put in").replace(entry(key(2), 2));
}
