//! The near horizon: calendars of the timers that can be claimed soon.
//!
//! A timer *waits* for its next attempt until it is counted as due in its lane. It does not wait while its
//! present record is not on disk yet, while it is leased, or while it is deferred after a step back of the
//! clock (`step_back.rs`). But after an attempt that failed or was released, it waits at once. There are two
//! kinds of waiting: first attempts, whose times are by the wall clock, and retries, whose times are by the
//! steady clock.
//!
//! The index of a namespace has every pending timer of it, in no order of time. So each kind has a *calendar*,
//! a queue by time in memory ([`duly_wheel`]), of the timers that come next. A timer passes through these
//! places:
//!
//! ```text
//!   index ──sweep──► calendar of its kind ──its time comes──► due timers of its lane (lane_due.rs) ─► claim
//!                         └──more than a pass handles──► burst queue (burst_queue.rs) ──┘
//! ```
//!
//! A *pass* is the part of an engine step that counts timers as due in their lanes. It handles a bounded
//! number. If more are due at once, they move to the burst queue, so that the timers of other namespaces do not
//! wait for all of them. The first sweep after a start, and one that rebuilds a calendar, count due timers as
//! they find them, up to a budget. The others go through the calendar.
//!
//! Each kind has two marks, `end_ms` and `beyond_ms`, and a third during a sweep:
//!
//! ```text
//!            now            end_ms                      target_ms of a sweep
//!   ──────────┼────────────────┼──────────────────────────────┼──────────────►
//!   due, or   │  in a calendar │  found by the sweep under way│  in the index only
//!   to be popped
//! ```
//!
//! - `end_ms`: the calendar or the burst queue has the waiting timers before it. While no sweep runs, it moves
//!   forward up to `beyond_ms`, at most an hour ahead.
//! - `beyond_ms`: a lower bound of the times of the waiting timers that are in the index only. Both marks
//!   decide when to sweep. The calendar, the burst queue and `beyond_ms` decide when to wake. A sweep sets it
//!   to a lower bound of the times that it left out.
//! - `target_ms`: the `end_ms` that a sweep will set.
//!
//! How it works:
//!
//! 1. A sweep walks the indexes of all namespaces in small steps and collects the timers from `end_ms` to its
//!    target. If there are more than a calendar should hold, it keeps the earliest and lowers its target to
//!    exclude the others: timers of one millisecond are collected all or not at all. When all collected timers
//!    are in the calendar, `end_ms` becomes the target.
//! 2. A timer that begins to wait, or waits for another time now, enters the calendar if its time is before
//!    `end_ms`; otherwise it lowers `beyond_ms`. A sweep under way may have passed its entry, so the sweep gets
//!    it too: before the target it is collected, otherwise it lowers the bound that the sweep will set. In the
//!    first sweep, in a rebuild, and when the walk is complete, a timer enters the calendar if its time is
//!    before `end_ms` or before the target.
//! 3. A calendar with too many items, stale ones included, is rebuilt, to bound its memory. The next sweep
//!    collects all waiting timers before its target into a new calendar, so `end_ms` may move back. Until the
//!    new calendar is complete, the old one is used, and new timers enter both.
//! 4. A calendar is never searched. A timer that was cancelled, or has another time by now, leaves a stale
//!    item. `count_due_timer` (`time.rs`) compares each popped item with the index.
//!
//! What must stay true for each kind, from the end of the first sweep on:
//!
//! 1. Every waiting timer before `end_ms` is in the calendar or in the burst queue, also after its time has
//!    come, until it is counted as due.
//! 2. `beyond_ms` is a lower bound of the times of the waiting timers at or after `end_ms` that are not in the
//!    calendar.

use duly_core::NamespaceName;
use duly_wheel::Calendar;

use crate::index::{AttemptKind, Claimable, Cursor, Entry, Flags, PackedKey};

use super::{Engine, PendingClaimable, step_budget::StepBudget};

mod burst_queue;
mod swept;

use burst_queue::BurstQueue;
use swept::SweptTimers;

