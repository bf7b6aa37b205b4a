//! The table of namespaces: settings, exact counts, totals, lanes and indexes.
//!
//! A namespace has a number, which every record carries, and indexes of its own. Records of a deleted
//! namespace that are still in the journal are skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use duly_core::{NamespaceName, Timestamp, rate::Gcra};
use duly_store::namespaces::Namespace as View;
use rustc_hash::FxHashMap;

use crate::{
    format::record::NamespaceRecord,
    index::{AttemptKind, Entry, Flags, Index, Key, Location},
};

mod sums;

use self::sums::fixed_bytes;
pub(crate) use self::sums::{DueCounts, NamespaceSums};
use super::{
    dead_letters::DeadLetters,
    lane_due::{DuePlace, LaneDue},
    lanes::{Lane, Lanes},
    refill::LaneKindKey,
    tombstones::Tombstones,
};

/// Due timers in the resident windows of all lanes above which each lane keeps fewer.
const RESIDENT_TOTAL_MAX: usize = 4 << 20;
/// Due timers that a lane keeps above that limit.
const RESIDENT_MAX_WHEN_FULL: usize = 4_096;

/// A namespace with its indexes and counts.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// What the journal says about it; the totals count on.
    pub(crate) record: NamespaceRecord,
    /// Memory of the name and the settings.
    fixed_bytes: usize,
    /// Time since which the namespace is idle, by the boot-time clock, as far as a pass has seen.
    pub(crate) idle_since_ms: Option<u64>,
    pub(crate) lanes: Lanes,
    /// Pending timers without a lease or a failed attempt.
    pub(crate) first: u64,
    /// Pending timers without a lease, after a failed attempt.
    pub(crate) retrying: u64,
    pub(crate) in_flight: u64,
    pub(crate) pending_bytes: u64,
    /// Pending timers.
    pub(crate) live: Index,
    /// Tombstones of ended timers.
    pub(crate) tombstones: Tombstones,
    /// Dead letters.
    pub(crate) dead_letters: DeadLetters,
    /// Frame up to which the totals include all records, as a checkpoint says.
    pub(crate) captured_lsn: u64,
    /// Grows with every possible change of an entry or a count. The auditor compares counts only if it
    /// did not change.
    pub(crate) touched: u64,
    /// Tokens used of `schedule_per_second`; lost when the store is closed.
    pub(crate) schedules: Gcra,
}

impl Namespace {
    pub(crate) fn new(record: NamespaceRecord) -> Self {
        Self {
            fixed_bytes: fixed_bytes(&record),
            tombstones: Tombstones::new(record.settings.retention),
            record,
            idle_since_ms: None,
            lanes: Lanes::default(),
            first: 0,
            retrying: 0,
            in_flight: 0,
            pending_bytes: 0,
            live: Index::new(),
            dead_letters: DeadLetters::default(),
            captured_lsn: 0,
            touched: 0,
            schedules: Gcra::default(),
        }
    }

    pub(crate) const fn pending(&self) -> u64 {
        self.first + self.retrying + self.in_flight
    }

    pub(crate) const fn dead(&self) -> u64 {
        self.dead_letters.len()
    }

    /// Returns the number of its timers that have ended.
    pub(crate) const fn ended(&self) -> u64 {
        self.record.totals.delivered + self.record.totals.cancelled
    }

    /// Returns `true` if claims are granted.
    pub(crate) fn is_claimable(&self) -> bool {
        !self.record.paused && !self.is_dead_full()
    }

    /// Returns `true` if it has as many dead letters as it may have.
    fn is_dead_full(&self) -> bool {
        self.dead() >= self.record.settings.limits.max_dead
    }

    /// Updates the location of a pending timer, if its entry still points at the old one. Returns the
    /// kind of timer, or `None` if nothing moved.
    pub(crate) fn relocate(&mut self, key: Key, from: Location, to: Location) -> Option<Moved> {
        let before = self.live.relocate(key, from, to)?;
        if before.flags().has(Flags::COUNTED_DUE)
            && let Some(lane) = self.lanes.get_mut(before.lane())
        {
            let place = |entry: &Entry| DuePlace::of(key.namespace(), entry);
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

    pub(crate) fn view(&self) -> View {
        View {
            name: self.record.name.clone(),
            settings: Arc::clone(&self.record.settings),
            paused: self.record.paused,
            resumes_at: self.record.resumes_at,
            created_at: self.record.created_at,
            updated_at: self.record.updated_at,
            maybe_outdated: false,
        }
    }
}

/// A pending timer whose record has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The timer is due and in its lane's resident window.
    InWindow,
    Elsewhere,
}

/// All namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    by_number: FxHashMap<u32, Namespace>,
    by_name: BTreeMap<NamespaceName, u32>,
    next_number: u32,
    /// Namespaces that resume at a time.
    resumes: BTreeSet<(Timestamp, u32)>,
    /// Lanes in which a timer is due.
    pub(crate) active: BTreeSet<(NamespaceName, u8)>,
    /// Counts of due timers over all lanes.
    pub(crate) dues: DueCounts,
    /// Counts over all namespaces.
    pub(crate) sums: NamespaceSums,
}

