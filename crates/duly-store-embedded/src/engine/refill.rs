//! Bringing hidden due timers back: a pass over a namespace's index for one lane whose window runs
//! low.
//!
//! Called by the tick, a few tables at a time; one pass at once.

use std::collections::BTreeSet;

use crate::index::{Cursor, Entry, Flags, Index, Key, Kind};

use super::{
    Engine,
    overdue::{Earliest, Place},
};

/// Pending timers of a namespace up to which a claim that finds an empty window waits for the pass.
pub(super) const AT_ONCE: usize = 65_536;
/// Tables that one step looks at.
const TABLES_PER_STEP: usize = 16;

/// A lane and kind.
pub(super) type LaneOfKind = (u32, u8, Kind);

/// The passes that are wanted and the one under way.
#[derive(Debug, Default)]
pub(super) struct Refills {
    wanted: BTreeSet<LaneOfKind>,
    pass: Option<Pass>,
}

impl Refills {
    pub(super) fn want(&mut self, lane: LaneOfKind) {
        self.wanted.insert(lane);
    }

    /// Whether a lane waits for its pass or has it under way.
    pub(super) fn has(&self, lane: LaneOfKind) -> bool {
        self.wanted.contains(&lane) || self.pass.as_ref().is_some_and(|pass| pass.lane == lane)
    }
}

#[derive(Debug)]
struct Pass {
    lane: LaneOfKind,
    cursor: Cursor,
    earliest: Earliest,
}

impl Pass {
    fn offer(&mut self, entry: &Entry) {
        let (number, lane, kind) = self.lane;
        let flags = entry.flags();
        let hidden = flags.has(Flags::SURFACED) && !flags.has(Flags::LEASED);
        if hidden && entry.lane() == lane && entry.claimable().kind == kind {
            self.earliest.offer(Place::of(number, entry));
        }
    }
}

impl Engine {
    /// Asks for a refill of a lane that runs low. What is in the window is found again and passed
    /// over.
    pub(super) fn check_window(&mut self, lane: LaneOfKind) {
        let (number, slot, kind) = lane;
        let room = self.namespaces.room(self.options.overdue_max);
        let due = self.namespaces.get_mut(number).and_then(|ns| ns.lanes.get_mut(slot));
        if due.is_some_and(|lane| lane.due_mut(kind).begin_refill(room)) {
            self.refills.want(lane);
            self.busy = true;
        }
    }

    /// One step.
    pub(super) fn refill(&mut self) {
        let Some(mut pass) = self.refills.pass.take().or_else(|| self.next_refill()) else {
            return;
        };
        self.busy = true;
        for _ in 0..TABLES_PER_STEP {
            let namespace = self.namespaces.get(pass.lane.0);
            let scan = namespace.and_then(|namespace| namespace.live.scan(pass.cursor));
            let next = scan.and_then(|scan| {
                let next = scan.next;
                scan.entries().for_each(|entry| pass.offer(&entry));
                next
            });
            match next {
                Some(cursor) => pass.cursor = cursor,
                None => {
                    self.end_refill(pass);
                    return;
                }
            }
        }
        self.refills.pass = Some(pass);
    }

    /// Fills an empty window on the spot, where that is a short piece of work; answers whether the
    /// earliest due timer of the lane is in the window.
    pub(super) fn fill_at_once(&mut self, lane: LaneOfKind) -> bool {
        let (number, slot, kind) = lane;
        let Some(namespace) = self.namespaces.get(number) else {
            return true;
        };
        let due = namespace.lanes.get(slot).map(|lane| lane.due(kind));
        if !due.is_some_and(|due| due.window().is_empty() && !due.is_empty()) {
            return true;
        }
        if namespace.live.len() > AT_ONCE {
            return false;
        }
        self.refills.wanted.remove(&lane);
        if self.refills.pass.as_ref().is_some_and(|pass| pass.lane == lane) {
            self.refills.pass = None;
        }
        let mut pass = self.pass_for(lane);
        let mut cursor = Some(Cursor::START);
        while let Some(scan) = cursor.and_then(|from| {
            self.namespaces.get(number).and_then(|namespace| namespace.live.scan(from))
        }) {
            cursor = scan.next;
            scan.entries().for_each(|entry| pass.offer(&entry));
        }
        self.end_refill(pass);
        true
    }

    fn next_refill(&mut self) -> Option<Pass> {
        let lane = self.refills.wanted.pop_first()?;
        Some(self.pass_for(lane))
    }

    fn pass_for(&self, lane: LaneOfKind) -> Pass {
        let room = self.namespaces.room(self.options.overdue_max);
        Pass { lane, cursor: Cursor::START, earliest: Earliest::new(room) }
    }

    fn end_refill(&mut self, pass: Pass) {
        let (number, slot, kind) = pass.lane;
        let Some(namespace) = self.namespaces.get_mut(number) else {
            return;
        };
        let Some(lane) = namespace.lanes.get_mut(slot) else {
            return;
        };
        let (late, late_until) = lane.due_mut(kind).end_refill();
        let (earliest, until) = pass.earliest.into_parts();
        let live = &namespace.live;
        let seen = earliest.len() + late.len();
        // Behind the last up to which none is missing there may be others in between.
        let until = until.into_iter().chain(late_until).min();
        let places = earliest.into_iter().chain(late);
        let places = places.filter(|place| until.is_none_or(|until| *place <= until));
        // Some were cancelled, claimed or changed since they were seen; the records of some moved.
        let mut found: Vec<Place> =
            places.filter_map(|place| place_now(live, &place, pass.lane)).collect();
        let is_short = found.len() < seen;
        found.sort_unstable();
        found.dedup();
        let window = lane.due(kind).window();
        found.retain(|place| !window.contains(place));
        let room = self.options.overdue_max;
        self.namespaces.unhide(number, slot, kind, found.into_iter(), room);
        // A retry whose due time is ahead of a wall clock that stepped back is not claimable.
        if kind == Kind::Retry {
            self.look_back_for_retries();
        }
        if is_short {
            self.check_window(pass.lane);
        }
        self.wake = true;
    }
}

/// The place that an entry has by now, if it is still due at its time in this lane.
fn place_now(live: &Index, seen: &Place, (number, slot, kind): LaneOfKind) -> Option<Place> {
    let entry = live.get(Key::unpack(seen.key))?;
    let claimable = entry.claimable();
    let is_due = entry.flags().has(Flags::SURFACED)
        && entry.lane() == slot
        && claimable.kind == kind
        && claimable.at_ms == seen.at_ms;
    is_due.then(|| Place::of(number, &entry))
}
