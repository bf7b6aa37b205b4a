//! Steps back of the wall clock: stops counting timers as due whose due time is in the future again.
//!
//! A pass visits the lanes in which a timer is due, in small steps:
//!
//! 1. First attempts go back into the calendar.
//! 2. Retries are *deferred* until their due time comes again. Only their records have that time.
//!
//! No claim depends on the pass, because each claim checks the due time itself (P2). The pass corrects
//! the counts. Called by the tick; without a step back it does nothing.

use duly_core::NamespaceName;

use crate::index::{Claimable, Cursor, Entry, Flags, Key, Kind};

use super::{Engine, PendingClaimable, allowance::StepBudget, overdue::Place};

/// Entries that one step visits, plus the rest of a table.
const LOOKS_PER_STEP: usize = 32_768;
/// Entries of a window that are taken at once.
const CHUNK: usize = 64;

/// The pass; `None` if none is under way.
#[derive(Debug, Default)]
pub(super) struct StepBack(Option<Pass>);

#[derive(Debug, Default)]
struct Pass {
    /// Lane under way, or the one after which to resume.
    lane: Option<(NamespaceName, u8)>,
    stage: Stage,
    /// `true`: another pass must follow.
    again: bool,
}

/// Progress in a lane.
#[derive(Debug, Default)]
enum Stage {
    /// The next lane is to be begun.
    #[default]
    Done,
    /// First attempts, all of them resident in the window: after this place.
    Held(Option<Place>),
    /// First attempts, some of them spilled: from here on in the index.
    Hidden(Cursor),
    /// Retries, all of them resident in the window: after this place.
    Retries(Option<Place>),
    /// Retries, some of them spilled: these, and those from here on in the index.
    HiddenRetries(Vec<Key>, Option<Cursor>),
}

impl StepBack {
    pub(super) const fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Makes another pass follow: entries that this one has not visited may now be before its place.
    pub(super) const fn places_moved(&mut self) {
        if let Some(pass) = &mut self.0 {
            pass.again = true;
        }
    }
}

impl Engine {
    /// Begins a pass, after the wall clock has stepped back.
    pub(super) fn look_back(&mut self) {
        self.step_back.0 = Some(Pass::default());
    }

    /// Begins another pass if the due time of some retry may be after the wall clock.
    pub(super) fn look_back_for_retries(&mut self) {
        if self.may_be_ahead() {
            self.busy = true;
            match &mut self.step_back.0 {
                Some(pass) => pass.again = true,
                None => self.look_back(),
            }
        }
    }

    /// Runs one step of the pass, if one is under way.
    pub(super) fn look_back_on(&mut self) {
        let Some(mut pass) = self.step_back.0.take() else {
            return;
        };
        let (mut looks, mut allowance) = (0, StepBudget::of_a_pass());
        while looks < LOOKS_PER_STEP && !allowance.is_spent() {
            looks += 1;
            if let Stage::Done = pass.stage {
                if self.next_lane_back(&mut pass) {
                    continue;
                }
                self.step_back.0 = pass.again.then(Pass::default);
                self.busy |= pass.again;
                return;
            }
            let Some(lane) = pass.lane.as_ref().and_then(|(name, slot)| {
                self.namespaces.number_of(name).map(|number| (number, *slot))
            }) else {
                pass.stage = Stage::Done;
                continue;
            };
            pass.stage = match std::mem::take(&mut pass.stage) {
                Stage::Held(behind) => self.sink_held(lane, behind, &mut looks),
                Stage::Hidden(cursor) => self.sink_hidden(lane, cursor, &mut looks),
                Stage::Retries(behind) => self.hold_back_some(lane, behind, &mut allowance),
                Stage::HiddenRetries(found, cursor) => {
                    self.hold_back_hidden(lane, found, cursor, (&mut looks, &mut allowance))
                }
                Stage::Done => Stage::Done,
            };
        }
        self.step_back.0 = Some(pass);
        self.busy = true;
    }

