//! Listing: a pass over the index in small slices, so that it holds nothing else up.
//!
//! A pass keeps the `limit` + 1 smallest positions seen so far. An entry never leaves its table
//! while its timer is unchanged, so one pass sees each such timer exactly once; what changes
//! during the pass may be seen as it was or as it is. At the end the page is read afresh, and what
//! is no longer as it was listed is left out.
//!
//! The cost of a call is one pass over the index whatever the page holds; runs sorted by namespace
//! would make it a seek.

use std::collections::BTreeMap;

use duly_core::{Invalid, State, Timestamp};
use duly_store::{
    Error, ListRequest, Page, Result, TimerView,
    query::{ListState, PAGE_BYTES, PAGE_MAX, Position},
};

use crate::index::{Entry, Index, Kind, TABLES};

use super::{Engine, view::Known};

/// Tables of a slice that only looks at memory.
const TABLES_PER_SLICE: usize = 64;
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
    table: usize,
    /// Entries of the present table that are still to be looked at.
    rest: Vec<Entry>,
    /// Where the walk over dead letters is.
    letter: Option<(u64, u128)>,
    smallest: BTreeMap<Position, Found>,
}

/// Which structure is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Live,
    Stubs,
    Letters,
}

/// Something that may be on the page.
#[derive(Debug, Clone, Copy)]
enum Found {
    Live(Entry),
    Stub(Entry),
    Letter(u128),
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
            table: 0,
            rest: Vec::new(),
            letter: None,
            smallest: BTreeMap::new(),
        })
    }

    /// Goes on for one slice; the page when it is complete.
    pub(crate) fn slice(&mut self, engine: &Engine) -> Option<Result<Page>> {
        let done = match self.source {
            Source::Live => self.walk(engine, &engine.live),
            Source::Stubs => self.walk(engine, &engine.stubs),
            Source::Letters => self.walk_letters(engine),
        };
        match done {
            Ok(false) => None,
            Ok(true) => Some(self.page(engine)),
            Err(error) => Some(Err(error)),
        }
    }

    fn walk(&mut self, engine: &Engine, index: &Index) -> Result<bool> {
        let (mut reads, mut bytes) = (0, 0);
        let mut tables = 0;
        loop {
            while let Some(entry) = self.rest.pop() {
                if self.look_at(engine, &entry)? {
                    reads += 1;
                    bytes += entry.location().bytes_estimate();
                }
                if reads >= READS_PER_SLICE || bytes >= BYTES_PER_SLICE {
                    return Ok(false);
                }
            }
            if self.table == TABLES {
                return Ok(true);
            }
            if tables == TABLES_PER_SLICE {
                return Ok(false);
            }
            let number = self.number;
            let mine = index.table(self.table).filter(|e| e.key().namespace() == number);
            self.rest = mine.collect();
            self.table += 1;
            tables += 1;
        }
    }

    /// Looks at an entry; answers whether that took a read.
    fn look_at(&mut self, engine: &Engine, entry: &Entry) -> Result<bool> {
        let claimable = entry.claimable();
        let found = match self.source {
            Source::Stubs => Found::Stub(*entry),
            _ => Found::Live(*entry),
        };
        if self.source == Source::Live {
            let lease = engine.leases.get(&entry.key());
            if !self.request.state.admits(engine.state_of(entry, lease)) {
                return Ok(false);
            }
            // A first attempt's time is its due time: most entries are judged without a read. One
            // that was moved between table and read comes as it is now.
            let due_known = claimable.kind == Kind::First;
            if due_known && !self.may_fit(claimable.at_ms) {
                return Ok(false);
            }
            if engine.live.get(entry.key()) != Some(*entry) {
                return Ok(false);
            }
        }
        let view = match found {
            Found::Stub(_) if engine.stubs.get(entry.key()) != Some(*entry) => return Ok(false),
            found => self.read(engine, found),
        };
        if let Some(view) = view {
            self.offer(&view, found);
        }
        Ok(true)
    }

    fn walk_letters(&mut self, engine: &Engine) -> Result<bool> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let Some(namespace) = engine.namespaces.get(self.number) else {
            return Ok(true);
        };
        let start = match (self.letter, &self.request.after, self.request.due_from) {
            (Some(seen), ..) => Excluded(seen),
            (None, Some(after), _) => Included((after.due_at.unix_ms(), 0)),
            (None, None, Some(from)) => Included((from.unix_ms(), 0)),
            (None, None, None) => Unbounded,
        };
        let slice: Vec<(u64, u128)> =
            namespace.letters.range((start, Unbounded)).take(READS_PER_SLICE).copied().collect();
        let mut bytes = 0;
        for &(due_ms, delivery) in &slice {
            if bytes >= BYTES_PER_SLICE {
                return Ok(false);
            }
            self.letter = Some((due_ms, delivery));
            if !self.may_fit(due_ms) {
                // They come in due order: none after this one fits either.
                return Ok(true);
            }
            let found = Found::Letter(delivery);
            if let Some(view) = self.read(engine, found) {
                bytes += view.payload_bytes();
                self.offer(&view, found);
            }
        }
        Ok(slice.len() < READS_PER_SLICE)
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

    fn read(&self, engine: &Engine, found: Found) -> Option<TimerView> {
        let name = &self.request.namespace;
        let known = match found {
            Found::Live(entry) => Known::Live(entry, engine.leases.get(&entry.key()).copied()),
            Found::Stub(entry) => Known::Ended(entry),
            Found::Letter(delivery) => {
                Known::Dead(engine.letters.get(duly_core::DeliveryId::from_u128(delivery))?)
            }
        };
        // A record that cannot be read is quarantined when it is claimed; a list leaves it out.
        engine.view(name, known).ok().flatten()
    }

    fn offer(&mut self, view: &TimerView, found: Found) {
        if !self.admits(view) {
            return;
        }
        self.smallest.insert(Position::of(view), found);
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
        for (position, found) in smallest.into_iter().take(self.request.limit) {
            let unchanged = match found {
                Found::Live(entry) => engine.live.get(entry.key()) == Some(entry),
                Found::Stub(entry) => engine.stubs.get(entry.key()) == Some(entry),
                Found::Letter(_) => true,
            };
            if unchanged && let Some(view) = self.read(engine, found) {
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
