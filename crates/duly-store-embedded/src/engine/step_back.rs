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

use crate::index::{AttemptKind, Claimable, Cursor, Entry, Flags, Key};

use super::{Engine, PendingClaimable, lane_due::DuePlace, step_budget::StepBudget};

/// Entries that one step visits, plus the rest of a table.
const VISITS_PER_STEP: usize = 32_768;
/// Entries of a window that are taken at once.
const CHUNK: usize = 64;

/// The pass; `None` if none is under way.
#[derive(Debug, Default)]
pub(super) struct StepBack(Option<StepBackPass>);

#[derive(Debug, Default)]
struct StepBackPass {
    /// Lane under way, or the one after which to resume.
    lane: Option<(NamespaceName, u8)>,
    stage: StepBackStage,
    /// `true`: another pass must follow.
    again: bool,
}

/// Progress in a lane.
#[derive(Debug, Default)]
enum StepBackStage {
    /// The next lane is to be begun.
    #[default]
    Done,
    /// First attempts, all of them resident in the window: after this place.
    FirstResident(Option<DuePlace>),
    /// First attempts, some of them spilled: from here on in the index.
    FirstSpilled(Cursor),
    /// Retries, all of them resident in the window: after this place.
    RetriesResident(Option<DuePlace>),
    /// Retries, some of them spilled: these, and those from here on in the index.
    RetriesSpilled(Vec<Key>, Option<Cursor>),
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
    pub(super) fn begin_step_back_pass(&mut self) {
        self.step_back.0 = Some(StepBackPass::default());
    }

    /// Begins another pass if the due time of some retry may be after the wall clock.
    pub(super) fn repeat_step_back_for_retries(&mut self) {
        if self.may_be_ahead() {
            self.busy = true;
            match &mut self.step_back.0 {
                Some(pass) => pass.again = true,
                None => self.begin_step_back_pass(),
            }
        }
    }

    /// Runs one step of the pass, if one is under way.
    pub(super) fn step_back_step(&mut self) {
        let Some(mut pass) = self.step_back.0.take() else {
            return;
        };
        let (mut visits, mut budget) = (0, StepBudget::for_pass());
        while visits < VISITS_PER_STEP && !budget.is_spent() {
            visits += 1;
            if let StepBackStage::Done = pass.stage {
                if self.next_step_back_lane(&mut pass) {
                    continue;
                }
                self.step_back.0 = pass.again.then(StepBackPass::default);
                self.busy |= pass.again;
                return;
            }
            let Some(lane) = pass.lane.as_ref().and_then(|(name, slot)| {
                self.namespaces.number_of(name).map(|number| (number, *slot))
            }) else {
                pass.stage = StepBackStage::Done;
                continue;
            };
            pass.stage = match std::mem::take(&mut pass.stage) {
                StepBackStage::FirstResident(behind) => {
                    self.clear_due_resident(lane, behind, &mut visits)
                }
                StepBackStage::FirstSpilled(cursor) => {
                    self.clear_due_spilled(lane, cursor, &mut visits)
                }
                StepBackStage::RetriesResident(behind) => {
                    self.defer_resident(lane, behind, &mut budget)
                }
                StepBackStage::RetriesSpilled(found, cursor) => {
                    self.defer_spilled(lane, found, cursor, (&mut visits, &mut budget))
                }
                StepBackStage::Done => StepBackStage::Done,
            };
        }
        self.step_back.0 = Some(pass);
        self.busy = true;
    }

    /// Moves to the next lane. Returns `true` if there is one.
    fn next_step_back_lane(&self, pass: &mut StepBackPass) -> bool {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = pass.lane.take().map_or(Unbounded, Excluded);
        pass.lane = self.namespaces.active.range((from, Unbounded)).next().cloned();
        let lane = pass.lane.as_ref().and_then(|(name, slot)| {
            let number = self.namespaces.number_of(name)?;
            self.namespaces.get(number)?.lanes.get(*slot)
        });
        pass.stage = match lane {
            Some(lane) if lane.due(AttemptKind::First).has_nonresident() => {
                StepBackStage::FirstSpilled(Cursor::START)
            }
            Some(_) => StepBackStage::FirstResident(None),
            None => StepBackStage::Done,
        };
        pass.lane.is_some()
    }

    fn clear_due_resident(
        &mut self,
        lane: (u32, u8),
        behind: Option<DuePlace>,
        visits: &mut usize,
    ) -> StepBackStage {
        let behind = behind.unwrap_or(DuePlace::behind(self.now.wall_ms));
        let some = self.resident_places_after(lane, AttemptKind::First, Some(behind));
        *visits += some.len();
        for place in &some {
            let entry = self.namespaces.live(Key::unpack(place.key));
            if let Some(entry) = entry.filter(|entry| self.is_ahead(lane.1, entry)) {
                self.clear_due_ahead(lane.0, &entry);
            }
        }
        some.last()
            .map_or_else(|| self.retries_of(lane), |last| StepBackStage::FirstResident(Some(*last)))
    }

