//! The invariants between the indexes and the other structures, and the one walk that checks them.
//!
//! ```text
//!   namespace after namespace ──► each entry with files, leases, lanes, calendars
//!                             └─► its lanes, and the counts where nothing changed (counts.rs)
//!   leases, part after part ────► entries
//!   files (a whole walk only) ──► records that entries point at
//! ```
//!
//! 1. The rules hold in every moment between two steps, so a change under way breaks none. Two cases are
//!    skipped, and a later walk sees them. An entry whose record is not durable yet is in no calendar and no
//!    lane: it becomes claimable later. While a sweep runs, the calendars may be behind it.
//! 2. A broken rule is an error in Duly, or in the machine's memory.
//! 3. A walk reads only. The auditor makes it in small steps while the store works, and repairs what it
//!    finds (`audit.rs`). `duly store check` and the tests make it in one go.
//! 4. The records themselves are read by the auditor's samples and, all of them, by `duly store check`
//!    (`at_rest.rs`).

use duly_core::NamespaceName;

use crate::{
    format::ALIGN,
    index::{AttemptKind, Claimable, Cursor, Entry, Flags, Index, Key, Location},
};

use super::{Engine, lane_due::DuePlace, leases, namespaces::Namespace, refill::LaneKindKey};

pub(crate) mod at_rest;
mod counts;

pub(super) use counts::Counts;

/// Cost of an entry that is compared with other structures, in plain entries.
const COST_PER_FLAGGED: usize = 16;
/// Cost of moving to another namespace or part of the leases, in plain entries.
const COST_PER_PART: usize = 16;

/// A rule of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryRule {
    /// Its record is in a file, before the end of it.
    InFile,
    /// Its lane exists.
    HasLane,
    /// If it is marked as leased, there is a lease.
    HasLease,
    /// If there is a lease, it is marked as leased.
    MarkedLeased,
    /// It is not counted as due before its time.
    NotEarly,
    /// If it is marked as counted in its lane, the lane contains it.
    InLane,
    /// A calendar or a sweep will find it.
    Awaited,
}

impl EntryRule {
    /// Returns the text of a broken rule.
    const fn text(self) -> &'static str {
        match self {
            Self::InFile => "a timer's record is in no file",
            Self::HasLane => "a timer's lane does not exist",
            Self::HasLease => "a timer is marked as leased without a lease",
            Self::MarkedLeased => "a timer with a lease is not marked as leased",
            Self::NotEarly => "a timer is counted as due before its time",
            Self::InLane => "a due timer is missing in its lane",
            Self::Awaited => "a timer would never become due",
        }
    }
}

/// Returns `true` if the entry has to be compared only with its file and the clock.
fn is_plain(entry: &Entry) -> bool {
    !entry.flags().has(Flags::LEASED) && !entry.flags().has(Flags::COUNTED_DUE)
}

pub(super) fn is_leased(entry: &Entry) -> bool {
    entry.flags().has(Flags::LEASED)
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BrokenInvariant {
    /// An entry breaks a rule.
    Entry(EntryRule, Key),
    /// A lease belongs to a timer that does not exist.
    Lease(Key),
    /// The list of active lanes disagrees with the due timers of a lane.
    ActiveLanes { number: u32, slot: u8 },
    /// Spilled timers of a lane are not on their way back into its resident window.
    Refill(LaneKindKey),
    /// The counts of a namespace are not the sums over its entries, as of this state of `touched`.
    Counts { number: u32, touched: u64, sums: Box<Counts> },
    /// The entries that point into the file in this slot are not as many as it counts.
    File { slot: u16, entries: u64, counted: u64 },
}

impl BrokenInvariant {
    /// Returns the number of the namespace; `None` for a file.
    pub(crate) const fn namespace(&self) -> Option<u32> {
        match self {
            Self::Entry(_, key) | Self::Lease(key) => Some(key.namespace()),
            Self::ActiveLanes { number, .. } | Self::Counts { number, .. } => Some(*number),
            Self::Refill((number, ..)) => Some(*number),
            Self::File { .. } => None,
        }
    }

    /// Returns the rule that is broken.
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Entry(rule, _) => rule.text(),
            Self::Lease(_) => "a lease belongs to a timer that does not exist",
            Self::ActiveLanes { .. } => {
                "the list of active lanes disagrees with the due timers of a lane"
            }
            Self::Refill(_) => "spilled timers of a lane have no refill",
            Self::Counts { .. } => "the counts of a namespace disagree with its timers",
            Self::File { .. } => "the records that a file counts disagree with the index",
        }
    }
}

