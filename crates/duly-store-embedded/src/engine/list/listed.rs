//! The first timers of a list so far, in its order, with what was read of them.
//!
//! A page holds what was read when it was found, where nothing has changed since: reading it again
//! would be half the work of a page. The payloads that are kept have a bound; beyond it a timer is read
//! again when its page is filled.

use std::collections::{BTreeMap, VecDeque};

use duly_core::Timestamp;
use duly_store::{
    TimerView,
    query::{PAGE_BYTES, Position},
};

use crate::index::{Entry, Key};

/// See the module.
#[derive(Debug)]
pub(super) struct Smallest {
    /// At most so many, one more than a page takes.
    count_max: usize,
    listed: BTreeMap<Position, Listed>,
    kept_bytes: u64,
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

    fn bytes(&self) -> u64 {
        self.view.as_ref().map_or(0, TimerView::payload_bytes)
    }
}

impl Smallest {
    pub(super) const fn of(limit: usize) -> Self {
        Self { count_max: limit + 1, listed: BTreeMap::new(), kept_bytes: 0 }
    }

    /// Whether something due then is behind all that a page takes.
    pub(super) fn is_full_before(&self, due_at: Timestamp) -> bool {
        let last = self.listed.last_key_value();
        self.listed.len() >= self.count_max
            && last.is_some_and(|(position, _)| due_at > position.due_at)
    }

    pub(super) fn offer(&mut self, view: TimerView, entry: &Entry, key: Key) {
        let position = Position::of(&view);
        let bytes = view.payload_bytes();
        let view = (self.kept_bytes + bytes <= PAGE_BYTES).then_some(view);
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
