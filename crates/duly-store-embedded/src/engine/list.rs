//! Listing: a walk over an index of the namespace in small slices, so that it delays no other call.
//!
//! ```text
//!   walk ──► the earliest candidates ──► read them in due order ──► page, read again where it changed
//!     └────► read at once: entries whose due time the index does not know
//! ```
//!
//! How much is read:
//!
//! 1. The index knows the due time of a first attempt and of a dead letter. Of these only the earliest
//!    few thousand are read, with any filter. The page ends where they end, with a cursor to continue.
//! 2. The index has another time for retries and tombstones, so all of them are read.
//! 3. Timers that are due at the very millisecond at which the page begins are all read. If a thousand
//!    pages of timers are due at one millisecond, a page of them takes a thousand times as long, in
//!    slices as small as ever.
//!
//! What must stay true:
//!
//! 1. A walk sees each timer that does not change exactly once. It may see a timer that changes during
//!    the walk as it was or as it is.
//! 2. A timer whose place in the list has changed by the time its page is filled is left out.
//! 3. A page leaves out no timer whose record may be readable later. It ends before a record that the
//!    disk does not read now. A page that would begin with one is refused.

use std::collections::VecDeque;

use duly_core::{Incarnation, State, TimerId, Timestamp};
use duly_store::{
    Error, ListRequest, Page, Result, TimerView,
    query::{ListState, Position},
};

use crate::{
    files::ReadError,
    index::{AttemptKind, Cursor, Entry, Index, Key, PackedKey},
};

use super::{Engine, namespaces::Namespace, view::Known};
use candidates::{CandidateResult, Candidates};
use listed::{FirstListed, Listed};
use unread::UnreadRecord;

mod candidates;
mod listed;
mod unread;

/// Tables of a slice that reads memory only.
const TABLES_PER_SLICE: usize = 16;
/// Records read in one slice.
const READS_PER_SLICE: usize = 256;
/// Bytes of records after which a slice ends.
const BYTES_PER_SLICE: u64 = 1 << 20;

/// A list call under way.
#[derive(Debug)]
pub(crate) struct Listing {
    request: ListRequest,
    number: u32,
    source: ListSource,
    stage: ListStage,
    /// The first timers so far.
    smallest: FirstListed,
    /// Tombstones whose records are damaged.
    damaged: Vec<(Key, ReadError)>,
    /// The first record, in the order of the list, that the disk does not read now.
    unread: Option<UnreadRecord>,
    /// Due time from which on the list is incomplete.
    frontier_ms: Option<u64>,
    /// Last position that was read before the frontier.
    examined: Option<Position>,
    /// Number of timers that were visited.
    visited: u64,
    spent: SliceUsage,
}

/// Work of the current slice.
#[derive(Debug, Default)]
struct SliceUsage {
    tables: usize,
    reads: usize,
    bytes: u64,
}

impl SliceUsage {
    const fn read(&mut self, entry: &Entry) {
        self.reads += 1;
        self.bytes += entry.location().bytes_estimate();
    }

    const fn is_enough(&self) -> bool {
        self.reads >= READS_PER_SLICE
            || self.bytes >= BYTES_PER_SLICE
            || self.tables >= TABLES_PER_SLICE
    }
}

#[derive(Debug)]
enum ListStage {
    Walk(ListWalk),
    /// Candidates still to be read, in due order.
    Read(VecDeque<(u64, PackedKey)>),
    /// Timers still to be put on the page.
    Fill(PageFilling),
}

/// A walk over the index.
#[derive(Debug, Default)]
struct ListWalk {
    /// If set, the walk reads all timers that are due at this time, and no others.
    only_ms: Option<u64>,
    /// Place at which to resume; `None` at the end.
    cursor: Option<Cursor>,
    /// Entries of the visited tables that are still to be read.
    rest: Vec<Entry>,
    candidates: Candidates,
}

/// A page being filled.
#[derive(Debug)]
struct PageFilling {
    left: VecDeque<(Position, Listed)>,
    /// `true`: the list has more timers after these.
    more: bool,
    page: Page,
    bytes: u64,
    last: Option<Position>,
}

/// The index that is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListSource {
    Live,
    Tombstones,
    DeadLetters,
}

/// Verdict of the index about an entry.
enum EntryVerdict {
    /// The entry is not on the page.
    None,
    /// The entry may be on the page, by its due time.
    Candidate(u64),
    /// Only the record can tell.
    Open,
}

