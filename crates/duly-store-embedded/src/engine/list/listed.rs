//! The first timers of a list so far, in its order, with what was read of them.
//!
//! A page holds what was read when it was found, where nothing has changed since: reading it again
//! would be half the work of a page. The memory of what is kept has the bound of the page; beyond it a
//! timer is read again when its page is filled.

use std::collections::{BTreeMap, VecDeque};

use duly_core::{Timestamp, Tombstone};
use duly_store::{TimerView, query::Position};

use crate::index::{Entry, Key};

/// Memory of a view without anything in it: each takes more.
const VIEW_BYTES_MIN: u64 = size_of::<TimerView>() as u64 + size_of::<Tombstone>() as u64;

/// See the module.
#[derive(Debug)]
pub(super) struct Smallest {
    /// At most so many, one more than a page takes.
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
    /// What was read of it, if its entry is still the same.
    pub(super) fn view_of(&mut self, entry: Option<&Entry>) -> Option<TimerView> {
        self.view.take_if(|_| entry == Some(&self.entry))
    }

    /// Lets go of what was read of it.
    pub(super) fn forget(&mut self) {
        self.view = None;
    }

    fn bytes(&self) -> u64 {
        self.view.as_ref().map_or(0, TimerView::memory_bytes)
    }
}

/// Returns how many timers can be on a page of so many bytes of memory, at most; at least one.
fn count_that_fits(bytes_max: u64) -> usize {
    usize::try_from(bytes_max / VIEW_BYTES_MIN).unwrap_or(usize::MAX).max(1)
}

impl Smallest {
    /// None yet of a page that takes at most so many timers and bytes of memory.
    pub(super) fn of(limit: usize, kept_bytes_max: u64) -> Self {
        let count_max = limit.min(count_that_fits(kept_bytes_max)) + 1;
        Self { count_max, listed: BTreeMap::new(), kept_bytes: 0, kept_bytes_max }
    }

    /// Whether something due then is behind all that a page takes.
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

    /// What goes on the page, of what is due before the frontier, and whether there is more.
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
