//! Refill: brings the earliest spilled timers of one lane and kind back into its resident window
//! ([`super::lane_due`]).
//!
//! 1. A pass walks the index of the namespace, some tables a step, and keeps the earliest spilled timers
//!    that it finds, at most `resident_max` of them.
//! 2. Then they enter the window, some of them a step, together with timers that became due or readable
//!    meanwhile. A timer whose time or state has changed since the walk saw it is left out; the next pass
//!    finds it.
//! 3. One pass runs at a time in the store. Other lanes wait for theirs.
//!
//! Called by the tick.

use std::collections::BTreeSet;

use crate::index::{AttemptKind, Cursor, Entry, Flags, Index, Key};

use super::{
    Engine,
    earliest::{Ascending, Earliest},
    lane_due::DuePlace,
};

/// Timers that one claim may visit, over all its lanes, to fill empty windows. A lane of a namespace that
/// has more timers than are left of them waits for its pass.
pub(super) const VISITS_AT_ONCE: usize = if cfg!(test) { 4_096 } else { 65_536 };
/// Tables that one step visits.
const TABLES_PER_STEP: usize = 16;

/// Timers that one step brings back.
const PLACES_PER_STEP: usize = if cfg!(test) { 3 } else { 4_096 };

/// One of every `RESIDENT_FRACTION` due timers of a lane may be resident, if that is more than the configured number.
const RESIDENT_FRACTION: u64 = 32;
/// Most of them: to drop the later half of twice as many is one step.
const RESIDENT_MAX: u64 = 524_288;

/// A lane of a namespace, and a kind.
pub(super) type LaneKindKey = (u32, u8, AttemptKind);

/// Lanes that wait for a pass, and the pass under way.
#[derive(Debug, Default)]
pub(super) struct Refills {
    wanted: BTreeSet<LaneKindKey>,
    pass: Option<RefillPass>,
    filling: Option<RefillResult>,
}

impl Refills {
    pub(super) fn want(&mut self, lane: LaneKindKey) {
        self.wanted.insert(lane);
    }

    /// Returns `true` if a lane waits for its pass or has it under way.
    pub(super) fn has(&self, lane: LaneKindKey) -> bool {
        self.wanted.contains(&lane)
            || self.pass.as_ref().is_some_and(|pass| pass.lane == lane)
            || self.filling.as_ref().is_some_and(|filling| filling.lane == lane)
    }

    /// Drops the pass of a lane, which then starts over.
    fn forget(&mut self, lane: LaneKindKey) {
        self.wanted.remove(&lane);
        self.pass.take_if(|pass| pass.lane == lane);
        self.filling.take_if(|filling| filling.lane == lane);
    }
}

#[derive(Debug)]
struct RefillPass {
    lane: LaneKindKey,
    cursor: Cursor,
    earliest: Earliest<DuePlace>,
}

/// Result of a pass on its way into the window, the earliest first.
#[derive(Debug)]
struct RefillResult {
    lane: LaneKindKey,
    found: Ascending<DuePlace>,
    /// `true`: it has all spilled timers of the lane.
    is_all: bool,
    /// `true`: some timers had changed since the pass saw them.
    is_short: bool,
}

impl RefillPass {
    /// Visits the next table. Returns `true` if it was the last one.
    fn step(&mut self, live: &Index) -> bool {
        let next = live.visit(self.cursor, |entry| self.offer(&entry));
        self.cursor = next.unwrap_or(self.cursor);
        next.is_none()
    }

    fn offer(&mut self, entry: &Entry) {
        let (number, lane, kind) = self.lane;
        let flags = entry.flags();
        let spilled = flags.has(Flags::COUNTED_DUE)
            && !flags.has(Flags::LEASED)
            && !flags.has(Flags::UNREADABLE);
        if spilled && entry.lane() == lane && entry.claimable().kind == kind {
            self.earliest.offer(DuePlace::of(number, entry));
        }
    }
}

impl Engine {
    /// Asks for a refill of a lane if its window runs low. The pass also finds the timers in the window,
    /// and skips them.
    pub(super) fn check_window(&mut self, lane: LaneKindKey) {
        let (number, slot, kind) = lane;
        let resident_max = self.namespaces.resident_max(self.resident_max_of(lane));
        let due = self.namespaces.get_mut(number).and_then(|ns| ns.lanes.get_mut(slot));
        if due.is_some_and(|lane| lane.due_mut(kind).begin_refill(resident_max)) {
            self.refills.want(lane);
            self.busy = true;
        }
    }

    /// Runs one step.
    pub(super) fn refill(&mut self) {
        if let Some(filling) = self.refills.filling.take() {
            self.refills.filling = self.fill_step(filling);
            self.busy = true;
            return;
        }
        let Some(mut pass) = self.refills.pass.take().or_else(|| self.next_refill()) else {
            return;
        };
        self.busy = true;
        for _ in 0..TABLES_PER_STEP {
            let namespace = self.namespaces.get(pass.lane.0);
            if namespace.is_none_or(|namespace| pass.step(&namespace.live)) {
                self.refills.filling = Some(RefillResult::of(pass));
                return;
            }
        }
        self.refills.pass = Some(pass);
    }

