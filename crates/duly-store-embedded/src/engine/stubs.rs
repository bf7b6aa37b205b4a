//! Stubs of one namespace, and the passes that take them away.
//!
//! A stub is an index entry whose time is its end. Nothing else is kept for it: a lookup that meets
//! one past its end finds nothing, and passes over the namespace's stubs in small steps remove
//!
//! * what has ended, as soon as the first has; for a namespace with very many, a little later, so
//!   that the passes cost a fraction of a core whatever there is;
//! * the oldest, where there are more than `max_retained`.

use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::index::{Claimable, Cursor, Entry, Index, Key, Kind, Location, NUMBER_MAX, PackedKey};

use super::Engine;

/// Stubs that are looked through at once; with more, a pass goes in steps.
const AT_ONCE: usize = 16_384;
/// Tables of an index that one step of a pass looks at.
const TABLES_PER_STEP: usize = 8;
/// Stubs that one step of a pass removes, but for the rest of a table.
const REMOVALS_PER_STEP: usize = 4_096;
/// Stubs past `max_retained` that go for one that comes: more than one, so that a crowd gets smaller
/// also while others come.
const EVICTIONS_PER_STUB: usize = 16;
/// Most of the oldest that are remembered.
const OLDEST_MAX: usize = 65_536;
/// A pass for ended stubs looks at so many for each millisecond since the one before.
const LOOKS_PER_MS: u64 = 1_000;

/// Which end of its namespace it was, and whose stub it is.
type End = (u32, PackedKey);

/// A stub that comes in.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewStub {
    pub(super) ends_ms: u64,
    /// How many of the namespace had ended before.
    pub(super) number: u32,
    pub(super) location: Location,
}

/// The stubs of a namespace.
#[derive(Debug)]
pub(crate) struct Stubs {
    index: Index,
    /// When the next pass for ended ones is wanted; `u64::MAX`: there is nothing to end.
    pass_at_ms: u64,
    /// The oldest by number, for eviction; some may have gone already.
    oldest: VecDeque<End>,
}

impl Default for Stubs {
    fn default() -> Self {
        Self { index: Index::new(), pass_at_ms: u64::MAX, oldest: VecDeque::new() }
    }
}

impl Stubs {
    pub(crate) const fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) const fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    pub(crate) fn into_index(self) -> Index {
        self.index
    }

    /// How many there are; ended ones may still be among them.
    pub(crate) fn len(&self) -> u64 {
        self.index.len() as u64
    }

    /// A stub that has not ended.
    pub(crate) fn get(&self, key: Key, now_ms: u64) -> Option<Entry> {
        self.index.get(key).filter(|entry| entry.claimable().at_ms > now_ms)
    }

    /// Remembers the oldest `wanted` of what a pass found.
    fn remember(&mut self, gathering: Gathering) {
        let number_of = |place: u32| gathering.next.wrapping_sub(NUMBER_MAX - place) & NUMBER_MAX;
        let oldest = gathering.oldest.into_sorted_vec().into_iter();
        self.oldest = oldest.map(|(place, key)| (number_of(place), key)).collect();
    }

    fn oldest_wanted(&self) -> usize {
        (self.index.len() / 64).clamp(64, OLDEST_MAX)
    }
}

/// The passes over stubs, of all namespaces.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// When each namespace wants its next pass for ended stubs.
    ends: BTreeSet<(u64, u32)>,
    ending: Option<Ending>,
    /// Namespaces with more than `max_retained`.
    crowded: BTreeSet<u32>,
    gathering: Option<Gathering>,
}

/// A pass for ended stubs.
#[derive(Debug)]
struct Ending {
    number: u32,
    cursor: Cursor,
    /// The first end among those that stay.
    next_ms: u64,
}

/// A pass for the oldest stubs.
#[derive(Debug)]
struct Gathering {
    number: u32,
    cursor: Cursor,
    /// Ends by their distance from the oldest possible one.
    oldest: BinaryHeap<End>,
    wanted: usize,
    /// The number that the next stub gets.
    next: u32,
}

