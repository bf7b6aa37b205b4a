//! The catch of a sweep: the timers of one kind that it has found, about as many of the earliest as a
//! calendar should hold.
//!
//! ```text
//!   base                                  target
//!    │ count │ count │ count │ … │ count │ dropped │ dropped │
//! ```
//!
//! 1. Found timers are counted in buckets of time.
//! 2. If there are too many, the last buckets are dropped: the target moves back. No timer is visited for
//!    that.
//! 3. Timers after the target are removed when they are visited again. That is when they move into a
//!    calendar, or when there are as many of them as a calendar should hold. Then all found timers are
//!    offered once more, some of them each step.
//! 4. If one bucket alone is too large, it is divided into finer ones, and the buckets begin there. A
//!    bucket of one millisecond is taken whole.
//! 5. Timers before the first bucket are counted in it. If they are too many, the buckets begin with the
//!    earliest.

use duly_wheel::Calendar;

use crate::index::PackedKey;

use super::{AHEAD_MS, DueTimer, KindHorizon, SOON_MS};

/// Number of buckets.
const BUCKETS: usize = 1_024;
/// Entries that one step offers again.
const AGAIN_PER_STEP: usize = 32_768;

/// The timers of one kind that a sweep has found.
#[derive(Debug)]
pub(super) struct SweptTimers {
    /// Start of the span: the end of the calendar, or 0 to rebuild it.
    pub(super) from_ms: u64,
    /// Time before which a timer counts as soon.
    pub(super) soon_ms: u64,
    pub(super) target_ms: u64,
    found: Vec<DueTimer>,
    /// Found timers that will be offered again.
    again: Vec<DueTimer>,
    /// Start of the first bucket. Earlier timers are counted in it.
    base_ms: u64,
    /// Number of those earlier timers.
    earlier: usize,
    /// Earliest time that was offered.
    earliest_ms: u64,
    width_ms: u64,
    counts: Vec<usize>,
    /// Sum of the counts: the timers of `found` before the target.
    len: usize,
    /// Approximate number of timers at the end.
    max: usize,
    /// Calendar that is rebuilt. The old one is used until this one is complete.
    pub(super) fresh: Calendar<PackedKey>,
    pub(super) is_cut: bool,
    /// Lower bound of the times that were seen after the target.
    pub(super) beyond_ms: u64,
}

impl SweptTimers {
    pub(super) fn new(horizon: &KindHorizon, now_ms: u64, max: usize) -> Self {
        let is_full = horizon.calendar.len() > horizon.full_at;
        let from_ms = if is_full { 0 } else { horizon.end_ms };
        let target_ms = now_ms.saturating_add(AHEAD_MS).max(horizon.end_ms);
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

    /// Adds a timer that came during the sweep. If the walk is complete, it is added to the calendar that
    /// is filled now.
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
            self.drop_last_buckets();
        }
        if self.found.len() - self.len > self.max && self.again.is_empty() {
            self.offer_all_again();
        }
    }

    fn bucket_of(&self, at_ms: u64) -> usize {
        let bucket = at_ms.saturating_sub(self.base_ms) / self.width_ms;
        usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
    }

    /// Moves the target back by as many buckets as are not needed.
    fn drop_last_buckets(&mut self) {
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

    /// Offers some timers again. Returns `true` if none is left.
    pub(super) fn offer_some_again(&mut self) -> bool {
        for _ in 0..AGAIN_PER_STEP {
            let Some((at_ms, key)) = self.again.pop() else {
                self.drop_last_buckets();
                return self.again.is_empty();
            };
            self.offer(at_ms, key);
        }
        false
    }

    /// Moves up to `count` found timers into `calendar`, or into the rebuilt one, once the walk is
    /// complete. Returns how many it took out.
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
        (self.found.capacity() + self.again.capacity()) * size_of::<DueTimer>()
            + self.counts.capacity() * size_of::<usize>()
            + self.fresh.heap_bytes()
    }
}

/// Returns the width of one bucket of a span of time.
fn finer(span_ms: u64) -> u64 {
    span_ms.div_ceil(BUCKETS as u64).max(1)
}

#[cfg(test)]
mod tests;