impl ListSource {
    fn index(self, namespace: &Namespace) -> &Index {
        match self {
            Self::Live => &namespace.live,
            Self::Tombstones => &namespace.tombstones.index,
            Self::DeadLetters => &namespace.dead_letters.by_delivery,
        }
    }
}

impl Listing {
    /// Begins a list.
    pub(crate) fn new(engine: &Engine, request: ListRequest) -> Result<Self> {
        request.check()?;
        let name = request.namespace.as_str();
        let number = engine
            .namespaces
            .number_of(&request.namespace)
            .ok_or_else(|| Error::UnknownNamespace(name.to_owned()))?;
        let source = match request.state {
            ListState::Only(State::Dead) => ListSource::DeadLetters,
            ListState::Only(State::Finished | State::Cancelled) => ListSource::Tombstones,
            ListState::Pending | ListState::Only(_) => ListSource::Live,
        };
        let bytes_max = request.bytes_max;
        Ok(Self {
            smallest: FirstListed::of(request.limit, request.bytes_max),
            request,
            number,
            source,
            stage: ListStage::Walk(ListWalk {
                cursor: Some(Cursor::START),
                candidates: Candidates::within(bytes_max),
                ..ListWalk::default()
            }),
            damaged: Vec::new(),
            unread: None,
            frontier_ms: None,
            examined: None,
            visited: 0,
            spent: SliceUsage::default(),
        })
    }

    /// Runs one slice. Returns the page when it is complete.
    pub(crate) fn slice(&mut self, engine: &mut Engine) -> Option<Result<Page>> {
        let page = self.run_slice(engine);
        for (key, error) in self.damaged.drain(..) {
            // If there is no space to write that, the next list finds it again.
            drop(engine.quarantine_tombstone(key, &error));
        }
        page
    }

    fn run_slice(&mut self, engine: &Engine) -> Option<Result<Page>> {
        self.spent = SliceUsage::default();
        let Some(namespace) = engine.namespaces.get(self.number) else {
            return Some(Ok(Page::default()));
        };
        let index = self.source.index(namespace);
        while !self.spent.is_enough() {
            let stage = std::mem::replace(&mut self.stage, ListStage::Read(VecDeque::new()));
            self.stage = match stage {
                ListStage::Walk(walk) => self.walk(engine, index, walk),
                ListStage::Read(candidates) => self.read_on(engine, index, candidates),
                ListStage::Fill(mut filling) => match self.fill(engine, index, &mut filling) {
                    Some(page) => return Some(page),
                    None => ListStage::Fill(filling),
                },
            };
            // If the index does not know the place of the record in the list, it may come before
            // everything.
            if let Some(unread) = self.unread.take_if(|unread| unread.due_ms().is_none()) {
                return Some(Err(unread.into_error(&self.request.namespace)));
            }
        }
        None
    }

    /// Continues the walk until the slice is spent or the walk ends.
    fn walk(&mut self, engine: &Engine, index: &Index, mut walk: ListWalk) -> ListStage {
        loop {
            while let Some(entry) = walk.rest.pop() {
                // Read again: it may have moved or gone since its table was visited.
                if let Some(entry) = index.get(entry.key(self.number)) {
                    self.spent.read(&entry);
                    let view = self.try_read(engine, &entry);
                    if walk.only_ms.is_some() {
                        self.examine(view.as_ref());
                    }
                    self.offer(view, &entry);
                }
                if self.spent.is_enough() {
                    return ListStage::Walk(walk);
                }
            }
            let Some(scan) = walk.cursor.and_then(|cursor| index.scan(cursor)) else {
                return self.end_walk(walk);
            };
            if self.spent.is_enough() {
                return ListStage::Walk(walk);
            }
            self.spent.tables += 1;
            walk.cursor = scan.next;
            for entry in scan.entries() {
                match self.verdict(engine, &entry, walk.only_ms) {
                    EntryVerdict::None => {}
                    EntryVerdict::Candidate(due_ms) => {
                        walk.candidates.offer(due_ms, entry.key(self.number).pack());
                    }
                    EntryVerdict::Open => walk.rest.push(entry),
                }
            }
        }
    }

