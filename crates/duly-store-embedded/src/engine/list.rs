//! Listing: a pass over an index of the namespace in small slices, so that it holds nothing else up.
//!
//! A pass keeps the `limit` + 1 smallest positions seen so far. It sees each timer that does not
//! change exactly once; what changes during the pass may be seen as it was or as it is. At the end
//! the page is read afresh, and what is no longer as it was listed is left out.

use std::collections::BTreeMap;

use duly_core::{Invalid, State, Timestamp};
use duly_store::{
    Error, ListRequest, Page, Result, TimerView,
    query::{ListState, PAGE_BYTES, PAGE_MAX, Position},
};

use crate::{
    files::ReadError,
    index::{Cursor, Entry, Index, Key, Kind},
};

use super::{Engine, namespaces::Namespace, view::Known};

/// Tables of a slice that only looks at memory.
const TABLES_PER_SLICE: usize = 16;
/// Records read in one slice.
const READS_PER_SLICE: usize = 256;
/// Bytes of records after which a slice ends.
const BYTES_PER_SLICE: u64 = 1 << 20;

/// A list under way.
#[derive(Debug)]
pub(crate) struct Listing {
    request: ListRequest,
    number: u32,
    source: Source,
    /// Where the pass goes on; `None` at the end.
    cursor: Option<Cursor>,
    /// Entries of the present table that are still to be looked at.
    rest: Vec<Entry>,
    smallest: BTreeMap<Position, Key>,
    /// Stubs that could not be read.
    damaged: Vec<(Key, ReadError)>,
}

/// Which structure is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Live,
    Stubs,
    Letters,
}

impl Source {
    fn index(self, namespace: &Namespace) -> &Index {
        match self {
            Self::Live => &namespace.live,
            Self::Stubs => namespace.stubs.index(),
            Self::Letters => namespace.letters.by_delivery(),
        }
    }
}

impl Listing {
    /// Begins a list.
    pub(crate) fn new(engine: &Engine, request: ListRequest) -> Result<Self> {
        if !(1..=PAGE_MAX).contains(&request.limit) {
            let allowed = format!("an integer from 1 to {PAGE_MAX}");
            return Err(Invalid::new("limit", request.limit, allowed).into());
        }
        let name = request.namespace.as_str();
        let number = engine
            .namespaces
            .number_of(&request.namespace)
            .ok_or_else(|| Error::UnknownNamespace(name.to_owned()))?;
        let source = match request.state {
            ListState::Only(State::Dead) => Source::Letters,
            ListState::Only(State::Finished | State::Cancelled) => Source::Stubs,
            ListState::Pending | ListState::Only(_) => Source::Live,
        };
        Ok(Self {
            request,
            number,
            source,
            cursor: Some(Cursor::START),
            rest: Vec::new(),
            smallest: BTreeMap::new(),
            damaged: Vec::new(),
        })
    }

    /// Goes on for one slice; the page when it is complete.
    pub(crate) fn slice(&mut self, engine: &mut Engine) -> Option<Result<Page>> {
        let page = match self.walk(engine) {
            false => None,
            true => Some(self.page(engine)),
        };
        for (key, error) in self.damaged.drain(..) {
            // Without room to write that, the next list finds it as it is.
            drop(engine.quarantine_stub(key, &error));
        }
        page
    }

    fn walk(&mut self, engine: &Engine) -> bool {
        let Some(namespace) = engine.namespaces.get(self.number) else {
            return true;
        };
        let index = self.source.index(namespace);
        let (mut reads, mut bytes) = (0, 0);
        for _ in 0..=TABLES_PER_SLICE {
            while let Some(entry) = self.rest.pop() {
                if self.look_at(engine, index, &entry) {
                    reads += 1;
                    bytes += entry.location().bytes_estimate();
                }
                if reads >= READS_PER_SLICE || bytes >= BYTES_PER_SLICE {
                    return false;
                }
            }
            let Some(scan) = self.cursor.and_then(|cursor| index.scan(cursor)) else {
                return true;
            };
            self.cursor = scan.next;
            self.rest.extend(scan.entries());
        }
        false
    }

