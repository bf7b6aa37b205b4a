//! The first timers of a list so far, in its order, with their views.
//!
//! A page uses the view that was read when the timer was found, if nothing has changed since: to read it
//! again would be half the work of a page. The memory of these views has the limit of the page. A timer
//! beyond it is read again when the page is filled.

use std::collections::{BTreeMap, VecDeque};

use duly_core::{Timestamp, Tombstone};
use duly_store::{TimerView, query::Position};

use crate::index::{Entry, Key};

/// Memory of a view without content. Each view takes more.
const VIEW_BYTES_MIN: u64 = size_of::<TimerView>() as u64 + size_of::<Tombstone>() as u64;

/// The first timers of a list so far.
#[derive(Debug)]
pub(super) struct FirstListed {
    /// Most timers: one more than a page takes.
    count_max: usize,
    listed: BTreeMap<Position, Listed>,
    kept_bytes: u64,
    kept_bytes_max: u64,
}

/// A timer that may be on the page.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) key: Key,
    entry: Entry,
    view: Option<TimerView>,
}

impl Listed {
    /// Takes the view, if the entry is still the same.
    pub(super) fn view_of(&mut self, entry: Option<&Entry>) -> Option<TimerView> {
        self.view.take_if(|_| entry == Some(&self.entry))
    }

    /// Drops the view.
    pub(super) fn forget(&mut self) {
        self.view = None;
    }

    fn bytes(&self) -> u64 {
        self.view.as_ref().map_or(0, TimerView::memory_bytes)
    }
}

/// Returns the most timers that can be on a page of `bytes_max` bytes of memory; at least one.
fn count_that_fits(bytes_max: u64) -> usize {
    usize::try_from(bytes_max / VIEW_BYTES_MIN).unwrap_or(usize::MAX).max(1)
}

impl FirstListed {
    /// Creates an empty collection for a page of at most `limit` timers and `kept_bytes_max` bytes of
    /// memory.
    pub(super) fn of(limit: usize, kept_bytes_max: u64) -> Self {
        let count_max = limit.min(count_that_fits(kept_bytes_max)) + 1;
        Self { count_max, listed: BTreeMap::new(), kept_bytes: 0, kept_bytes_max }
    }

    /// Returns `true` if a timer due at this time comes after all that a page takes.
    pub(super) fn is_full_before(&self, due_at: Timestamp) -> bool {
        let last = self.listed.last_key_value();
        self.listed.len() >= self.count_max
            && last.is_some_and(|(position, _)| due_at > position.due_at)
    }

    pub(super) fn offer(&mut self, view: TimerView, entry: &Entry, key: Key) {
        let position = Position::of(&view);
        let bytes = view.memory_bytes();
        let view = (self.kept_bytes + bytes <= self.kept_bytes_max).then_some(view);
        let listed = Listed { key, entry: *entry, view };
        self.kept_bytes += listed.bytes();
        let before = self.listed.insert(position, listed);
        let gone = if self.listed.len() > self.count_max {
            self.listed.pop_last().map(|(_, listed)| listed)
        } else {
            None
        };
        let freed = before.iter().chain(&gone).map(Listed::bytes).sum::<u64>();
        self.kept_bytes -= freed;
    }

    /// Returns the timers of the page that are due before the frontier, and `true` if there are more.
    pub(super) fn into_page(
        self,
        frontier_ms: Option<u64>,
    ) -> (VecDeque<(Position, Listed)>, bool) {
        let is_seen = |position: &Position| {
            frontier_ms.is_none_or(|frontier_ms| position.due_at.unix_ms() < frontier_ms)
        };
        let seen = self.listed.into_iter().filter(|(position, _)| is_seen(position));
        let mut page: VecDeque<_> = seen.collect();
        let more = page.len() >= self.count_max;
        page.truncate(self.count_max - 1);
        (page, more)
    }
}
