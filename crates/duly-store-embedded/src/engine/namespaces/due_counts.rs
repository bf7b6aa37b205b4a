//! Counts of due timers over all lanes. They are updated with every change, so the health of a store with
//! a very large number of namespaces needs no walk over them.

use std::collections::BTreeSet;

use super::super::{lane_due::LaneDue, refill::LaneKindKey};

/// Counts over the lanes of all namespaces.
#[derive(Debug, Default)]
pub(super) struct DueCounts {
    /// Due timers in the resident windows.
    pub(super) resident: usize,
    /// All due timers.
    pub(super) len: u64,
    /// Of these, the unreadable ones.
    pub(super) unreadable: u64,
    /// Earliest due timer of each lane, as far as it is known.
    firsts: BTreeSet<(u64, LaneKindKey)>,
}

impl DueCounts {
    /// Returns the time of the earliest due timer, if it is known.
    pub(super) fn first_ms(&self) -> Option<u64> {
        self.firsts.first().map(|(at_ms, _)| *at_ms)
    }

    /// Changes the due timers of a lane, and updates the counts.
    pub(super) fn change(
        &mut self,
        place: LaneKindKey,
        due: &mut LaneDue,
        change: impl FnOnce(&mut LaneDue),
    ) {
        let (before, first_ms) = (LaneCounts::of(due), due.first_ms());
        change(due);
        let after = LaneCounts::of(due);
        self.resident = self.resident + after.resident - before.resident;
        self.len = self.len + after.len - before.len;
        self.unreadable = self.unreadable + after.unreadable - before.unreadable;
        if first_ms != due.first_ms() {
            if let Some(at_ms) = first_ms {
                self.firsts.remove(&(at_ms, place));
            }
            self.firsts.extend(due.first_ms().map(|at_ms| (at_ms, place)));
        }
    }

    /// Removes a lane with all its due timers from the counts.
    pub(super) fn forget(&mut self, place: LaneKindKey, due: &LaneDue) {
        let seen = LaneCounts::of(due);
        self.resident -= seen.resident;
        self.len -= seen.len;
        self.unreadable -= seen.unreadable;
        if let Some(at_ms) = due.first_ms() {
            self.firsts.remove(&(at_ms, place));
        }
    }
}

struct LaneCounts {
    resident: usize,
    len: u64,
    unreadable: u64,
}

impl LaneCounts {
    fn of(due: &LaneDue) -> Self {
        Self { resident: due.window().len(), len: due.len(), unreadable: due.unreadable() }
    }
}