    fn end_walk(&mut self, walk: ListWalk) -> ListStage {
        if walk.only_ms.is_some() {
            return self.begin_page();
        }
        match walk.candidates.earliest() {
            CandidateResult::All(candidates) => ListStage::Read(candidates),
            CandidateResult::Before(frontier_ms, candidates) => {
                self.frontier_ms = Some(frontier_ms);
                ListStage::Read(candidates)
            }
            CandidateResult::OneInstant(due_ms) => {
                self.frontier_ms = Some(due_ms + 1);
                let cursor = Some(Cursor::START);
                ListStage::Walk(ListWalk { only_ms: Some(due_ms), cursor, ..ListWalk::default() })
            }
        }
    }

    /// Reads candidates until the slice is spent or no more of them fit the page.
    fn read_on(
        &mut self,
        engine: &Engine,
        index: &Index,
        mut candidates: VecDeque<(u64, PackedKey)>,
    ) -> ListStage {
        while let Some((due_ms, key)) = candidates.pop_front() {
            if !self.may_fit(due_ms) {
                break;
            }
            if let Some(entry) = index.get(Key::unpack(key)) {
                self.spent.read(&entry);
                let view = self.try_read(engine, &entry);
                if self.unread.is_some() {
                    break;
                }
                self.examine(view.as_ref());
                self.offer(view, &entry);
            }
            if self.spent.is_enough() {
                return ListStage::Read(candidates);
            }
        }
        self.begin_page()
    }

    fn verdict(&self, engine: &Engine, entry: &Entry, only_ms: Option<u64>) -> EntryVerdict {
        let claimable = entry.claimable();
        let at_ms = claimable.at_ms;
        match self.source {
            ListSource::Tombstones => {
                let namespace = engine.namespaces.get(self.number);
                let ends_ms = namespace.map_or(0, |ns| ns.tombstones.end_of(entry));
                let is_kept = ends_ms > engine.now.wall_ms;
                return if is_kept { EntryVerdict::Open } else { EntryVerdict::None };
            }
            ListSource::Live if !self.request.state.admits(engine.state_of(entry)) => {
                return EntryVerdict::None;
            }
            // The time of a retry is that of its next attempt.
            ListSource::Live if claimable.kind == AttemptKind::Retry => {
                return if only_ms.is_none() { EntryVerdict::Open } else { EntryVerdict::None };
            }
            ListSource::Live | ListSource::DeadLetters => {}
        }
        let after = self.request.after.as_ref().map(|after| after.due_at.unix_ms());
        match only_ms {
            _ if !self.may_fit(at_ms) => EntryVerdict::None,
            Some(only_ms) if only_ms == at_ms => EntryVerdict::Open,
            Some(_) => EntryVerdict::None,
            None if after == Some(at_ms) => EntryVerdict::Open,
            None => EntryVerdict::Candidate(at_ms),
        }
    }

    /// Returns `true` if a timer due at this time can be on the page.
    fn may_fit(&self, due_ms: u64) -> bool {
        let due_at = Timestamp::saturating_from_unix_ms(due_ms);
        let after_start = self.request.due_from.is_none_or(|from| due_at >= from)
            && self.request.after.as_ref().is_none_or(|after| due_at >= after.due_at);
        let before_end = self.request.due_to.is_none_or(|to| due_at < to);
        after_start && before_end && !self.smallest.is_full_before(due_at)
    }

    /// Reads the timer of an entry. If the record cannot be read now, notes that the page ends there.
    fn try_read(&mut self, engine: &Engine, entry: &Entry) -> Option<TimerView> {
        self.visited += 1;
        self.read(engine, entry).unwrap_or_else(|unread| {
            let is_first = |known: &UnreadRecord| unread.comes_before(known);
            if self.unread.as_ref().is_none_or(is_first) {
                self.unread = Some(unread);
            }
            None
        })
    }

    fn read(
        &mut self,
        engine: &Engine,
        entry: &Entry,
    ) -> std::result::Result<Option<TimerView>, UnreadRecord> {
        let key = entry.key(self.number);
        let known = match self.source {
            ListSource::Live => Known::Live(key, *entry),
            ListSource::Tombstones => Known::Ended(key, entry.location()),
            ListSource::DeadLetters => Known::Dead(entry.location()),
        };
        // A damaged timer is quarantined when it is claimed, and a damaged dead letter stays until it is purged. A list
        // leaves both out.
        match engine.view(&self.request.namespace, known) {
            Ok(view) => Ok(view),
            Err(ReadError::Disk(error)) => {
                Err(UnreadRecord::of(engine, self.source, entry, &error))
            }
            Err(error) => {
                if self.source == ListSource::Tombstones {
                    self.damaged.push((key, error));
                } else {
                    tracing::error!(%error, "record is damaged or missing; a list leaves it out");
                }
                Ok(None)
            }
        }
    }

