//! The burst queue: timers that became due together with a large number of others, on their way into the
//! lanes.
//!
//! ```text
//!   calendar ─► at most a pass is due ─────────────────────────────────────► lanes
//!          └──► more ─► a queue for each namespace ─► some of each in turn ─► lanes
//! ```
//!
//! To count a timer in its lane takes a search in the index; for a million timers that is a good part of
//! a second. In time order, timers that become due within that second would wait for all of these. So:
//!
//! 1. If more timers are due than one pass handles, they leave the calendar without a search. That takes
//!    a hundredth of the time.
//! 2. The namespaces take turns: a slice of each is counted. Within a namespace the time order stays.
//!
//! Called by `surface`.

use std::collections::VecDeque;

use duly_wheel::Calendar;
use rustc_hash::FxHashMap;

use crate::index::{Key, PackedKey};

use super::DueTimer;

/// Entries that one step moves from the calendar into the queues.
const GATHERED_PER_STEP: usize = 65_536;
/// Entries of one slice of a namespace.
const SLICE_TIMERS: usize = 64;

/// The burst queue.
#[derive(Debug, Default)]
pub(in crate::engine) struct BurstQueue {
    queues: FxHashMap<u32, BlockQueue<DueTimer>>,
    /// Namespaces with a queue, in the order of their slices.
    slice_order: VecDeque<u32>,
    len: usize,
    gathered: Vec<DueTimer>,
}

impl BurstQueue {
    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(in crate::engine) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of its content. It walks nothing.
    pub(in crate::engine) fn heap_bytes(&self) -> usize {
        (self.len + self.gathered.capacity()) * size_of::<DueTimer>()
    }

    /// Returns the time of one of its timers, all of which are due.
    pub(in crate::engine) fn first_ms(&self) -> Option<u64> {
        let queue = self.queues.get(self.slice_order.front()?)?;
        queue.front().map(|(at_ms, _)| *at_ms)
    }

    /// Takes the due timers out of a calendar: into `out` if they are at most `limit`, otherwise into the
    /// queues.
    pub(in crate::engine) fn take(
        &mut self,
        calendar: &mut Calendar<PackedKey>,
        now_ms: u64,
        limit: usize,
        out: &mut Vec<DueTimer>,
    ) {
        if self.is_empty() {
            if !calendar.pop_due(now_ms, limit, out) {
                return;
            }
            self.gathered.append(out);
        }
        calendar.pop_due(now_ms, GATHERED_PER_STEP, &mut self.gathered);
        self.distribute();
    }

    /// Takes out one slice of the next namespace. Returns the namespace and the number of timers visited,
    /// or `None` if the queues are empty.
    pub(in crate::engine) fn take_slice(
        &mut self,
        calendar: &mut Calendar<PackedKey>,
        now_ms: u64,
        out: &mut Vec<DueTimer>,
    ) -> Option<(u32, usize)> {
        let number = self.slice_order.pop_front()?;
        let queue = self.queues.get_mut(&number).expect("who has a turn has a queue");
        let mut count = 0;
        while count < SLICE_TIMERS
            && let Some((at_ms, key)) = queue.pop_front()
        {
            count += 1;
            if at_ms <= now_ms {
                out.push((at_ms, key));
            } else {
                // The clock stepped back.
                calendar.insert(at_ms, key);
            }
        }
        self.len -= count;
        if queue.is_empty() {
            self.queues.remove(&number);
        } else {
            self.slice_order.push_back(number);
        }
        if self.is_empty() {
            self.gathered = Vec::new();
        }
        Some((number, count))
    }

    /// Returns timers that a slice had no time for, to the front of the namespace's queue.
    pub(in crate::engine) fn return_unfinished(
        &mut self,
        number: u32,
        left: impl DoubleEndedIterator<Item = DueTimer>,
    ) {
        let mut left = left.rev().peekable();
        if left.peek().is_none() {
            return;
        }
        let queue = self.queues.entry(number).or_default();
        if queue.is_empty() {
            self.slice_order.push_back(number);
        }
        for due in left {
            queue.push_front(due);
            self.len += 1;
        }
    }

    fn distribute(&mut self) {
        self.len += self.gathered.len();
        for due in self.gathered.drain(..) {
            let number = Key::unpack(due.1).namespace();
            let queue = self.queues.entry(number).or_default();
            if queue.is_empty() {
                self.slice_order.push_back(number);
            }
            queue.push_back(due);
        }
    }
}

/// Entries of a block.
const BLOCK: usize = 1024;

/// A queue in blocks, none of which is empty, so that no step copies more than one block, however long
/// the queue is. A ring buffer is copied whole when it grows: 100 MB if four million timers of a
/// namespace become due at once.
#[derive(Debug)]
struct BlockQueue<T> {
    blocks: VecDeque<VecDeque<T>>,
}

