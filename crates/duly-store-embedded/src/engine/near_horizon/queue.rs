//! A queue in blocks, so that no step copies more than one block, however long the queue is.
//!
//! A ring buffer is copied whole when it grows: 100 MB if four million timers of a namespace become due
//! at once.
//!
//! Used by `burst`.

use std::collections::VecDeque;

/// Entries of a block.
const BLOCK: usize = 1024;

/// A queue in blocks, none of which is empty.
#[derive(Debug)]
pub(super) struct BlockQueue<T> {
    blocks: VecDeque<VecDeque<T>>,
}

impl<T> Default for BlockQueue<T> {
    fn default() -> Self {
        Self { blocks: VecDeque::new() }
    }
}

impl<T> BlockQueue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.blocks.front()?.front()
    }

    pub(super) fn push_back(&mut self, entry: T) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push_back(entry),
            _ => self.blocks.push_back(VecDeque::from([entry])),
        }
    }

    pub(super) fn push_front(&mut self, entry: T) {
        match self.blocks.front_mut() {
            Some(block) if block.len() < BLOCK => block.push_front(entry),
            _ => self.blocks.push_front(VecDeque::from([entry])),
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let block = self.blocks.front_mut()?;
        let entry = block.pop_front();
        if block.is_empty() {
            self.blocks.pop_front();
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_queue_at_both_ends_over_many_blocks() {
        let (mut queue, mut ring) = (BlockQueue::default(), VecDeque::new());
        for round in 0..40_usize {
            for entry in 0..500 {
                queue.push_back((round, entry));
                ring.push_back((round, entry));
            }
            let front: Vec<_> = (0..300).map_while(|_| queue.pop_front()).collect();
            assert!(front.iter().eq(ring.range(..300)));
            ring.drain(..300);
            for entry in front.into_iter().rev().take(round * 7 % 200) {
                queue.push_front(entry);
                ring.push_front(entry);
            }
            assert_eq!(queue.front(), ring.front());
            assert!(queue.blocks.iter().all(|block| !block.is_empty()));
        }
        assert!(std::iter::from_fn(|| queue.pop_front()).eq(ring));
        assert!(queue.is_empty() && queue.front().is_none());
    }

    #[test]
    fn no_block_is_larger_than_a_block() {
        let mut queue = BlockQueue::default();
        (0..100_000).for_each(|entry| queue.push_back(entry));
        (0..3_000).for_each(|entry| queue.push_front(entry));
        assert!(queue.blocks.iter().all(|block| block.capacity() <= BLOCK));
        assert!(queue.blocks.len() < 200);
    }
}
