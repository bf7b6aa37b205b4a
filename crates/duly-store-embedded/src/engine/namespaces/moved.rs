//! Moves of records: updates what a namespace keeps about a pending timer whose record moves.

use crate::index::{AttemptKind, Flags, Key, Location};

use super::{DuePlace, Namespace};

/// A pending timer whose record has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The timer is due and in its lane's resident window.
    InWindow,
    Elsewhere,
}

impl Namespace {
    /// Updates the location of a pending timer, if its entry still points at the old one. Returns the
    /// kind of timer, or `None` if nothing moved.
    pub(crate) fn relocate(&mut self, key: Key, from: Location, to: Location) -> Option<Moved> {
        let before = self.live.relocate(key, from, to)?;
        if before.flags().has(Flags::COUNTED_DUE)
            && let Some(lane) = self.lanes.get_mut(before.lane())
        {
            let place = |entry: &crate::index::Entry| DuePlace::of(key.namespace(), entry);
            let due = lane.due_mut(before.claimable().kind);
            if due.relocate(place(&before), place(&before.at(to))) {
                return Some(Moved::InWindow);
            }
        }
        Some(Moved::Elsewhere)
    }

    /// Returns the count of unleased timers of this kind.
    pub(crate) const fn waiting_mut(&mut self, kind: AttemptKind) -> &mut u64 {
        match kind {
            AttemptKind::First => &mut self.first,
            AttemptKind::Retry => &mut self.retrying,
        }
    }
}