    /// Looks at an entry; answers whether that took a read.
    fn look_at(&mut self, engine: &Engine, index: &Index, entry: &Entry) -> bool {
        // As it is now: it may have been moved, or have gone, since the table was looked at.
        let Some(entry) = &index.get(entry.key(self.number)) else {
            return false;
        };
        let claimable = entry.claimable();
        let may_be_listed = match self.source {
            // A first attempt's time is its due time: most entries are judged without a read.
            Source::Live => {
                self.request.state.admits(engine.state_of(entry))
                    && (claimable.kind == Kind::Retry || self.may_fit(claimable.at_ms))
            }
            Source::Letters => self.may_fit(claimable.at_ms),
            Source::Stubs => claimable.at_ms > engine.now.wall_ms,
        };
        if !may_be_listed {
            return false;
        }
        if let Some(view) = self.read(engine, entry) {
            self.offer(&view, entry);
        }
        true
    }

    /// Whether something due then can be on the page.
    fn may_fit(&self, due_ms: u64) -> bool {
        let due_at = Timestamp::saturating_from_unix_ms(due_ms);
        let after_start = self.request.due_from.is_none_or(|from| due_at >= from)
            && self.request.after.as_ref().is_none_or(|after| due_at >= after.due_at);
        let before_end = self.request.due_to.is_none_or(|to| due_at < to);
        let full = self.smallest.len() > self.request.limit;
        let last = self.smallest.last_key_value();
        after_start
            && before_end
            && !(full && last.is_some_and(|(position, _)| due_at > position.due_at))
    }

    fn read(&mut self, engine: &Engine, entry: &Entry) -> Option<TimerView> {
        let key = entry.key(self.number);
        let known = match self.source {
            Source::Live => Known::Live(key, *entry),
            Source::Stubs => Known::Ended(key, entry.location()),
            Source::Letters => Known::Dead(entry.location()),
        };
        // A timer that cannot be read is quarantined when it is claimed; a list leaves it out.
        match engine.view(&self.request.namespace, known) {
            Ok(view) => view,
            Err(error) => {
                if self.source == Source::Stubs {
                    self.damaged.push((key, error));
                }
                None
            }
        }
    }

    fn offer(&mut self, view: &TimerView, entry: &Entry) {
        if !self.admits(view) {
            return;
        }
        self.smallest.insert(Position::of(view), entry.key(self.number));
        if self.smallest.len() > self.request.limit + 1 {
            self.smallest.pop_last();
        }
    }

    fn admits(&self, view: &TimerView) -> bool {
        let request = &self.request;
        let position = Position::of(view);
        let tagged =
            |tag: &String| view.timer().is_some_and(|timer| timer.tags.as_slice().contains(tag));
        request.state.admits(view.state)
            && self.may_fit(view.due_at().unix_ms())
            && request.after.as_ref().is_none_or(|after| position > *after)
            && request
                .id_prefix
                .as_ref()
                .is_none_or(|prefix| view.id().as_str().starts_with(prefix.as_str()))
            && request.tag.as_ref().is_none_or(tagged)
    }

    fn page(&mut self, engine: &Engine) -> Result<Page> {
        let mut page = Page::default();
        let smallest = std::mem::take(&mut self.smallest);
        let listed = smallest.len();
        let mut more = listed > self.request.limit;
        let mut last = None;
        let mut bytes = 0;
        let index = engine.namespaces.get(self.number).map(|ns| self.source.index(ns));
        for (position, key) in smallest.into_iter().take(self.request.limit) {
            // A timer that has another place in the order by now comes there, or came before.
            let entry = index.and_then(|index| index.get(key));
            let view = entry.and_then(|entry| self.read(engine, &entry));
            let still_here = |view: &TimerView| {
                Position::of(view) == position && self.request.state.admits(view.state)
            };
            if let Some(view) = view.filter(still_here) {
                bytes += view.payload_bytes();
                page.timers.push(view);
            }
            last = Some(position);
            if bytes >= PAGE_BYTES {
                more |= listed > page.timers.len();
                break;
            }
        }
        page.next = if more { last } else { None };
        Ok(page)
    }
}