/// Length of the near horizon, unless that is too many timers.
const AHEAD_MS: u64 = 3_600_000;
/// Wait up to which a timer enters an empty calendar as soon as a sweep finds it.
const SOON_MS: u64 = 300_000;
/// Entries that one step inserts into calendars at the end of a sweep.
const INSERTS_PER_STEP: usize = 16_384;
/// Tables of an index that one step of a sweep visits.
const TABLES_PER_STEP: usize = 8;
/// Namespaces that one step of a sweep visits.
const NAMESPACES_PER_STEP: usize = 256;
/// A calendar may hold one of every `PENDING_FRACTION` pending timers, if that is more than the configured number.
const PENDING_FRACTION: usize = 16;

/// A time, and the key of a timer that may be claimable from then on.
pub(super) type DueTimer = (u64, PackedKey);

/// The near horizon of both kinds.
#[derive(Debug, Default)]
pub(super) struct NearHorizon {
    kinds: [KindHorizon; 2],
    sweep: Option<Sweep>,
}

/// The near horizon of one kind.
#[derive(Debug)]
pub(super) struct KindHorizon {
    pub(super) calendar: Calendar<PackedKey>,
    /// Burst queue: timers that became due together with a large number of others.
    pub(super) burst: BurstQueue,
    end_ms: u64,
    /// Lower bound of the times of waiting entries after the end; the earliest may be cancelled by now.
    beyond_ms: u64,
    /// `true`: the last sweep stopped early because the calendar was full.
    is_cut: bool,
    /// Number of timers above which the calendar is rebuilt.
    full_at: usize,
}

impl Default for KindHorizon {
    fn default() -> Self {
        let full_at = usize::MAX;
        let (calendar, burst) = (Calendar::new(), BurstQueue::default());
        Self { calendar, burst, end_ms: 0, beyond_ms: u64::MAX, is_cut: false, full_at }
    }
}

impl KindHorizon {
    fn len(&self) -> usize {
        self.calendar.len() + self.burst.len()
    }

    /// Moves the end as far as no entry waits behind it.
    fn extend_end(&mut self, now_ms: u64) {
        let free_until_ms = self.beyond_ms.min(now_ms.saturating_add(AHEAD_MS));
        if self.end_ms > 0 && self.calendar.len() <= self.full_at {
            self.end_ms = self.end_ms.max(free_until_ms);
        }
    }

    fn wants_sweep(&self, now_ms: u64, max: usize) -> bool {
        if self.end_ms == 0 || self.calendar.len() > self.full_at {
            // The first sweep after startup, or one that rebuilds the calendar.
            return true;
        }
        if self.beyond_ms == u64::MAX {
            return false;
        }
        let left_ms = self.end_ms.saturating_sub(now_ms);
        if self.is_cut {
            self.len() < max / 2 || left_ms == 0
        } else {
            left_ms < AHEAD_MS / 2 && self.beyond_ms < now_ms.saturating_add(AHEAD_MS)
        }
    }

    /// Returns the earliest time at which a timer may become claimable.
    fn next_ms(&self) -> Option<u64> {
        let beyond = (self.beyond_ms < u64::MAX).then_some(self.beyond_ms);
        self.calendar.next_due().into_iter().chain(self.burst.first_ms()).chain(beyond).min()
    }
}

/// A walk over all indexes.
#[derive(Debug)]
struct Sweep {
    /// Namespace under way, or the one after which to resume.
    name: Option<NamespaceName>,
    number: Option<u32>,
    cursor: Cursor,
    /// Timers of each kind that were found.
    swept: [SweptTimers; 2],
    /// `true`: the walk is complete. The found timers go into the calendars, some of them each step.
    is_walked: bool,
    /// Timers that this step found for a calendar under rebuild, and that are due now or soon. They do
    /// not wait for the end of a sweep that may have a hundred million entries to visit.
    soon: Vec<(AttemptKind, u64, PackedKey)>,
}

impl NearHorizon {
    pub(super) const fn kind_mut(&mut self, kind: AttemptKind) -> &mut KindHorizon {
        &mut self.kinds[kind as usize]
    }