/// A walk over all namespaces and leases.
#[derive(Debug, Default)]
pub(super) struct InvariantWalk {
    /// Namespace under way, or the one after which to resume.
    name: Option<NamespaceName>,
    namespace: Option<NamespaceWalk>,
    /// Next part of the leases.
    leases: usize,
}

/// A walk over the entries of one namespace.
#[derive(Debug)]
pub(super) struct NamespaceWalk {
    pub(super) number: u32,
    pub(super) cursor: Cursor,
    /// Value of [`Namespace::touched`] when the walk began.
    pub(super) touched: u64,
    pub(super) sums: Counts,
}

/// Result of one step of a walk.
#[derive(Debug, Default)]
pub(super) struct Visited {
    /// Cost of the step, in plain entries.
    pub(super) cost: usize,
    /// Number of the namespace, and the entries of the table that the step checked.
    pub(super) table: Option<(u32, Vec<Entry>)>,
    pub(super) broken: Vec<BrokenInvariant>,
}

impl InvariantWalk {
    /// Checks the next table, namespace or part of the leases; `None` if the walk is complete.
    pub(super) fn step(&mut self, engine: &Engine) -> Option<Visited> {
        let mut visited = Visited::default();
        if let Some(mut walk) = self.namespace.take() {
            if walk.step(engine, &mut visited) {
                self.namespace = Some(walk);
            } else {
                engine.check_lanes_and_counts(&walk, &mut visited.broken);
            }
            return Some(visited);
        }
        visited.cost = COST_PER_PART;
        let next = engine.namespaces.names_after(self.name.as_ref()).next();
        if let Some((name, number)) = next.map(|(name, number)| (name.clone(), number)) {
            let touched = engine.namespaces.get(number).map_or(0, |ns| ns.touched);
            let (cursor, sums) = (Cursor::START, Counts::default());
            self.name = Some(name);
            self.namespace = Some(NamespaceWalk { number, cursor, touched, sums });
        } else if self.leases < leases::PARTS {
            for key in engine.leases.part(self.leases) {
                visited.cost += COST_PER_FLAGGED;
                visited.broken.extend(engine.broken_lease(key));
            }
            self.leases += 1;
        } else {
            return None;
        }
        Some(visited)
    }
}

impl NamespaceWalk {
    /// Checks the next table. Returns `false` if it was the last.
    fn step(&mut self, engine: &Engine, visited: &mut Visited) -> bool {
        let Some(namespace) = engine.namespaces.get(self.number) else {
            return false;
        };
        let Some(scan) = namespace.live.scan(self.cursor) else {
            return false;
        };
        let entries: Vec<_> = scan.entries().collect();
        for entry in &entries {
            self.sums.add(entry);
            visited.cost += if is_plain(entry) { 1 } else { COST_PER_FLAGGED };
            let broken = engine.broken_rule(self.number, namespace, entry);
            let key = entry.key(self.number);
            visited.broken.extend(broken.map(|rule| BrokenInvariant::Entry(rule, key)));
        }
        visited.table = Some((self.number, entries));
        let Some(next) = scan.next else {
            return false;
        };
        self.cursor = next;
        true
    }
}

impl Engine {
    /// Returns all invariants that are broken now.
    pub(crate) fn broken_invariants(&self) -> Vec<BrokenInvariant> {
        let (mut walk, mut broken) = (InvariantWalk::default(), Vec::new());
        while let Some(visited) = walk.step(self) {
            broken.extend(visited.broken);
        }
        // Until deleted namespaces are reclaimed, their records are counted too.
        if self.reclamation.is_empty() {
            broken.extend(self.broken_files());
        }
        broken
    }

    fn broken_files(&self) -> Vec<BrokenInvariant> {
        let mut sums: Vec<(u64, u64)> = vec![(0, 0); usize::from(u16::MAX) + 1];
        for (_, namespace) in self.namespaces.iter() {
            for entry in counted_indexes(namespace).into_iter().flat_map(Index::entries) {
                sums[usize::from(entry.location().slot())].0 += 1;
            }
        }
        for (slot, _, counts) in self.files.iter() {
            sums[usize::from(slot)].1 = counts.live;
        }
        let differing =
            (0..=u16::MAX).zip(sums).filter(|(_, (entries, counted))| entries != counted);
        let broken = |(slot, (entries, counted))| BrokenInvariant::File { slot, entries, counted };
        differing.map(broken).collect()
    }