impl Namespaces {
    pub(crate) fn number_of(&self, name: &NamespaceName) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Namespace> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Namespace> {
        let namespace = self.by_number.get_mut(&number)?;
        namespace.touched += 1;
        Some(namespace)
    }

    /// Returns the entry of a pending timer.
    pub(crate) fn live(&self, key: Key) -> Option<Entry> {
        self.by_number.get(&key.namespace())?.live.get(key)
    }

    /// Prefetches the memory that searches for these pending timers will read; see [`Index::warm`].
    pub(crate) fn warm_live(&self, keys: impl Iterator<Item = Key>) {
        let touched = keys.filter_map(|key| Some(self.get(key.namespace())?.live.touch(key)));
        std::hint::black_box(touched.fold(0, |all, one| all ^ one));
    }

    /// Prefetches the memory that searches for these keys among pending timers and tombstones will read.
    pub(crate) fn warm(&self, keys: impl Iterator<Item = Key>) {
        let touched = keys.filter_map(|key| {
            let namespace = self.by_number.get(&key.namespace())?;
            Some(namespace.live.touch(key) ^ namespace.tombstones.index.touch(key))
        });
        std::hint::black_box(touched.fold(0, |all, one| all ^ one));
    }

    /// Returns the number of namespaces.
    pub(crate) fn len(&self) -> u64 {
        self.by_number.len() as u64
    }

    /// Returns the highest number that a namespace has had.
    pub(crate) const fn highest_number(&self) -> u32 {
        self.next_number
    }

    /// Drops lanes that a checkpoint named and that have no timers.
    pub(crate) fn drop_empty_lanes(&mut self) {
        self.by_number.values_mut().for_each(|namespace| namespace.lanes.drop_empty());
    }

    /// Marks the numbers up to this one as used.
    pub(crate) fn reserve_numbers(&mut self, highest: u32) {
        self.next_number = self.next_number.max(highest);
    }

    /// Applies the record of a namespace. Returns `true` if its tombstones have another retention now.
    pub(crate) fn put(&mut self, number: u32, record: NamespaceRecord) -> bool {
        self.next_number = self.next_number.max(number);
        self.by_name.insert(record.name.clone(), number);
        let before = self.by_number.get(&number).and_then(|known| known.record.resumes_at);
        self.note_resume(number, before, record.resumes_at);
        match self.by_number.get_mut(&number) {
            Some(known) => {
                let before = NamespaceSums::of(known);
                known.fixed_bytes = fixed_bytes(&record);
                let (retention, now) = (record.settings.retention, record.updated_at);
                let is_changed = known.tombstones.set_retention(retention, now);
                let (created_at, totals) = (known.record.created_at, known.record.totals);
                known.record = NamespaceRecord { created_at, totals, ..record };
                self.sums.replace(before, NamespaceSums::of(known));
                is_changed
            }
            None => {
                let namespace = Namespace::new(record);
                self.sums.replace(NamespaceSums::default(), NamespaceSums::of(&namespace));
                self.by_number.insert(number, namespace);
                false
            }
        }
    }

    fn note_resume(&mut self, number: u32, old: Option<Timestamp>, new: Option<Timestamp>) {
        if let Some(at) = old {
            self.resumes.remove(&(at, number));
        }
        if let Some(at) = new {
            self.resumes.insert((at, number));
        }
    }

    /// Returns the namespaces that resume by `now`, at most `most`.
    pub(crate) fn resuming_by(&self, now: Timestamp, most: usize) -> Vec<u32> {
        let due = self.resumes.iter().take_while(|(at, _)| *at <= now);
        due.take(most).map(|(_, number)| *number).collect()
    }

    /// Returns the time at which the next namespace resumes.
    pub(crate) fn next_resume(&self) -> Option<Timestamp> {
        self.resumes.first().map(|(at, _)| *at)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Namespace> {
        let gone = self.by_number.remove(&number)?;
        self.note_resume(number, gone.record.resumes_at, None);
        self.sums.replace(NamespaceSums::of(&gone), NamespaceSums::default());
        if self.by_name.get(&gone.record.name) == Some(&number) {
            self.by_name.remove(&gone.record.name);
        }
        for (slot, lane) in gone.lanes.iter() {
            self.active.remove(&(gone.record.name.clone(), slot));
            for kind in AttemptKind::ALL {
                self.dues.forget((number, slot, kind), lane.due(kind));
            }
        }
        Some(gone)
    }

    /// Returns the names after `after`, in order.
    pub(crate) fn names_after(
        &self,
        after: Option<&NamespaceName>,
    ) -> impl Iterator<Item = (&NamespaceName, u32)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.by_name
            .range::<NamespaceName, _>((from, Unbounded))
            .map(|(name, number)| (name, *number))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.by_number.iter().map(|(number, namespace)| (*number, namespace))
    }