    /// Moves to the next lane. Returns `true` if there is one.
    fn next_lane_back(&self, pass: &mut Pass) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = pass.lane.take().map_or(Unbounded, Excluded);
        pass.lane = self.namespaces.active.range((from, Unbounded)).next().cloned();
        let lane = pass.lane.as_ref().and_then(|(name, slot)| {
            let number = self.namespaces.number_of(name)?;
            self.namespaces.get(number)?.lanes.get(*slot)
        });
        pass.stage = match lane {
            Some(lane) if lane.due(Kind::First).has_unheld() => Stage::Hidden(Cursor::START),
            Some(_) => Stage::Held(None),
            None => Stage::Done,
        };
        pass.lane.is_some()
    }

    fn sink_held(&mut self, lane: (u32, u8), behind: Option<Place>, looks: &mut usize) -> Stage {
        let behind = behind.unwrap_or(Place::behind(self.now.wall_ms));
        let some = self.held_behind(lane, Kind::First, Some(behind));
        *looks += some.len();
        for place in &some {
            let entry = self.namespaces.live(Key::unpack(place.key));
            if let Some(entry) = entry.filter(|entry| self.is_ahead(lane.1, entry)) {
                self.sink_ahead(lane.0, &entry);
            }
        }
        some.last().map_or_else(|| self.retries_of(lane), |last| Stage::Held(Some(*last)))
    }

    fn sink_hidden(&mut self, lane: (u32, u8), cursor: Cursor, looks: &mut usize) -> Stage {
        let namespace = self.namespaces.get(lane.0);
        let Some(scan) = namespace.and_then(|namespace| namespace.live.scan(cursor)) else {
            return self.retries_of(lane);
        };
        let next = scan.next;
        let mut ahead = Vec::new();
        for entry in scan.entries() {
            *looks += 1;
            if self.is_ahead(lane.1, &entry) {
                ahead.push(entry);
            }
        }
        ahead.iter().for_each(|entry| self.sink_ahead(lane.0, entry));
        next.map_or_else(|| self.retries_of(lane), Stage::Hidden)
    }

    fn retries_of(&self, (number, slot): (u32, u8)) -> Stage {
        let lane = self.namespaces.get(number).and_then(|namespace| namespace.lanes.get(slot));
        match lane.map(|lane| lane.due(Kind::Retry)) {
            Some(due) if self.may_be_ahead() && due.has_hidden() => {
                Stage::HiddenRetries(Vec::new(), Some(Cursor::START))
            }
            Some(_) => Stage::Retries(None),
            None => Stage::Done,
        }
    }

    fn hold_back_hidden(
        &mut self,
        (number, slot): (u32, u8),
        mut found: Vec<Key>,
        cursor: Option<Cursor>,
        (looks, allowance): (&mut usize, &mut StepBudget),
    ) -> Stage {
        while let Some(key) = found.pop() {
            if let Some(entry) = self.namespaces.live(key)
                && is_due_retry(slot, &entry)
            {
                allowance.spend(entry.location().bytes_estimate());
                self.hold_back_retry(key, &entry);
            }
            if allowance.is_spent() {
                return Stage::HiddenRetries(found, cursor);
            }
        }
        let namespace = self.namespaces.get(number);
        let scan = namespace.zip(cursor).and_then(|(namespace, from)| namespace.live.scan(from));
        let Some(scan) = scan else {
            return Stage::Done;
        };
        for entry in scan.entries() {
            *looks += 1;
            if is_due_retry(slot, &entry) {
                found.push(entry.key(number));
            }
        }
        Stage::HiddenRetries(found, scan.next)
    }

    fn hold_back_some(
        &mut self,
        lane: (u32, u8),
        behind: Option<Place>,
        allowance: &mut StepBudget,
    ) -> Stage {
        if !self.may_be_ahead() {
            return Stage::Done;
        }
        let some = self.held_behind(lane, Kind::Retry, behind);
        let mut last = None;
        for place in some {
            if allowance.is_spent() {
                return Stage::Retries(last.or(behind));
            }
            let key = Key::unpack(place.key);
            if let Some(entry) = self.namespaces.live(key) {
                allowance.spend(entry.location().bytes_estimate());
                self.hold_back_retry(key, &entry);
            }
            last = Some(place);
        }
        last.map_or(Stage::Done, |last| Stage::Retries(Some(last)))
    }

    /// Returns some of the places in a lane's window after `behind`.
    fn held_behind(&self, lane: (u32, u8), kind: Kind, behind: Option<Place>) -> Vec<Place> {
        use std::ops::Bound::{Excluded, Unbounded};
        let (number, slot) = lane;
        let lane = self.namespaces.get(number).and_then(|namespace| namespace.lanes.get(slot));
        let from = behind.map_or(Unbounded, Excluded);
        let held = lane.map(|lane| lane.due(kind).window().range((from, Unbounded)));
        held.into_iter().flatten().take(CHUNK).copied().collect()
    }

    /// Returns `true` if a first attempt of a lane is counted as due, and is not due any more.
    fn is_ahead(&self, slot: u8, entry: &Entry) -> bool {
        let Claimable { at_ms, kind } = entry.claimable();
        kind == Kind::First
            && at_ms > self.now.wall_ms
            && entry.lane() == slot
            && entry.flags().has(Flags::SURFACED)
    }

    fn sink_ahead(&mut self, number: u32, entry: &Entry) {
        self.namespaces.sink(number, entry);
        self.namespaces.refresh_active(number, entry.lane());
        let (key, claimable) = (entry.key(number), entry.claimable());
        self.check_window((number, entry.lane(), claimable.kind));
        self.publish(PendingClaimable { key, claimable });
    }

    /// Returns `true` if some retry may have its due time after the wall clock.
    pub(super) const fn may_be_ahead(&self) -> bool {
        self.now.wall_ms < self.retry_due_max_ms
    }
}

/// Returns `true` if a retry of a lane is counted as due. An unreadable one is checked when it can be
/// read.
fn is_due_retry(slot: u8, entry: &Entry) -> bool {
    entry.claimable().kind == Kind::Retry
        && entry.lane() == slot
        && entry.flags().has(Flags::SURFACED)
        && !entry.flags().has(Flags::ASIDE)
}
