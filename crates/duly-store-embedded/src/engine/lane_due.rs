//! The due timers of one lane and kind, from the time when they become due until they are claimed or leave
//! otherwise (rule 5). A lane is one queue of a namespace: for its default destination, for its consumers, for
//! the receivers of one origin, or for the origins that got no lane ([`super::lanes`]). The kinds are first
//! attempts and retries.
//!
//! ```text
//!   due order  ───────────────────────────────────────────────►
//!              [ resident window: at most `capacity` ][ spilled: in the index only, counted ]
//!              [ unreadable: of any time, in the index only, counted ]
//! ```
//!
//! The index has an entry for each pending timer, in no order of time. A backlog may be as large as the store,
//! so a sorted queue of all due timers would cost as much memory again. Only the earliest are in a queue, the
//! window, as *places*: the time of the timer, the location of its record, and its key. Due order is the order
//! of places: by time, then by location, so that a claim reads neighbouring records together. Of the other due
//! timers this module keeps the number, and a lower bound of the times of the unreadable ones. An index entry
//! has the flag *counted due* while its timer is in one of the three groups: resident, spilled or unreadable.
//!
//! 1. A timer that becomes due enters the window if it is earlier than the last one of the window, or if
//!    nothing is spilled and the window is not full. Otherwise it is spilled.
//! 2. A window that has more than `capacity` timers after that spills its last one. `capacity` is the
//!    configured most, but smaller while all windows together hold very many timers. A refill of a large
//!    backlog may fill a window beyond `capacity`; until it has shrunk again, each timer that enters pushes the
//!    last one out.
//! 3. When the window holds less than a quarter of its capacity and timers are spilled, the lane asks for a
//!    refill. One refill runs at a time; a claim may fill an empty window at once. A refill walks the index for
//!    the earliest spilled timers ([`super::refill`]). The walk may have passed the entry of a timer that is
//!    spilled meanwhile, so such timers are also noted. At each step, the noted timers up to the last one that
//!    this step adds enter too, as far as the window has space. If a note that was dropped may belong there,
//!    the refill ends early; another one begins when the window is low.
//! 4. A timer whose record could not be read because of a disk error has the flag *unreadable* in addition to
//!    *counted due*. Claims and refills skip it. [`super::unreadable`] sets the flag. It removes the flag when
//!    a later read meets no error of the disk, and the timer enters by rule 1.
//! 5. A timer leaves when it is claimed, cancelled or replaced, expires, waits again or is deferred after a
//!    step back of the clock, or gets another time. If the new time has come, it becomes due again by rule 1
//!    when its record is on disk.
//!
//! What must stay true:
//!
//! 1. If the window is not empty, no spilled timer is earlier than the last one of the window. There are two
//!    exceptions. A timer that came during a refill may be earlier than those that the refill adds, until it
//!    ends. And timers of the same millisecond are ordered by location, which the rewriter changes; Duly
//!    promises no order within a millisecond.
//! 2. A place in the window has the present time and the present location of its entry: it is replaced when the
//!    rewriter moves the record.
//! 3. The length (resident, spilled and unreadable) is the exact number of entries of this lane and kind with
//!    the flag *counted due*.

use std::collections::BTreeSet;

use crate::index::{Entry, PackedKey};

use super::earliest::Earliest;

/// A place in due order. Timers of one instant are in the order of their records in the files, so a claim
/// reads them in a few long reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DuePlace {
    pub(crate) at_ms: u64,
    file_order: u64,
    pub(crate) key: PackedKey,
}

impl DuePlace {
    /// Returns the place of an entry, which is valid until its record moves.
    pub(crate) fn of(number: u32, entry: &Entry) -> Self {
        let file_order = entry.location().order();
        Self { at_ms: entry.claimable().at_ms, file_order, key: entry.key(number).pack() }
    }

    /// Returns the place after all timers of one instant.
    pub(crate) const fn behind(at_ms: u64) -> Self {
        Self { at_ms, file_order: u64::MAX, key: [u8::MAX; 12] }
    }
}