    /// Changes the entries of a namespace, and updates the counts over all namespaces.
    pub(crate) fn with<T>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Namespace) -> T,
    ) -> Option<T> {
        let namespace = self.get_mut(number)?;
        let before = NamespaceSums::of(namespace);
        let answer = change(namespace);
        let after = NamespaceSums::of(namespace);
        self.sums.replace(before, after);
        Some(answer)
    }

    /// Returns the most due timers that a lane may keep resident; `resident_max` is the configured limit.
    pub(crate) fn resident_max(&self, resident_max: usize) -> usize {
        if self.dues.resident < RESIDENT_TOTAL_MAX {
            resident_max
        } else {
            resident_max.min(RESIDENT_MAX_WHEN_FULL)
        }
    }

    /// Counts a timer as due in its lane.
    pub(crate) fn count_due(&mut self, number: u32, entry: &Entry, resident_max: usize) {
        let resident_max = self.resident_max(resident_max);
        let Some(namespace) = self.by_number.get_mut(&number) else {
            return;
        };
        namespace.touched += 1;
        let key = entry.key(number);
        namespace.live.set_flags(key, entry.flags().with(Flags::COUNTED_DUE));
        let Some(lane) = namespace.lanes.get_mut(entry.lane()) else {
            return;
        };
        if lane.is_idle() {
            self.active.insert((namespace.record.name.clone(), entry.lane()));
        }
        let claimable = entry.claimable();
        let place = (number, entry.lane(), claimable.kind);
        self.dues.change(place, lane.due_mut(claimable.kind), |due| {
            due.add(DuePlace::of(number, entry), resident_max);
        });
    }

    /// Makes an unreadable timer claimable again.
    pub(crate) fn mark_readable(&mut self, number: u32, entry: &Entry, resident_max: usize) {
        let lane = (number, entry.lane(), entry.claimable().kind);
        self.change_due(lane, LaneDue::remove_unreadable);
        // It is treated like one that has just become due.
        let entry = entry.with_flags(entry.flags().without(Flags::DUE));
        self.count_due(number, &entry, resident_max);
    }

    /// Stops counting a timer as due, if it was. The entry may have left the index.
    pub(crate) fn clear_due(&mut self, number: u32, entry: &Entry) {
        if entry.flags().has(Flags::COUNTED_DUE)
            && let Some(namespace) = self.get_mut(number)
        {
            namespace.live.set_flags(entry.key(number), entry.flags().without(Flags::DUE));
            self.uncount_due(number, entry);
        }
    }

    /// Marks a due timer as unreadable, which keeps it from being claimed. Returns `false` if it is not
    /// due or is marked already.
    pub(crate) fn mark_unreadable(&mut self, number: u32, entry: &Entry) -> bool {
        let flags = entry.flags();
        let is_due = flags.has(Flags::COUNTED_DUE) && !flags.has(Flags::UNREADABLE);
        let Some(namespace) = self.by_number.get_mut(&number).filter(|_| is_due) else {
            return false;
        };
        namespace.live.set_flags(entry.key(number), flags.with(Flags::UNREADABLE));
        self.change_due((number, entry.lane(), entry.claimable().kind), |due| {
            due.mark_unreadable(DuePlace::of(number, entry));
        });
        true
    }

    /// Stops counting a timer as due and leaves its flags: the entry has left the index, or gets new
    /// flags.
    pub(crate) fn uncount_due(&mut self, number: u32, entry: &Entry) {
        if !entry.flags().has(Flags::COUNTED_DUE) {
            return;
        }
        self.change_due((number, entry.lane(), entry.claimable().kind), |due| {
            if entry.flags().has(Flags::UNREADABLE) {
                due.remove_unreadable();
            } else {
                due.remove(DuePlace::of(number, entry));
            }
        });
    }

    /// Brings spilled timers back into a lane's resident window, as many as fit.
    pub(crate) fn make_resident(
        &mut self,
        lane: LaneKindKey,
        found: impl Iterator<Item = DuePlace>,
        resident_max: usize,
    ) {
        let resident_max = self.resident_max(resident_max);
        self.change_due(lane, |due| {
            let free = resident_max.saturating_sub(due.window().len());
            found.take(free).for_each(|place| due.make_resident(place));
        });
    }

    /// Corrects the number of due timers of a kind in a lane, and how many of them are unreadable.
    pub(crate) fn correct_due(&mut self, lane: LaneKindKey, len: u64, unreadable: u64) {
        self.change_due(lane, |due| due.correct_len(len, unreadable));
    }

    fn change_due(&mut self, place: LaneKindKey, change: impl FnOnce(&mut LaneDue)) {
        let (number, slot, kind) = place;
        let Some(namespace) = self.by_number.get_mut(&number) else {
            return;
        };
        namespace.touched += 1;
        if let Some(lane) = namespace.lanes.get_mut(slot) {
            self.dues.change(place, lane.due_mut(kind), change);
        }
    }

    /// Removes a lane from [`Namespaces::active`] if it has become idle.
    pub(crate) fn refresh_active(&mut self, number: u32, lane: u8) {
        let Some(namespace) = self.by_number.get(&number) else {
            return;
        };
        if namespace.lanes.get(lane).is_none_or(Lane::is_idle) {
            self.active.remove(&(namespace.record.name.clone(), lane));
        }
    }
}
