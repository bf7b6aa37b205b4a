//! The first timers of a list by due time. The index does not know their ids.
//!
//! The earliest [`CANDIDATES_MAX`] are kept; fewer for a page of little memory. If there are more, the
//! list is complete up to the *frontier*: the due time of the first dropped candidate. Timers that are
//! due at the same millisecond are listed in the order of ids. So either all of them are known, or none
//! counts.

use std::collections::{BinaryHeap, VecDeque};

use crate::index::PackedKey;

/// Most timers that one page reads for their ids and tags. Not included: retries, tombstones, and timers
/// due at the millisecond at which the page begins or ends.
pub(in crate::engine) const CANDIDATES_MAX: usize = 4_096;
/// Fewest candidates of a page, even of little memory.
const CANDIDATES_MIN: usize = 256;

/// The earliest candidates so far; the last of them is on top.
#[derive(Debug)]
pub(super) struct Candidates {
    count_max: usize,
    earliest: BinaryHeap<(u64, PackedKey)>,
    /// Earliest due time of a dropped candidate.
    dropped_ms: Option<u64>,
}

/// The collected candidates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CandidateResult {
    /// All candidates.
    All(VecDeque<(u64, PackedKey)>),
    /// All candidates that are due before the frontier.
    Before(u64, VecDeque<(u64, PackedKey)>),
    /// No candidates: too many are due at this one millisecond, and none before.
    OneInstant(u64),
}

impl Default for Candidates {
    fn default() -> Self {
        Self { count_max: CANDIDATES_MAX, earliest: BinaryHeap::new(), dropped_ms: None }
    }
}

impl Candidates {
    /// Creates an empty collection that fits into `bytes_max` bytes; a heap that grows may have twice the
    /// places that it needs. It takes at least `CANDIDATES_MIN`.
    pub(super) fn within(bytes_max: u64) -> Self {
        let place = size_of::<(u64, PackedKey)>() as u64;
        let count = usize::try_from(bytes_max / (2 * place)).unwrap_or(usize::MAX);
        Self { count_max: count.clamp(CANDIDATES_MIN, CANDIDATES_MAX), ..Self::default() }
    }

    pub(super) fn offer(&mut self, due_ms: u64, key: PackedKey) {
        let place = (due_ms, key);
        let dropped = if self.earliest.len() < self.count_max {
            self.earliest.push(place);
            None
        } else {
            match self.earliest.peek_mut() {
                Some(mut last) if place < *last => Some(std::mem::replace(&mut *last, place)),
                _ => Some(place),
            }
        };
        if let Some((due_ms, _)) = dropped {
            self.dropped_ms = Some(self.dropped_ms.map_or(due_ms, |known| known.min(due_ms)));
        }
    }

    pub(super) fn earliest(self) -> CandidateResult {
        let mut earliest: VecDeque<_> = self.earliest.into_sorted_vec().into();
        let Some(frontier_ms) = self.dropped_ms else {
            return CandidateResult::All(earliest);
        };
        earliest.truncate(earliest.partition_point(|(due_ms, _)| *due_ms < frontier_ms));
        if earliest.is_empty() {
            CandidateResult::OneInstant(frontier_ms)
        } else {
            CandidateResult::Before(frontier_ms, earliest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(times: impl Iterator<Item = u64>) -> CandidateResult {
        let mut candidates = Candidates::default();
        for (n, due_ms) in times.enumerate() {
            let mut key = [0; 12];
            key[..8].copy_from_slice(&(n as u64).to_le_bytes());
            candidates.offer(due_ms, key);
        }
        candidates.earliest()
    }

    fn times(earliest: &VecDeque<(u64, PackedKey)>) -> Vec<u64> {
        earliest.iter().map(|(due_ms, _)| *due_ms).collect()
    }

    #[test]
    fn candidates_are_complete_before_the_frontier() {
        let max = CANDIDATES_MAX as u64;
        let CandidateResult::All(all) = offered((0..max).rev()) else { panic!("they fit") };
        assert_eq!(times(&all), (0..max).collect::<Vec<_>>());
        let CandidateResult::Before(frontier_ms, some) = offered((0..2 * max).rev()) else {
            panic!("some do not fit")
        };
        assert_eq!((frontier_ms, times(&some)), (max, (0..max).collect()));
    }

    #[test]
    fn of_one_millisecond_all_are_kept_or_none() {
        let max = CANDIDATES_MAX as u64;
        // All timers of the second millisecond fit, except one.
        let CandidateResult::Before(frontier_ms, some) =
            offered(std::iter::once(1).chain((0..max).map(|_| 2)))
        else {
            panic!("some do not fit")
        };
        assert_eq!((frontier_ms, times(&some)), (2, vec![1]));
        assert_eq!(offered((0..=max).map(|_| 7)), CandidateResult::OneInstant(7));
    }
}
