//! Counts of due timers over all lanes. They are updated with every change, so the health of a store with
//! a very large number of namespaces needs no walk over them.

use std::collections::BTreeSet;

use crate::index::Kind;

use super::super::overdue::Overdue;

/// A lane's timers of a kind: namespace, lane, kind.
pub(super) type Place = (u32, u8, Kind);

/// Counts over the lanes of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Dues {
    /// Due timers in the resident windows.
    held: usize,
    /// All due timers.
    len: u64,
    /// Of these, the unreadable ones.
    aside: u64,
    /// Earliest due timer of each lane, as far as it is known.
    firsts: BTreeSet<(u64, Place)>,
}

impl Dues {
    pub(super) const fn held(&self) -> usize {
        self.held
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn aside(&self) -> u64 {
        self.aside
    }

    /// Returns the time of the earliest due timer, if it is known.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.firsts.first().map(|(at_ms, _)| *at_ms)
    }

    /// Changes the due timers of a lane, and updates the counts.
    pub(super) fn change<T>(
        &mut self,
        place: Place,
        due: &mut Overdue,
        change: impl FnOnce(&mut Overdue) -> T,
    ) -> T {
        let (before, first_ms) = (Seen::of(due), due.first_ms());
        let answer = change(due);
        let after = Seen::of(due);
        self.held = self.held + after.held - before.held;
        self.len = self.len + after.len - before.len;
        self.aside = self.aside + after.aside - before.aside;
        if first_ms != due.first_ms() {
            if let Some(at_ms) = first_ms {
                self.firsts.remove(&(at_ms, place));
            }
            self.firsts.extend(due.first_ms().map(|at_ms| (at_ms, place)));
        }
        answer
    }

    /// Removes a lane with all its due timers from the counts.
    pub(super) fn forget(&mut self, place: Place, due: &Overdue) {
        let seen = Seen::of(due);
        self.held -= seen.held;
        self.len -= seen.len;
        self.aside -= seen.aside;
        if let Some(at_ms) = due.first_ms() {
            self.firsts.remove(&(at_ms, place));
        }
    }
}

struct Seen {
    held: usize,
    len: u64,
    aside: u64,
}

impl Seen {
    fn of(due: &Overdue) -> Self {
        Self { held: due.window().len(), len: due.len(), aside: due.aside() }
    }
}
