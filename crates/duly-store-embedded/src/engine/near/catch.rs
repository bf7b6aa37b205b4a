//! What a sweep found of one kind: about as many of the earliest as a calendar should hold.
//!
//! ```text
//!   base                                  target
//!    │ count │ count │ count │ … │ count │  let go │ let go │
//! ```
//!
//! What is found is counted by buckets of time. Where there is too much, the last buckets are let go:
//! the target falls, and nothing that was found is looked at for that. What lies behind the target by
//! then is dropped when it is met again: when it goes into a calendar, or when it has become as much as
//! a calendar should hold; then everything is offered once more, some of it each step. If one bucket
//! alone is too much, it is divided into finer ones, down to a millisecond, which is taken whole: the
//! buckets then begin there. What waits for an earlier time is counted in the first; where that is too
//! much, they begin with the earliest.

use duly_wheel::Calendar;

use crate::index::PackedKey;

use super::{AHEAD_MS, Due, SOON_MS, Window};

/// Buckets of time.
const BUCKETS: usize = 1_024;
/// Entries that one step offers again.
const AGAIN_PER_STEP: usize = 32_768;

/// What a sweep found of one kind.
#[derive(Debug)]
pub(super) struct Catch {
    /// Where it begins: at the end of the calendar, or at 0 to make it anew.
    pub(super) from_ms: u64,
    /// What waits until before this is soon.
    pub(super) soon_ms: u64,
    pub(super) target_ms: u64,
    found: Vec<Due>,
    /// What was found and is to be offered again.
    again: Vec<Due>,
    /// Where the first bucket begins; what is earlier is counted in it.
    base_ms: u64,
    /// How many are.
    earlier: usize,
    /// The earliest that was offered.
    earliest_ms: u64,
    width_ms: u64,
    counts: Vec<usize>,
    /// The sum of the counts: of `found`, what lies before the target.
    len: usize,
    /// About how many it may end with.
    max: usize,
    /// The calendar that is made anew; the old one does its work until this has everything.
    pub(super) fresh: Calendar<PackedKey>,
    pub(super) is_cut: bool,
    /// Nothing that was seen behind the target is earlier.
    pub(super) beyond_ms: u64,
}

impl Catch {
    pub(super) fn new(window: &Window, now_ms: u64, max: usize) -> Self {
        let is_full = window.calendar.len() > window.full_at;
        let from_ms = if is_full { 0 } else { window.end_ms };
        let target_ms = now_ms.saturating_add(AHEAD_MS).max(window.end_ms);
        let base_ms = from_ms.max(now_ms);
        Self {
            from_ms,
            soon_ms: now_ms.saturating_add(SOON_MS),
            target_ms,
            found: Vec::new(),
            again: Vec::new(),
            base_ms,
            earlier: 0,
            earliest_ms: u64::MAX,
            width_ms: finer(target_ms - base_ms),
            counts: vec![0; BUCKETS],
            len: 0,
            max,
            fresh: Calendar::new(),
            is_cut: false,
            beyond_ms: u64::MAX,
        }
    }

    /// Takes in what came meanwhile. When everything was seen it goes where the rest is going.
    pub(super) fn take(&mut self, is_walked: bool, at_ms: u64, key: PackedKey) {
        if !is_walked {
            self.offer(at_ms, key);
        } else if at_ms >= self.target_ms {
            self.beyond_ms = self.beyond_ms.min(at_ms);
        } else if self.from_ms == 0 {
            self.fresh.insert(at_ms, key);
        }
    }

    pub(super) fn offer(&mut self, at_ms: u64, key: PackedKey) {
        if at_ms < self.from_ms {
            return;
        }
        if at_ms >= self.target_ms {
            self.beyond_ms = self.beyond_ms.min(at_ms);
            return;
        }
        self.found.push((at_ms, key));
        let bucket = self.bucket_of(at_ms);
        self.counts[bucket] += 1;
        self.len += 1;
        self.earlier += usize::from(at_ms < self.base_ms);
        self.earliest_ms = self.earliest_ms.min(at_ms);
        if self.len > self.max {
            self.let_go();
        }
        if self.found.len() - self.len > self.max && self.again.is_empty() {
            self.offer_all_again();
        }
    }

    fn bucket_of(&self, at_ms: u64) -> usize {
        let bucket = at_ms.saturating_sub(self.base_ms) / self.width_ms;
        usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
    }

    /// Lowers the target by as many buckets as are not needed.
    fn let_go(&mut self) {
        let mut last = self.bucket_of(self.target_ms - 1);
        while last > 0 && self.len - self.counts[last] >= self.max {
            self.len -= self.counts[last];
            self.target_ms = self.base_ms + last as u64 * self.width_ms;
            self.beyond_ms = self.beyond_ms.min(self.target_ms);
            self.is_cut = true;
            last -= 1;
        }
        if self.len <= self.max.saturating_mul(2) || !self.again.is_empty() {
            return;
        }
        if self.earlier > self.max {
            self.base_ms = self.earliest_ms;
            self.width_ms = finer(self.target_ms - self.base_ms);
        } else if self.width_ms > 1 {
            self.base_ms += last as u64 * self.width_ms;
            self.width_ms = finer(self.width_ms);
        } else {
            return;
        }
        self.offer_all_again();
    }

    fn offer_all_again(&mut self) {
        std::mem::swap(&mut self.again, &mut self.found);
        self.counts.fill(0);
        (self.len, self.earlier) = (0, 0);
    }

    /// Offers some of what is to be offered again; answers whether that was all.
    pub(super) fn offer_some_again(&mut self) -> bool {
        for _ in 0..AGAIN_PER_STEP {
            let Some((at_ms, key)) = self.again.pop() else {
                self.let_go();
                return self.again.is_empty();
            };
            self.offer(at_ms, key);
        }
        false
    }

    /// Moves up to so many of what was found into a calendar, once everything was seen: into this one
    /// or, where that is made anew, into the fresh one. Answers how many it took out.
    pub(super) fn move_into(&mut self, calendar: &mut Calendar<PackedKey>, count: usize) -> usize {
        let stay = self.found.len().saturating_sub(count);
        let calendar = if self.from_ms == 0 { &mut self.fresh } else { calendar };
        let moved = self.found.drain(stay..);
        let count = moved.len();
        let target_ms = self.target_ms;
        let stays = moved.filter(|(at_ms, _)| *at_ms < target_ms);
        stays.for_each(|(at_ms, key)| calendar.insert(at_ms, key));
        count
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        (self.found.capacity() + self.again.capacity()) * size_of::<Due>()
            + self.counts.capacity() * size_of::<usize>()
            + self.fresh.heap_bytes()
    }
}

/// The width of one of the buckets that so long a time is divided into.
fn finer(span_ms: u64) -> u64 {
    span_ms.div_ceil(BUCKETS as u64).max(1)
}

#[cfg(test)]
mod tests;
