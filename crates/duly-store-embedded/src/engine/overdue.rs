//! What is due in a lane, of one kind: the earliest in a window, the rest only counted.
//!
//! ```text
//!   due order  ───────────────────────────────────────────────►
//!              [ window: held here, at most `room` ][ hidden: in the index only, counted ]
//!              [ aside: of any time, in the index only, counted: cannot be read now ]
//! ```
//!
//! A backlog may be as large as the store, so it is not held twice. What is counted here carries
//! the flag *surfaced* in the index; when the window runs low, a pass over the namespace's index
//! finds the next ones ([`super::refill`]). What is *aside* carries a flag of that name as well and is
//! passed over by both: [`super::aside`] brings it back.
//!
//! Invariants: nothing hidden is earlier than the last of a window that is not empty, but for what
//! surfaced or came back while a refill was under way, which the end of that refill puts right, and for records
//! that moved, which is a matter within one instant; each place in the window is that of its entry
//! as it stands now; the length is the exact count of the surfaced entries of the lane and kind.

use std::collections::BTreeSet;

use crate::index::{Entry, PackedKey};

use super::earliest::Earliest;

/// A place in due order. What is due at one instant is in the order in which its records stand in the
/// files, so that those of one claim are a few long reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) at_ms: u64,
    stands: u64,
    pub(crate) key: PackedKey,
}

impl Place {
    /// That of an entry of a namespace, until its record moves.
    pub(crate) fn of(number: u32, entry: &Entry) -> Self {
        let stands = entry.location().order();
        Self { at_ms: entry.claimable().at_ms, stands, key: entry.key(number).pack() }
    }

    /// Behind everything of one instant.
    pub(crate) const fn behind(at_ms: u64) -> Self {
        Self { at_ms, stands: u64::MAX, key: [u8::MAX; 12] }
    }
}

/// The due timers of one lane and kind.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    window: BTreeSet<Place>,
    hidden: u64,
    aside: u64,
    /// Nothing that is aside is earlier; one that was may have gone since.
    aside_from_ms: u64,
    /// While a refill is under way: what surfaced since it began and may have been passed by.
    late: Option<Earliest<Place>>,
}

impl Overdue {
    /// All that is due, hidden, aside or not.
    pub(crate) fn len(&self) -> u64 {
        self.claimable() + self.aside
    }

    /// What can be claimed as far as is known.
    pub(crate) fn claimable(&self) -> u64 {
        self.window.len() as u64 + self.hidden
    }