    /// Adds a timer that waits.
    fn insert(&mut self, claimable: Claimable, key: PackedKey) {
        let Claimable { at_ms, kind } = claimable;
        // While the calendar is empty, timers before the sweep's target are inserted too.
        let mut until_ms = 0;
        if let Some(sweep) = &mut self.sweep {
            let is_walked = sweep.is_walked;
            let swept = sweep.swept(kind);
            swept.take(is_walked, at_ms, key);
            if is_walked || swept.from_ms == 0 {
                until_ms = swept.target_ms;
            }
        }
        let horizon = self.kind_mut(kind);
        if at_ms < horizon.end_ms.max(until_ms) {
            horizon.calendar.insert(at_ms, key);
        } else {
            horizon.beyond_ms = horizon.beyond_ms.min(at_ms);
        }
    }

    /// Returns `true` if a durable timer that waits for this time would never become due: no calendar has
    /// it and no sweep will find it. During a sweep that is not known, and the result is `false`.
    pub(super) fn has_lost(&self, kind: AttemptKind, at_ms: u64, now_ms: u64) -> bool {
        let horizon = &self.kinds[kind as usize];
        if self.sweep.is_some() || horizon.end_ms == 0 {
            return false;
        }
        if at_ms >= horizon.end_ms {
            return at_ms < horizon.beyond_ms;
        }
        let has_due = horizon.calendar.next_due().is_some_and(|next_ms| next_ms <= now_ms);
        at_ms <= now_ms && !has_due && horizon.burst.is_empty()
    }

    /// Returns the time at which a timer of a kind may become claimable, by the clock of the kind.
    pub(super) fn next_ms(&self, kind: AttemptKind) -> Option<u64> {
        self.kinds[kind as usize].next_ms()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let swept = self.sweep.iter().flat_map(|sweep| &sweep.swept).map(SweptTimers::heap_bytes);
        let of_kind = |kind: &KindHorizon| kind.calendar.heap_bytes() + kind.burst.heap_bytes();
        self.kinds.iter().map(of_kind).chain(swept).sum()
    }
}

impl Sweep {
    const fn swept(&mut self, kind: AttemptKind) -> &mut SweptTimers {
        &mut self.swept[kind as usize]
    }

    fn offer(&mut self, number: u32, entry: &Entry) {
        let flags = entry.flags();
        if !flags.has(Flags::LEASED) && !flags.has(Flags::COUNTED_DUE) {
            let Claimable { at_ms, kind } = entry.claimable();
            let key = entry.key(number).pack();
            let swept = self.swept(kind);
            if swept.from_ms == 0 && at_ms < swept.soon_ms {
                self.soon.push((kind, at_ms, key));
            } else {
                swept.offer(at_ms, key);
            }
        }
    }
}

impl Engine {
    /// Makes a timer claimable from its time on.
    pub(super) fn make_claimable(&mut self, pending_claimable: PendingClaimable) {
        let PendingClaimable { key, claimable } = pending_claimable;
        let left_ms = claimable.at_ms.saturating_sub(self.clock_of(claimable.kind));
        self.near_horizon.insert(claimable, key.pack());
        let wall_ms = self.now.wall_ms.saturating_add(left_ms);
        if self.announced_ms.is_none_or(|announced| wall_ms < announced) {
            self.wake = true;
        }
    }

    /// Returns the most timers that a calendar should hold.
    fn near_max(&self) -> usize {
        let share =
            usize::try_from(self.namespaces.sums.pending).unwrap_or(usize::MAX) / PENDING_FRACTION;
        self.options.near_max.max(share)
    }