impl<T> Default for BlockQueue<T> {
    fn default() -> Self {
        Self { blocks: VecDeque::new() }
    }
}

impl<T> BlockQueue<T> {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn front(&self) -> Option<&T> {
        self.blocks.front()?.front()
    }

    fn push_back(&mut self, entry: T) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push_back(entry),
            _ => self.blocks.push_back(VecDeque::from([entry])),
        }
    }

    fn push_front(&mut self, entry: T) {
        match self.blocks.front_mut() {
            Some(block) if block.len() < BLOCK => block.push_front(entry),
            _ => self.blocks.push_front(VecDeque::from([entry])),
        }
    }

    fn pop_front(&mut self) -> Option<T> {
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

    fn key(namespace: u32, timer: u64) -> PackedKey {
        let mut packed = [0; 12];
        packed[..8].copy_from_slice(&timer.to_le_bytes());
        packed[8..].copy_from_slice(&namespace.to_le_bytes());
        packed
    }

    /// Returns the namespaces of the taken timers.
    fn taken(out: &[DueTimer]) -> Vec<u32> {
        out.iter().map(|(_, key)| Key::unpack(*key).namespace()).collect()
    }

    /// Runs a step of 100 timers. Returns the taken ones.
    fn step(
        burst: &mut BurstQueue,
        calendar: &mut Calendar<PackedKey>,
        now_ms: u64,
    ) -> Vec<DueTimer> {
        let mut out = Vec::new();
        burst.take(calendar, now_ms, 100, &mut out);
        let mut visits = out.len();
        while visits < 100
            && let Some((_, visited)) = burst.take_slice(calendar, now_ms, &mut out)
        {
            visits += visited;
        }
        out
    }

    #[test]
    fn timers_within_pass_limit_keep_time_order() {
        let (mut burst, mut calendar) = (BurstQueue::default(), Calendar::new());
        for (at_ms, number) in [(3, 1), (1, 2), (2, 1), (9, 1)] {
            calendar.insert(at_ms, key(number, at_ms));
        }
        let out = step(&mut burst, &mut calendar, 3);
        assert_eq!(out, [(1, key(2, 1)), (2, key(1, 2)), (3, key(1, 3))]);
        assert_eq!((burst.len(), calendar.len()), (0, 1));
    }

    #[test]
    fn burst_of_one_namespace_does_not_delay_others() {
        let (mut burst, mut calendar) = (BurstQueue::default(), Calendar::new());
        (0..10_000).for_each(|timer| calendar.insert(1, key(1, timer)));
        calendar.insert(2, key(2, 0));
        let first = step(&mut burst, &mut calendar, 1);
        assert!(!first.is_empty() && taken(&first).iter().all(|number| *number == 1));
        let second = step(&mut burst, &mut calendar, 2);
        assert!(taken(&second).contains(&2), "{:?}", taken(&second));
        let mut count = first.len() + second.len();
        while !burst.is_empty() {
            count += step(&mut burst, &mut calendar, 2).len();
        }
        assert_eq!(count, 10_001, "each once");
        assert!(burst.heap_bytes() == 0 && calendar.is_empty());
    }

    #[test]
    fn unfinished_slice_resumes_first_and_keeps_turns() {
        let (mut burst, mut calendar) = (BurstQueue::default(), Calendar::new());
        for at_ms in 1..=1_000 {
            (1..=4).for_each(|number| calendar.insert(at_ms, key(number, at_ms)));
        }
        calendar.insert(1_000, key(5, 1));
        burst.take(&mut calendar, 1_000, 100, &mut Vec::new());
        let mut seen = Vec::new();
        // One timer of each slice is handled, as if each took a long read.
        while !burst.is_empty() {
            let mut out = Vec::new();
            let (number, _) = burst.take_slice(&mut calendar, 1_000, &mut out).expect("a turn");
            burst.return_unfinished(number, out.drain(1..));
            seen.append(&mut out);
        }
        assert_eq!((seen.len(), burst.len()), (4_001, 0), "each once");
        assert!(taken(&seen[..5]).contains(&5), "{:?}", taken(&seen[..5]));
        let of_one = seen.iter().filter(|(_, key)| Key::unpack(*key).namespace() == 1);
        assert!(of_one.map(|(at_ms, _)| *at_ms).eq(1..=1_000), "in the order of time");
    }

    #[test]
    fn timers_no_longer_due_return_to_calendar() {
        let (mut burst, mut calendar) = (BurstQueue::default(), Calendar::new());
        (0..1_000).for_each(|timer| calendar.insert(50, key(1, timer)));
        assert!(!step(&mut burst, &mut calendar, 50).is_empty());
        assert_eq!(burst.first_ms(), Some(50));
        while !burst.is_empty() {
            assert_eq!(step(&mut burst, &mut calendar, 49), [], "the clock stepped back");
        }
        assert_eq!(calendar.next_due(), Some(50));
    }

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