    /// What cannot be read now.
    pub(crate) const fn aside(&self) -> u64 {
        self.aside
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is held, in due order.
    pub(crate) const fn window(&self) -> &BTreeSet<Place> {
        &self.window
    }

    /// The time of the earliest that is held or aside.
    pub(crate) fn first_ms(&self) -> Option<u64> {
        let known_ms = Some(self.aside_from_ms).filter(|from_ms| *from_ms < u64::MAX);
        let aside = known_ms.filter(|_| self.aside > 0);
        self.window.first().map(|place| place.at_ms).into_iter().chain(aside).min()
    }

    /// Whether part of what can be claimed is hidden.
    pub(crate) const fn has_hidden(&self) -> bool {
        self.hidden > 0
    }

    /// Whether some of it is in the index only.
    pub(crate) const fn has_unheld(&self) -> bool {
        self.hidden > 0 || self.aside > 0
    }

    /// Adds an entry that surfaced, keeping at most `room` in the window.
    pub(crate) fn add(&mut self, place: Place, room: usize) {
        let belongs = match self.window.last() {
            _ if self.hidden == 0 && self.window.len() < room => true,
            Some(last) => place < *last,
            None => false,
        };
        if !belongs {
            self.hidden += 1;
            if let Some(late) = &mut self.late {
                late.offer(place);
            }
            return;
        }
        if self.window.insert(place)
            && self.window.len() > room
            && let Some(last) = self.window.pop_last()
        {
            self.hidden += 1;
            // A refill may have passed it by.
            if let Some(late) = &mut self.late {
                late.offer(last);
            }
        }
    }

    /// Takes out an entry that was added before.
    pub(crate) fn remove(&mut self, place: Place) {
        if !self.window.remove(&place) {
            debug_assert!(self.hidden > 0, "what is surfaced was added");
            self.hidden = self.hidden.saturating_sub(1);
        }
    }

    /// Sets an entry aside that was added before.
    pub(crate) fn set_aside(&mut self, place: Place) {
        self.remove(place);
        let from_ms = if self.aside == 0 { u64::MAX } else { self.aside_from_ms };
        self.aside_from_ms = from_ms.min(place.at_ms);
        self.aside += 1;
    }

    /// Takes out an entry that was set aside.
    pub(crate) fn remove_aside(&mut self) {
        debug_assert!(self.aside > 0, "what carries the flag was set aside");
        self.aside = self.aside.saturating_sub(1);
    }

    /// Follows a record that has moved; answers whether it is held.
    pub(crate) fn relocate(&mut self, from: Place, to: Place) -> bool {
        let is_held = self.window.remove(&from);
        if is_held {
            self.window.insert(to);
        }
        is_held
    }

    /// Whether a refill is under way or asked for.
    pub(crate) const fn is_refilled(&self) -> bool {
        self.late.is_some()
    }

    /// Corrects the length, and how much of it is aside, to what was counted otherwise.
    pub(crate) fn correct_len(&mut self, len: u64, aside: u64) {
        if self.aside == 0 {
            // Of which times these are nobody knows.
            self.aside_from_ms = u64::MAX;
        }
        self.aside = aside;
        self.hidden = len.saturating_sub(aside).saturating_sub(self.window.len() as u64);
    }

    /// Loses the window, for tests.
    #[cfg(test)]
    pub(crate) fn hide_all(&mut self) {
        self.hidden += self.window.len() as u64;
        self.window.clear();
    }

    /// Begins a refill if the window runs low; answers whether it did.
    pub(crate) fn begin_refill(&mut self, room: usize) -> bool {
        let low = self.hidden > 0 && self.window.len() < room.div_ceil(4);
        let begins = low && self.late.is_none();
        if begins {
            self.late = Some(Earliest::new(room));
        }
        begins
    }

    /// What surfaced since the refill began and is not behind a place; `None` if some of that was let go.
    pub(crate) fn late_until(&mut self, until: Place) -> Option<Vec<Place>> {
        let Some(late) = &mut self.late else {
            return Some(Vec::new());
        };
        let is_complete = late.complete_until().is_none_or(|last| until <= last);
        is_complete.then(|| late.take_until(until))
    }

    /// Whether none of what surfaced since the refill began was let go.
    pub(crate) fn knows_all_late(&self) -> bool {
        self.late.as_ref().is_none_or(|late| late.complete_until().is_none())
    }

    /// What surfaced since the refill began, and was not taken out yet, in no order, as far as it is
    /// known; ends the refill.
    pub(crate) fn end_refill(&mut self) -> Vec<Place> {
        self.late.take().map(|late| late.into_parts().0).unwrap_or_default()
    }

    /// Brings something hidden into the window.
    pub(crate) fn unhide(&mut self, place: Place) {
        if self.hidden > 0 && self.window.insert(place) {
            self.hidden -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at_ms: u64) -> Place {
        Place { at_ms, stands: 0, key: [0; 12] }
    }

    fn held(overdue: &Overdue) -> Vec<u64> {
        overdue.window().iter().map(|place| place.at_ms).collect()
    }

    #[test]
    fn the_window_holds_the_earliest_and_the_rest_is_counted() {
        let mut overdue = Overdue::default();
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
    fn a_refill_says_when_very_much_surfaced_meanwhile_and_some_was_let_go() {
        let mut overdue = Overdue::default();
        (1..=8).for_each(|at_ms| overdue.add(place(at_ms), 4));
        (1..=4).for_each(|at_ms| overdue.remove(place(at_ms)));
        assert!(overdue.begin_refill(4));
        (20..=26).for_each(|at_ms| overdue.add(place(at_ms), 4));
        assert!(overdue.knows_all_late());
        overdue.add(place(27), 4);
        assert!(!overdue.knows_all_late());
        assert_eq!(overdue.late_until(place(24)), None, "24 was let go");
        let mut late = overdue.late_until(place(23)).expect("these are known");
        late.sort_unstable();
        assert_eq!(late, [20, 21, 22, 23].map(place));
    }

    #[test]
    fn a_refill_begins_once_and_sees_what_surfaced_meanwhile() {
        let mut overdue = Overdue::default();
        (1..=8).for_each(|at_ms| overdue.add(place(at_ms), 4));
        assert!(!overdue.begin_refill(4), "the window is full");
        (1..=4).for_each(|at_ms| overdue.remove(place(at_ms)));
        assert!(overdue.begin_refill(4));
        assert!(!overdue.begin_refill(4), "one at a time");
        overdue.add(place(6), 4);
        assert_eq!(overdue.late_until(place(5)), Some(Vec::new()));
        assert_eq!(overdue.end_refill(), [place(6)]);
        [5, 6, 6].into_iter().for_each(|at_ms| overdue.unhide(place(at_ms)));
        assert_eq!((held(&overdue), overdue.len()), (vec![5, 6], 5));
    }
}