    /// Fills an empty window at once, if the namespace has no more timers than are left of `visits`.
    /// Returns `true` if the earliest due timer of the lane is in the window.
    pub(super) fn fill_at_once(&mut self, lane: LaneKindKey, visits: &mut usize) -> bool {
        let (number, slot, kind) = lane;
        let Some(namespace) = self.namespaces.get(number) else {
            return true;
        };
        let due = namespace.lanes.get(slot).map(|lane| lane.due(kind));
        if !due.is_some_and(|due| due.window().is_empty() && due.has_spilled()) {
            return true;
        }
        let Some(left) = visits.checked_sub(namespace.live.len()) else {
            return false;
        };
        *visits = left;
        self.refills.forget(lane);
        let mut pass = self.pass_for(lane);
        while !pass.step(&namespace.live) {}
        let mut filling = Some(RefillResult::of(pass));
        while let Some(under_way) = filling {
            filling = self.fill_step(under_way);
        }
        true
    }

    fn next_refill(&mut self) -> Option<RefillPass> {
        let lane = self.refills.wanted.pop_first()?;
        Some(self.pass_for(lane))
    }

    fn pass_for(&self, lane: LaneKindKey) -> RefillPass {
        let resident_max = self.namespaces.resident_max(self.resident_max_of(lane));
        RefillPass { lane, cursor: Cursor::START, earliest: Earliest::new(resident_max) }
    }

    /// Returns the most due timers that a lane may keep resident. The more are due, the more stay
    /// resident, so the index is walked less often until all are delivered.
    fn resident_max_of(&self, (number, slot, kind): LaneKindKey) -> usize {
        let lane = self.namespaces.get(number).and_then(|namespace| namespace.lanes.get(slot));
        let due = lane.map_or(0, |lane| lane.due(kind).len());
        let share =
            usize::try_from((due / RESIDENT_FRACTION).min(RESIDENT_MAX)).expect("it is small");
        self.options.overdue_max.max(share)
    }

    /// Brings some found timers into the window. Returns the rest.
    fn fill_step(&mut self, mut filling: RefillResult) -> Option<RefillResult> {
        let (number, slot, kind) = filling.lane;
        let resident_max = self.resident_max_of(filling.lane);
        let free = self.namespaces.resident_max(resident_max);
        let namespace = self.namespaces.get_mut(number)?;
        let due = namespace.lanes.get_mut(slot)?.due_mut(kind);
        let free = free.saturating_sub(due.window().len()).min(PLACES_PER_STEP);
        let mut some = filling.found.front(free).to_vec();
        filling.found.take_out(some.len());
        let is_last = filling.found.is_empty() || free == 0;
        // Timers that became due meanwhile go between them. After the last found one, there may be others
        // in the index.
        let late = match some.last().copied() {
            _ if is_last && filling.is_all && due.has_all_late() => Some(due.end_refill()),
            Some(until) => due.late_until(until),
            None => Some(Vec::new()),
        };
        let is_complete = late.is_some();
        filling.is_short |= !is_complete;
        if let Some(late) = late {
            let seen = some.len() + late.len();
            some.extend(late);
            // Some were cancelled, claimed or changed since the pass saw them; the records of others
            // moved.
            let live = &namespace.live;
            live.warm(some.iter().map(|place| Key::unpack(place.key)));
            let places = some.into_iter().filter_map(|place| place_now(live, &place, filling.lane));
            let places: BTreeSet<DuePlace> = places.collect();
            filling.is_short |= places.len() < seen;
            self.namespaces.make_resident(filling.lane, places.into_iter(), resident_max);
        }
        self.wake = true;
        if !is_last && is_complete {
            return Some(filling);
        }
        self.end_refill(&filling);
        None
    }

    fn end_refill(&mut self, filling: &RefillResult) {
        let (number, slot, kind) = filling.lane;
        let namespace = self.namespaces.get_mut(number);
        if let Some(lane) = namespace.and_then(|namespace| namespace.lanes.get_mut(slot)) {
            lane.due_mut(kind).end_refill();
        }
        // A retry whose due time is after the wall clock, because the clock stepped back, is not
        // claimable.
        if kind == AttemptKind::Retry {
            self.repeat_step_back_for_retries();
        }
        if filling.is_short {
            self.check_window(filling.lane);
        }
    }
}

impl RefillResult {
    fn of(pass: RefillPass) -> Self {
        let (found, until) = pass.earliest.into_parts();
        let found = Ascending::of(found);
        Self { lane: pass.lane, found, is_all: until.is_none(), is_short: false }
    }
}

/// Returns the current place of an entry, if it is still due at its time in this lane.
fn place_now(live: &Index, seen: &DuePlace, (number, slot, kind): LaneKindKey) -> Option<DuePlace> {
    let entry = live.get(Key::unpack(seen.key))?;
    let claimable = entry.claimable();
    let is_due = entry.flags().has(Flags::COUNTED_DUE)
        && !entry.flags().has(Flags::UNREADABLE)
        && entry.lane() == slot
        && claimable.kind == kind
        && claimable.at_ms == seen.at_ms;
    is_due.then(|| DuePlace::of(number, &entry))
}
