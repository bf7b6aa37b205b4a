//! Tests of the bag alone: its span stays exact while blocks come and go.

use super::super::bag::{BLOCK_ENTRIES, Bag, Entry};

fn block(low: u32) -> Vec<Entry<u8>> {
    vec![Entry::new(low, 0); BLOCK_ENTRIES]
}

#[test]
fn the_earliest_is_known_after_each_block_taken() {
    let mut bag = Bag::default();
    for low in [7, 3, 9, 8] {
        bag.push_block(block(low));
    }
    bag.push(Entry::new(1, 0));
    assert_eq!(bag.len(), 4 * BLOCK_ENTRIES + 1);

    let mut earliest = vec![bag.min_low()];
    while !bag.pop_block().is_empty() {
        earliest.push(bag.min_low());
    }
    assert_eq!(earliest, [Some(1), Some(3), Some(3), Some(3), Some(7), None]);
    assert_eq!(bag.heap_bytes(), 0);
}

#[test]
fn a_full_block_put_under_an_open_one_is_covered_by_its_span() {
    let mut bag = Bag::default();
    bag.push(Entry::new(5, 0));
    bag.push_block(block(2));
    assert_eq!(bag.min_low(), Some(2));
    // Fills the open block until it is sealed too.
    for _ in 0..BLOCK_ENTRIES {
        bag.push(Entry::new(6, 0));
    }
    assert_eq!(bag.pop_block().len(), 1);
    assert_eq!(bag.min_low(), Some(2));
    assert_eq!(bag.pop_block().len(), BLOCK_ENTRIES);
    assert_eq!(bag.min_low(), Some(2));
    assert!(bag.is_one_instant());
}

#[test]
fn one_instant_is_popped_across_blocks_without_order() {
    let mut bag = Bag::default();
    for value in 0..3 * BLOCK_ENTRIES {
        bag.push(Entry::new(4, value));
    }
    let mut out = Vec::new();
    while !bag.is_empty() {
        assert_eq!(bag.min_low(), Some(4));
        bag.pop_any(BLOCK_ENTRIES - 1, 1 << 32, &mut out);
    }
    let mut values: Vec<usize> = out.iter().map(|&(_, value)| value).collect();
    values.sort_unstable();
    assert!(values.into_iter().eq(0..3 * BLOCK_ENTRIES));
    assert!(out.iter().all(|&(due_ms, _)| due_ms == (1 << 32) + 4));
    assert_eq!((bag.min_low(), bag.heap_bytes()), (None, 0));
}