    /// Records the progress of the list.
    fn examine(&mut self, view: Option<&TimerView>) {
        let is_before = |view: &&TimerView| {
            self.frontier_ms.is_some_and(|frontier_ms| view.due_at().unix_ms() < frontier_ms)
        };
        let position = view.filter(is_before).map(Position::of);
        self.examined = self.examined.take().max(position);
    }

    fn offer(&mut self, view: Option<TimerView>, entry: &Entry) {
        if let Some(view) = view.filter(|view| self.admits(view)) {
            self.smallest.offer(view, entry, entry.key(self.number));
        }
    }

    fn admits(&self, view: &TimerView) -> bool {
        let position = Position::of(view);
        self.request.admits(view)
            && self.may_fit(view.due_at().unix_ms())
            && self.request.after.as_ref().is_none_or(|after| position > *after)
    }

    fn begin_page(&mut self) -> ListStage {
        if let Some(due_ms) = self.unread.as_ref().and_then(UnreadRecord::due_ms) {
            self.frontier_ms = Some(self.frontier_ms.map_or(due_ms, |known| known.min(due_ms)));
            // The examined positions may be after it.
            self.examined = None;
        }
        let smallest = std::mem::replace(&mut self.smallest, FirstListed::of(0, 0));
        let (left, more) = smallest.into_page(self.frontier_ms);
        let page = Page { examined: self.visited, ..Page::default() };
        ListStage::Fill(PageFilling { left, more, page, bytes: 0, last: None })
    }

    /// Fills the page until the slice is spent or the page is complete.
    fn fill(
        &mut self,
        engine: &Engine,
        index: &Index,
        filling: &mut PageFilling,
    ) -> Option<Result<Page>> {
        if let Some(unread) = self.unread.take_if(|_| filling.left.is_empty() && filling.is_new()) {
            return Some(Err(unread.into_error(&self.request.namespace)));
        }
        while let Some((position, mut listed)) = filling.left.pop_front() {
            // A timer whose place in the list has changed is listed there, or was before.
            let entry = index.get(listed.key);
            let kept = listed.view_of(entry.as_ref());
            let view = match (kept, entry) {
                (None, Some(entry)) => {
                    // The views kept for later timers would exceed the memory of the page.
                    filling.left.iter_mut().for_each(|(_, behind)| behind.forget());
                    self.spent.read(&entry);
                    self.read(engine, &entry)
                }
                (kept, _) => Ok(kept),
            };
            let view = match view {
                Ok(view) => view,
                Err(unread) if filling.is_new() => {
                    return Some(Err(unread.into_error(&self.request.namespace)));
                }
                Err(_) => {
                    filling.page.next = filling.last.take();
                    return Some(Ok(std::mem::take(&mut filling.page)));
                }
            };
            let still_here = |view: &TimerView| {
                Position::of(view) == position && self.request.state.admits(view.state)
            };
            if let Some(view) = view.filter(still_here) {
                let bytes = view.memory_bytes();
                if filling.bytes + bytes > self.request.bytes_max {
                    if filling.page.timers.is_empty() {
                        return Some(Err(Error::TooLarge { bytes }));
                    }
                    filling.page.next = filling.last.take();
                    return Some(Ok(std::mem::take(&mut filling.page)));
                }
                filling.bytes += bytes;
                filling.page.timers.push(view);
            }
            filling.last = Some(position);
            if self.spent.is_enough() {
                return None;
            }
        }
        let PageFilling { left, more, page, last, .. } = filling;
        let last = last.take();
        page.next = match self.frontier_ms {
            _ if *more || !left.is_empty() => last,
            None => None,
            Some(frontier_ms) => last.max(self.examined.take()).or_else(|| before(frontier_ms)),
        };
        Some(Ok(std::mem::take(page)))
    }
}

impl PageFilling {
    /// Returns `true` if no timer of the page was visited yet.
    const fn is_new(&self) -> bool {
        self.last.is_none()
    }
}

/// Returns the last position that is due before a time.
fn before(due_ms: u64) -> Option<Position> {
    let due_at = Timestamp::saturating_from_unix_ms(due_ms.saturating_sub(1));
    let id = TimerId::new(&char::MAX.to_string().repeat(64)).ok()?;
    Some(Position { due_at, id, incarnation: Incarnation(u64::MAX), occurrence: u32::MAX })
}

#[cfg(test)]
mod tests;