    /// Returns the rule that an entry breaks.
    pub(super) fn broken_rule(
        &self,
        number: u32,
        namespace: &Namespace,
        entry: &Entry,
    ) -> Option<EntryRule> {
        let (flags, location) = (entry.flags(), entry.location());
        let file = self.files.get(location.slot());
        if file.is_none_or(|file| location.unit() * ALIGN >= file.length) {
            return Some(EntryRule::InFile);
        }
        let Some(lane) = namespace.lanes.get(entry.lane()) else {
            return Some(EntryRule::HasLane);
        };
        if flags.has(Flags::LEASED) {
            return self.leases.get(entry.key(number)).is_none().then_some(EntryRule::HasLease);
        }
        let Claimable { at_ms, kind } = entry.claimable();
        if flags.has(Flags::COUNTED_DUE) {
            if at_ms > self.clock_of(kind) {
                // After the wall clock has stepped back, a pass corrects this.
                return (!self.step_back.is_under_way()).then_some(EntryRule::NotEarly);
            }
            let due = lane.due(kind);
            let is_there = match flags.has(Flags::UNREADABLE) {
                true => due.unreadable() > 0,
                false => due.has_spilled() || due.window().contains(&DuePlace::of(number, entry)),
            };
            return (!is_there).then_some(EntryRule::InLane);
        }
        let is_lost = self.near_horizon.has_lost(kind, at_ms, self.clock_of(kind));
        // A retry may be deferred while the wall clock is behind its due time.
        let waits_elsewhere = || {
            (kind == AttemptKind::Retry && self.may_be_ahead())
                || self.is_awaiting_durability(entry.key(number), entry)
        };
        (is_lost && !waits_elsewhere()).then_some(EntryRule::Awaited)
    }

    /// Returns the invariant that a lease breaks. Namespace reclamation drops the leases of a deleted
    /// namespace, step by step.
    pub(super) fn broken_lease(&self, key: Key) -> Option<BrokenInvariant> {
        self.namespaces.get(key.namespace())?;
        match self.namespaces.live(key) {
            None => Some(BrokenInvariant::Lease(key)),
            Some(entry) if is_leased(&entry) => None,
            Some(_) => Some(BrokenInvariant::Entry(EntryRule::MarkedLeased, key)),
        }
    }

    /// Returns a readable description of the place of an entry's record.
    pub(super) fn place_of(&self, location: Location) -> String {
        let file = self.files.get(location.slot());
        let file = file.map_or_else(|| format!("slot {}", location.slot()), |file| file.id.name());
        format!("{file} at byte {}", location.unit() * ALIGN)
    }

    /// Returns the place of a broken invariant. It contains no data of a timer.
    pub(crate) fn place_of_broken(&self, broken: &BrokenInvariant) -> String {
        match broken {
            BrokenInvariant::Entry(rule, key) => {
                self.namespaces.live(*key).map_or_else(String::new, |entry| match rule {
                    EntryRule::InFile => self.place_of(entry.location()),
                    _ => format!("lane {}, time {} ms", entry.lane(), entry.claimable().at_ms),
                })
            }
            BrokenInvariant::Lease(_) => "its leases".to_owned(),
            BrokenInvariant::ActiveLanes { slot, .. } | BrokenInvariant::Refill((_, slot, _)) => {
                format!("lane {slot}")
            }
            BrokenInvariant::Counts { number, sums, .. } => {
                let namespace = self.namespaces.get(*number);
                namespace.map_or_else(String::new, |ns| sums.difference(&Counts::of(ns)))
            }
            BrokenInvariant::File { slot, entries, counted } => {
                let file = self.files.get(*slot);
                let file = file.map_or_else(|| format!("slot {slot}"), |file| file.id.name());
                format!("{file}: {entries} entries, counted {counted}")
            }
        }
    }
}

/// Returns the indexes whose entries keep a record alive: timers, tombstones, dead letters.
fn counted_indexes(namespace: &Namespace) -> [&Index; 3] {
    [&namespace.live, &namespace.tombstones.index, &namespace.dead_letters.by_delivery]
}
