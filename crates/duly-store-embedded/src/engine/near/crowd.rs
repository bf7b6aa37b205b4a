//! What has become due at once with very much else, on its way into the lanes.
//!
//! ```text
//!   calendar ─► at most a pass is due ─────────────────────────────────────► lanes
//!          └──► more ─► a queue for each namespace ─► some of each in turn ─► lanes
//! ```
//!
//! Counting a timer in its lane takes a search in the index; a million of them take a good part of a
//! second. In the order of time whatever becomes due within that second would wait behind them. So what
//! is more than a pass leaves the calendar without being looked at, which takes a hundredth of the time,
//! and the namespaces take turns. Within a namespace the order of time stays.
//!
//! Called by `surface`.

use std::collections::VecDeque;

use duly_wheel::Calendar;
use rustc_hash::FxHashMap;

use crate::index::{Key, PackedKey};

use super::Due;

/// Entries that one step moves from the calendar into queues.
const GATHERED_PER_STEP: usize = 65_536;
/// What a namespace has counted before it is the next one's turn.
const TURN: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    queues: FxHashMap<u32, VecDeque<Due>>,
    /// The namespaces with a queue.
    turns: VecDeque<u32>,
    len: usize,
    gathered: Vec<Due>,
}

impl Crowd {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let queues = self.queues.values().map(VecDeque::capacity).sum::<usize>();
        (queues + self.gathered.capacity()) * size_of::<Due>()
    }

    /// The time of something that waits here, which is due.
    pub(super) fn first_ms(&self) -> Option<u64> {
        let queue = self.queues.get(self.turns.front()?)?;
        queue.front().map(|(at_ms, _)| *at_ms)
    }

    /// Takes out about `limit` of what is due, here and in a calendar; answers whether there is more.
    pub(super) fn take(
        &mut self,
        calendar: &mut Calendar<PackedKey>,
        now_ms: u64,
        limit: usize,
        out: &mut Vec<Due>,
    ) -> bool {
        let full_len = out.len().saturating_add(limit);
        if self.is_empty() && !calendar.pop_due(now_ms, limit, out) {
            return false;
        }
        let is_more = calendar.pop_due(now_ms, GATHERED_PER_STEP, &mut self.gathered);
        self.sort_in();
        while out.len() < full_len
            && let Some(number) = self.turns.pop_front()
        {
            let queue = self.queues.get_mut(&number).expect("who has a turn has a queue");
            let count = queue.len().min(TURN);
            self.len -= count;
            for (at_ms, key) in queue.drain(..count) {
                if at_ms <= now_ms {
                    out.push((at_ms, key));
                } else {
                    // The clock stepped back.
                    calendar.insert(at_ms, key);
                }
            }
            if queue.is_empty() {
                self.queues.remove(&number);
            } else {
                self.turns.push_back(number);
            }
        }
        if self.is_empty() {
            self.gathered = Vec::new();
        }
        is_more || !self.is_empty()
    }

    fn sort_in(&mut self) {
        self.len += self.gathered.len();
        for due in self.gathered.drain(..) {
            let number = Key::unpack(due.1).namespace();
            let queue = self.queues.entry(number).or_default();
            if queue.is_empty() {
                self.turns.push_back(number);
            }
            queue.push_back(due);
        }
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

    /// The namespaces of what was taken.
    fn taken(out: &[Due]) -> Vec<u32> {
        out.iter().map(|(_, key)| Key::unpack(*key).namespace()).collect()
    }

    #[test]
    fn what_fits_a_pass_goes_in_the_order_of_time() {
        let (mut crowd, mut calendar, mut out) = (Crowd::default(), Calendar::new(), Vec::new());
        for (at_ms, number) in [(3, 1), (1, 2), (2, 1), (9, 1)] {
            calendar.insert(at_ms, key(number, at_ms));
        }
        assert!(!crowd.take(&mut calendar, 3, 3, &mut out));
        assert_eq!(out, [(1, key(2, 1)), (2, key(1, 2)), (3, key(1, 3))]);
        assert_eq!((crowd.len(), calendar.len()), (0, 1));
    }

    #[test]
    fn a_namespace_with_very_many_does_not_hold_up_what_becomes_due_behind_them() {
        let (mut crowd, mut calendar) = (Crowd::default(), Calendar::new());
        (0..10_000).for_each(|timer| calendar.insert(1, key(1, timer)));
        calendar.insert(2, key(2, 0));
        let mut first = Vec::new();
        assert!(crowd.take(&mut calendar, 1, 100, &mut first));
        assert_eq!(taken(&first), [1; 100]);
        let mut second = Vec::new();
        assert!(crowd.take(&mut calendar, 2, 100, &mut second));
        assert!(taken(&second).contains(&2), "{:?}", taken(&second));
        let mut rest = Vec::new();
        while crowd.take(&mut calendar, 2, 100, &mut rest) {}
        assert_eq!(first.len() + second.len() + rest.len(), 10_001, "each once");
        assert!(crowd.is_empty() && crowd.heap_bytes() == 0 && calendar.is_empty());
    }

    #[test]
    fn within_a_namespace_the_order_of_time_stays() {
        let (mut crowd, mut calendar, mut out) = (Crowd::default(), Calendar::new(), Vec::new());
        for at_ms in (1..=1_000).rev() {
            calendar.insert(at_ms, key(1, at_ms));
            calendar.insert(at_ms, key(2, at_ms));
        }
        while crowd.take(&mut calendar, 1_000, 10, &mut out) {}
        for number in [1, 2] {
            let of_it = out.iter().filter(|(_, key)| Key::unpack(*key).namespace() == number);
            assert!(of_it.map(|(at_ms, _)| *at_ms).eq(1..=1_000));
        }
    }

    #[test]
    fn what_is_not_due_any_more_goes_back() {
        let (mut crowd, mut calendar, mut out) = (Crowd::default(), Calendar::new(), Vec::new());
        (0..100).for_each(|timer| calendar.insert(50, key(1, timer)));
        assert!(crowd.take(&mut calendar, 50, 10, &mut out));
        assert_eq!(crowd.first_ms(), Some(50));
        out.clear();
        while crowd.take(&mut calendar, 49, 10, &mut out) {}
        assert_eq!((out.len(), calendar.next_due()), (0, Some(50)), "the clock stepped back");
    }
}