impl Gathering {
    fn offer(&mut self, entry: &Entry) {
        let age = self.next.wrapping_sub(entry.number()) & NUMBER_MAX;
        self.oldest.push((NUMBER_MAX - age, entry.key(self.number).pack()));
        if self.oldest.len() > self.wanted {
            self.oldest.pop();
        }
    }
}

impl Engine {
    pub(super) fn keep_stub(&mut self, key: Key, stub: NewStub) {
        let NewStub { ends_ms, number: order, location } = stub;
        if ends_ms <= self.now.wall_ms {
            self.drop_stub(key);
            return;
        }
        let claimable = Claimable { at_ms: ends_ms, kind: Kind::First };
        let entry = Entry::new(key, 0, claimable, location).with_number(order);
        self.files.retain(location);
        let number = key.namespace();
        let old = self.namespaces.with(number, |namespace| namespace.stubs.index.put(entry));
        if let Some(old) = old.flatten() {
            self.files.release(old.location());
        }
        self.note_stub_end(number, ends_ms);
        let is_live = !self.replaying;
        self.evict(number, if is_live { EVICTIONS_PER_STUB } else { REMOVALS_PER_STEP });
    }

    pub(super) fn drop_stub(&mut self, key: Key) {
        let old = self.namespaces.with(key.namespace(), |ns| ns.stubs.index.remove(key));
        if let Some(old) = old.flatten() {
            self.files.release(old.location());
        }
    }

    /// Has a namespace looked through when its next stub ends.
    pub(super) fn note_stub_end(&mut self, number: u32, ends_ms: u64) {
        let Some(namespace) = self.namespaces.get_mut(number) else {
            return;
        };
        let stubs = &mut namespace.stubs;
        if ends_ms < stubs.pass_at_ms {
            self.stub_passes.ends.remove(&(stubs.pass_at_ms, number));
            self.stub_passes.ends.insert((ends_ms, number));
            stubs.pass_at_ms = ends_ms;
        }
    }

    /// Drops the oldest stubs of a namespace past `max_retained`; with very many, begins to.
    pub(super) fn evict_stubs(&mut self, number: u32) {
        self.evict(number, REMOVALS_PER_STEP);
    }

    fn evict(&mut self, number: u32, removals_max: usize) {
        for _ in 0..removals_max {
            let Some(namespace) = self.namespaces.get_mut(number) else {
                return;
            };
            let max = namespace.settings.limits.max_retained;
            let stubs = &mut namespace.stubs;
            if stubs.len() <= max {
                self.stub_passes.crowded.remove(&number);
                return;
            }
            let Some((order, packed)) = stubs.oldest.pop_front() else {
                if stubs.index.len() > AT_ONCE && !self.replaying {
                    break;
                }
                self.gather_at_once(number);
                continue;
            };
            let key = Key::unpack(packed);
            if stubs.index.get(key).is_some_and(|entry| entry.number() == order) {
                self.drop_stub(key);
            }
        }
        self.stub_passes.crowded.insert(number);
    }

    fn gather_at_once(&mut self, number: u32) {
        let Some(mut gathering) = self.begin_gathering(number) else {
            return;
        };
        while !self.gather(&mut gathering) {}
        self.end_gathering(gathering);
    }

    fn begin_gathering(&self, number: u32) -> Option<Gathering> {
        let namespace = self.namespaces.get(number)?;
        let wanted = namespace.stubs.oldest_wanted();
        #[expect(clippy::cast_possible_truncation, reason = "numbers count modulo 2^24")]
        let next = namespace.ended() as u32;
        let (cursor, oldest) = (Cursor::START, BinaryHeap::new());
        Some(Gathering { number, cursor, oldest, wanted, next })
    }