    fn clear_due_spilled(
        &mut self,
        lane: (u32, u8),
        cursor: Cursor,
        visits: &mut usize,
    ) -> StepBackStage {
        let mut ahead = Vec::new();
        let next = self.namespaces.get(lane.0).and_then(|namespace| {
            namespace.live.visit(cursor, |entry| {
                *visits += 1;
                ahead.extend(Some(entry).filter(|entry| self.is_ahead(lane.1, entry)));
            })
        });
        ahead.iter().for_each(|entry| self.clear_due_ahead(lane.0, entry));
        next.map_or_else(|| self.retries_of(lane), StepBackStage::FirstSpilled)
    }

    fn retries_of(&self, (number, slot): (u32, u8)) -> StepBackStage {
        let lane = self.namespaces.get(number).and_then(|namespace| namespace.lanes.get(slot));
        match lane.map(|lane| lane.due(AttemptKind::Retry)) {
            Some(due) if self.may_be_ahead() && due.has_spilled() => {
                StepBackStage::RetriesSpilled(Vec::new(), Some(Cursor::START))
            }
            Some(_) => StepBackStage::RetriesResident(None),
            None => StepBackStage::Done,
        }
    }

    fn defer_spilled(
        &mut self,
        (number, slot): (u32, u8),
        mut found: Vec<Key>,
        cursor: Option<Cursor>,
        (visits, budget): (&mut usize, &mut StepBudget),
    ) -> StepBackStage {
        while let Some(key) = found.pop() {
            if let Some(entry) = self.namespaces.live(key)
                && is_due_retry(slot, &entry)
            {
                budget.spend(entry.location().bytes_estimate());
                self.defer_retry(key, &entry);
            }
            if budget.is_spent() {
                return StepBackStage::RetriesSpilled(found, cursor);
            }
        }
        let namespace = self.namespaces.get(number);
        let scan = namespace.zip(cursor).and_then(|(namespace, from)| namespace.live.scan(from));
        let Some(scan) = scan else {
            return StepBackStage::Done;
        };
        for entry in scan.entries() {
            *visits += 1;
            if is_due_retry(slot, &entry) {
                found.push(entry.key(number));
            }
        }
        StepBackStage::RetriesSpilled(found, scan.next)
    }

    fn defer_resident(
        &mut self,
        lane: (u32, u8),
        behind: Option<DuePlace>,
        budget: &mut StepBudget,
    ) -> StepBackStage {
        if !self.may_be_ahead() {
            return StepBackStage::Done;
        }
        let some = self.resident_places_after(lane, AttemptKind::Retry, behind);
        let mut last = None;
        for place in some {
            if budget.is_spent() {
                return StepBackStage::RetriesResident(last.or(behind));
            }
            let key = Key::unpack(place.key);
            if let Some(entry) = self.namespaces.live(key) {
                budget.spend(entry.location().bytes_estimate());
                self.defer_retry(key, &entry);
            }
            last = Some(place);
        }
        last.map_or(StepBackStage::Done, |last| StepBackStage::RetriesResident(Some(last)))
    }

    /// Returns some of the places in a lane's window after `behind`.
    fn resident_places_after(
        &self,
        lane: (u32, u8),
        kind: AttemptKind,
        behind: Option<DuePlace>,
    ) -> Vec<DuePlace> {
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
        kind == AttemptKind::First
            && at_ms > self.now.wall_ms
            && entry.lane() == slot
            && entry.flags().has(Flags::COUNTED_DUE)
    }

    fn clear_due_ahead(&mut self, number: u32, entry: &Entry) {
        self.namespaces.clear_due(number, entry);
        self.namespaces.refresh_active(number, entry.lane());
        let (key, claimable) = (entry.key(number), entry.claimable());
        self.check_window((number, entry.lane(), claimable.kind));
        self.make_claimable(PendingClaimable { key, claimable });
    }

    /// Returns `true` if some retry may have its due time after the wall clock.
    pub(super) const fn may_be_ahead(&self) -> bool {
        self.now.wall_ms < self.retry_due_max_ms
    }
}

/// Returns `true` if a retry of a lane is counted as due. An unreadable one is checked when it can be
/// read.
fn is_due_retry(slot: u8, entry: &Entry) -> bool {
    entry.claimable().kind == AttemptKind::Retry
        && entry.lane() == slot
        && entry.flags().has(Flags::COUNTED_DUE)
        && !entry.flags().has(Flags::UNREADABLE)
}