/// The due timers of one lane and kind.
#[derive(Debug, Default)]
pub(crate) struct LaneDue {
    window: BTreeSet<DuePlace>,
    spilled: u64,
    unreadable: u64,
    /// Lower bound of the times of the unreadable timers; the earliest may be gone by now.
    unreadable_from_ms: u64,
    /// During a refill: timers that became due since it began, and that its walk may have missed.
    late: Option<Earliest<DuePlace>>,
}

impl LaneDue {
    /// Returns the number of all due timers: resident, spilled and unreadable.
    pub(crate) fn len(&self) -> u64 {
        self.claimable() + self.unreadable
    }

    /// Returns the number of timers that can be claimed, as far as is known.
    pub(crate) fn claimable(&self) -> u64 {
        self.window.len() as u64 + self.spilled
    }

    /// Returns the number of unreadable timers.
    pub(crate) const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the resident window, in due order.
    pub(crate) const fn window(&self) -> &BTreeSet<DuePlace> {
        &self.window
    }

    /// Returns the time of the earliest resident or unreadable timer.
    pub(crate) fn first_ms(&self) -> Option<u64> {
        let known_ms = Some(self.unreadable_from_ms).filter(|from_ms| *from_ms < u64::MAX);
        let unreadable = known_ms.filter(|_| self.unreadable > 0);
        self.window.first().map(|place| place.at_ms).into_iter().chain(unreadable).min()
    }

    /// Returns `true` if some claimable timers are spilled.
    pub(crate) const fn has_spilled(&self) -> bool {
        self.spilled > 0
    }

    /// Returns `true` if some timers are in the index only.
    pub(crate) const fn has_nonresident(&self) -> bool {
        self.spilled > 0 || self.unreadable > 0
    }

    /// Adds an entry that became due. At most `capacity` stay in the window.
    pub(crate) fn add(&mut self, place: DuePlace, capacity: usize) {
        let belongs = match self.window.last() {
            _ if self.spilled == 0 && self.window.len() < capacity => true,
            Some(last) => place < *last,
            None => false,
        };
        if !belongs {
            self.spilled += 1;
            if let Some(late) = &mut self.late {
                late.offer(place);
            }
            return;
        }
        if self.window.insert(place)
            && self.window.len() > capacity
            && let Some(last) = self.window.pop_last()
        {
            self.spilled += 1;
            // The walk of a refill may have passed it.
            if let Some(late) = &mut self.late {
                late.offer(last);
            }
        }
    }

    /// Removes an entry that was added before.
    pub(crate) fn remove(&mut self, place: DuePlace) {
        if !self.window.remove(&place) {
            debug_assert!(self.spilled > 0, "a timer that is counted as due was added");
            self.spilled = self.spilled.saturating_sub(1);
        }
    }

    /// Counts an entry that was added before as unreadable.
    pub(crate) fn mark_unreadable(&mut self, place: DuePlace) {
        self.remove(place);
        let from_ms = if self.unreadable == 0 { u64::MAX } else { self.unreadable_from_ms };
        self.unreadable_from_ms = from_ms.min(place.at_ms);
        self.unreadable += 1;
    }

    /// Removes an unreadable entry.
    pub(crate) fn remove_unreadable(&mut self) {
        debug_assert!(self.unreadable > 0, "a timer with the flag was marked as unreadable");
        self.unreadable = self.unreadable.saturating_sub(1);
    }

    /// Updates the place of a record that has moved. Returns `true` if it is in the window.
    pub(crate) fn relocate(&mut self, from: DuePlace, to: DuePlace) -> bool {
        let is_held = self.window.remove(&from);
        if is_held {
            self.window.insert(to);
        }
        is_held
    }

    /// Returns `true` if a refill is under way or asked for.
    pub(crate) const fn is_refilled(&self) -> bool {
        self.late.is_some()
    }

    /// Corrects the length, and the number of unreadable timers in it.
    pub(crate) fn correct_len(&mut self, len: u64, unreadable: u64) {
        if self.unreadable == 0 {
            // The times of these are unknown.
            self.unreadable_from_ms = u64::MAX;
        }
        self.unreadable = unreadable;
        self.spilled = len.saturating_sub(unreadable).saturating_sub(self.window.len() as u64);
    }