    /// Keeps the calendars filled: runs one step of a sweep, if one is wanted or under way.
    pub(super) fn fill_near_horizon(&mut self) {
        let max = self.near_max();
        if self.near_horizon.sweep.is_none() {
            for kind in AttemptKind::ALL {
                let now_ms = self.clock_of(kind);
                self.near_horizon.kind_mut(kind).extend_end(now_ms);
            }
            let kinds = AttemptKind::ALL
                .map(|kind| (&self.near_horizon.kinds[kind as usize], self.clock_of(kind)));
            if kinds.iter().any(|(horizon, now_ms)| horizon.wants_sweep(*now_ms, max)) {
                self.near_horizon.sweep = Some(Sweep {
                    name: None,
                    number: None,
                    cursor: Cursor::START,
                    swept: kinds.map(|(horizon, now_ms)| SweptTimers::new(horizon, now_ms, max)),
                    is_walked: false,
                    soon: Vec::new(),
                });
            }
        }
        if let Some(mut sweep) = self.near_horizon.sweep.take() {
            if !sweep.is_walked {
                sweep.is_walked = self.sweep_step(&mut sweep);
            }
            let is_settled = sweep.swept.each_mut().map(SweptTimers::offer_some_again) == [true; 2];
            let is_walked = sweep.is_walked;
            let mut budget = StepBudget::for_pass();
            for (kind, at_ms, key) in std::mem::take(&mut sweep.soon) {
                if at_ms <= self.clock_of(kind) && !budget.is_spent() {
                    self.count_due_timer(kind, (at_ms, key), &mut budget);
                    continue;
                }
                let horizon = self.near_horizon.kind_mut(kind);
                if horizon.end_ms == 0 {
                    horizon.calendar.insert(at_ms, key);
                }
                // At the last step of the walk, too: what was cut off comes back at the next sweep.
                sweep.swept(kind).take(is_walked, at_ms, key);
            }
            if !sweep.is_walked || !is_settled || !self.insert_found(&mut sweep, max) {
                self.near_horizon.sweep = Some(sweep);
            }
        }
        self.busy |= self.near_horizon.sweep.is_some();
    }

    /// Continues the walk. Returns `true` if it is complete.
    fn sweep_step(&self, sweep: &mut Sweep) -> bool {
        let (mut tables, mut namespaces) = (0, 0);
        while tables < TABLES_PER_STEP && namespaces < NAMESPACES_PER_STEP {
            let Some(number) = sweep.number else {
                let Some((name, number)) = self.namespaces.names_after(sweep.name.as_ref()).next()
                else {
                    return true;
                };
                sweep.name = Some(name.clone());
                sweep.number = Some(number);
                sweep.cursor = Cursor::START;
                namespaces += 1;
                continue;
            };
            let namespace = self.namespaces.get(number);
            let scan = namespace.and_then(|namespace| namespace.live.scan(sweep.cursor));
            let next = scan.and_then(|scan| {
                let next = scan.next;
                scan.entries().for_each(|entry| sweep.offer(number, &entry));
                tables += 1;
                next
            });
            match next {
                Some(cursor) => sweep.cursor = cursor,
                None => sweep.number = None,
            }
        }
        false
    }

    /// Inserts some of the found timers into the calendars. After the last of them it moves the ends and
    /// returns `true`.
    fn insert_found(&mut self, sweep: &mut Sweep, max: usize) -> bool {
        // Timers that are due already become claimable in the passes of this step or of the next one.
        self.busy = true;
        let mut left = INSERTS_PER_STEP.min((max / 4).max(1));
        for kind in AttemptKind::ALL {
            let swept = sweep.swept(kind);
            left -= swept.move_into(&mut self.near_horizon.kind_mut(kind).calendar, left);
        }
        if !sweep.swept.iter().all(SweptTimers::is_empty) {
            return false;
        }
        for kind in AttemptKind::ALL {
            let (swept, horizon) = (sweep.swept(kind), self.near_horizon.kind_mut(kind));
            if swept.from_ms == 0 {
                horizon.calendar = std::mem::take(&mut swept.fresh);
            }
            horizon.end_ms = swept.target_ms;
            horizon.beyond_ms = swept.beyond_ms;
            horizon.is_cut = swept.is_cut;
            horizon.full_at = 2 * horizon.calendar.len().max(max);
        }
        true
    }
}

#[cfg(test)]
mod tests;