    /// Looks at some more; answers whether that was all.
    fn gather(&self, gathering: &mut Gathering) -> bool {
        for _ in 0..TABLES_PER_STEP {
            let scan = self
                .namespaces
                .get(gathering.number)
                .and_then(|namespace| namespace.stubs.index.scan(gathering.cursor));
            let Some(scan) = scan else {
                return true;
            };
            let next = scan.next;
            scan.entries().for_each(|entry| gathering.offer(&entry));
            let Some(next) = next else {
                return true;
            };
            gathering.cursor = next;
        }
        false
    }

    fn end_gathering(&mut self, gathering: Gathering) {
        if let Some(namespace) = self.namespaces.get_mut(gathering.number) {
            namespace.stubs.remember(gathering);
        }
    }

    /// One step of the passes over stubs.
    pub(super) fn pass_over_stubs(&mut self) {
        self.pass_over_ended();
        self.pass_over_crowded();
    }

    fn pass_over_ended(&mut self) {
        let now_ms = self.now.wall_ms;
        let mut removed = 0;
        for _ in 0..TABLES_PER_STEP {
            if removed >= REMOVALS_PER_STEP {
                break;
            }
            let Some(mut ending) = self.stub_passes.ending.take().or_else(|| self.next_ending())
            else {
                return;
            };
            let namespace = self.namespaces.get(ending.number);
            let scan = namespace.and_then(|ns| ns.stubs.index.scan(ending.cursor));
            let (mut over, mut next) = (Vec::new(), None);
            if let Some(scan) = scan {
                next = scan.next;
                for entry in scan.entries() {
                    let ends_ms = entry.claimable().at_ms;
                    if ends_ms <= now_ms {
                        over.push(entry.key(ending.number));
                    } else {
                        ending.next_ms = ending.next_ms.min(ends_ms);
                    }
                }
            }
            removed += over.len();
            over.into_iter().for_each(|key| self.drop_stub(key));
            match next {
                Some(cursor) => self.stub_passes.ending = Some(Ending { cursor, ..ending }),
                None => self.end_ending(&ending),
            }
        }
        // Others may have ended, too: the next step asks.
        self.busy |= self.stub_passes.ending.is_some() || removed >= REMOVALS_PER_STEP;
    }

    fn next_ending(&mut self) -> Option<Ending> {
        let (at_ms, number) = *self.stub_passes.ends.first()?;
        if at_ms > self.now.wall_ms {
            return None;
        }
        self.stub_passes.ends.pop_first();
        let namespace = self.namespaces.get_mut(number)?;
        namespace.stubs.pass_at_ms = u64::MAX;
        Some(Ending { number, cursor: Cursor::START, next_ms: u64::MAX })
    }

    fn end_ending(&mut self, ending: &Ending) {
        if ending.next_ms == u64::MAX {
            return;
        }
        let count = self.namespaces.get(ending.number).map_or(0, |ns| ns.stubs.len());
        let rest_ms = count / LOOKS_PER_MS;
        let next_ms = ending.next_ms.max(self.now.wall_ms.saturating_add(rest_ms));
        self.note_stub_end(ending.number, next_ms);
    }

    fn pass_over_crowded(&mut self) {
        if let Some(mut gathering) = self.stub_passes.gathering.take() {
            if self.gather(&mut gathering) {
                self.end_gathering(gathering);
            } else {
                self.stub_passes.gathering = Some(gathering);
            }
        } else if let Some(number) = self.stub_passes.crowded.first().copied() {
            let known = self.namespaces.get(number);
            match known.map(|ns| ns.stubs.oldest.is_empty() && ns.stubs.index.len() > AT_ONCE) {
                Some(true) => self.stub_passes.gathering = self.begin_gathering(number),
                Some(false) => self.evict_stubs(number),
                None => drop(self.stub_passes.crowded.remove(&number)),
            }
        }
        self.busy |= self.stub_passes.gathering.is_some() || !self.stub_passes.crowded.is_empty();
    }
}