    /// Begins a refill if the window runs low. Returns `true` if it did.
    pub(crate) fn begin_refill(&mut self, capacity: usize) -> bool {
        let low = self.spilled > 0 && self.window.len() < capacity.div_ceil(4);
        let begins = low && self.late.is_none();
        if begins {
            self.late = Some(Earliest::new(capacity));
        }
        begins
    }

    /// Takes out the timers up to `until` that became due since the refill began; `None` if some of them
    /// were dropped.
    pub(crate) fn late_until(&mut self, until: DuePlace) -> Option<Vec<DuePlace>> {
        let Some(late) = &mut self.late else {
            return Some(Vec::new());
        };
        let is_complete = late.last.is_none_or(|last| until <= last);
        is_complete.then(|| late.take_until(until))
    }

    /// Returns `true` if no timer that became due since the refill began was dropped.
    pub(crate) fn has_all_late(&self) -> bool {
        self.late.as_ref().is_none_or(|late| late.last.is_none())
    }

    /// Ends the refill. Returns the timers that became due since it began and were not taken out,
    /// unordered and as far as they are known.
    pub(crate) fn end_refill(&mut self) -> Vec<DuePlace> {
        self.late.take().map(|late| late.into_parts().0).unwrap_or_default()
    }

    /// Moves a spilled timer into the window.
    pub(crate) fn make_resident(&mut self, place: DuePlace) {
        if self.spilled > 0 && self.window.insert(place) {
            self.spilled -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LaneDue {
        /// Spills the whole window.
        pub(crate) fn spill_all(&mut self) {
            self.spilled += self.window.len() as u64;
            self.window.clear();
        }
    }

    fn place(at_ms: u64) -> DuePlace {
        DuePlace { at_ms, file_order: 0, key: [0; 12] }
    }

    fn held(overdue: &LaneDue) -> Vec<u64> {
        overdue.window().iter().map(|place| place.at_ms).collect()
    }

    #[test]
    fn the_window_holds_the_earliest_and_the_rest_is_counted() {
        let mut overdue = LaneDue::default();
        for at_ms in [5, 3, 9, 1, 7] {
            overdue.add(place(at_ms), 3);
        }
        assert_eq!((held(&overdue), overdue.len()), (vec![1, 3, 5], 5));
        overdue.remove(place(3));
        overdue.remove(place(9));
        assert_eq!((held(&overdue), overdue.len()), (vec![1, 5], 3));
        overdue.add(place(6), 3);
        assert_eq!(held(&overdue), [1, 5], "7 is hidden and earlier ones may be too");
        overdue.add(place(2), 3);
        assert_eq!(held(&overdue), [1, 2, 5]);
        assert_eq!(overdue.len(), 5);
    }

    #[test]
    fn refill_reports_dropped_late_timers() {
        let mut overdue = LaneDue::default();
        (1..=8).for_each(|at_ms| overdue.add(place(at_ms), 4));
        (1..=4).for_each(|at_ms| overdue.remove(place(at_ms)));
        assert!(overdue.begin_refill(4));
        (20..=26).for_each(|at_ms| overdue.add(place(at_ms), 4));
        assert!(overdue.has_all_late());
        overdue.add(place(27), 4);
        assert!(!overdue.has_all_late());
        assert_eq!(overdue.late_until(place(24)), None, "24 was let go");
        let mut late = overdue.late_until(place(23)).expect("these are known");
        late.sort_unstable();
        assert_eq!(late, [20, 21, 22, 23].map(place));
    }

    #[test]
    fn refill_begins_once_and_collects_late_timers() {
        let mut overdue = LaneDue::default();
        (1..=8).for_each(|at_ms| overdue.add(place(at_ms), 4));
        assert!(!overdue.begin_refill(4), "the window is full");
        (1..=4).for_each(|at_ms| overdue.remove(place(at_ms)));
        assert!(overdue.begin_refill(4));
        assert!(!overdue.begin_refill(4), "one at a time");
        overdue.add(place(6), 4);
        assert_eq!(overdue.late_until(place(5)), Some(Vec::new()));
        assert_eq!(overdue.end_refill(), [place(6)]);
        [5, 6, 6].into_iter().for_each(|at_ms| overdue.make_resident(place(at_ms)));
        assert_eq!((held(&overdue), overdue.len()), (vec![5, 6], 5));
    }
}
