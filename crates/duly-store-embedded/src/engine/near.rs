//! The near set: calendars of what can be claimed soon, filled ahead of time by a sweep.
//!
//! ```text
//!            now            end_ms                      target_ms of a sweep
//!   ──────────┼────────────────┼──────────────────────────────┼──────────────►
//!   surfaced  │  in a calendar │  found by the sweep under way│  in the index only
//! ```
//!
//! One sweep walks all indexes in small steps. It takes what lies between the end and its target,
//! keeping the earliest where that is more than a calendar should hold, and then moves the end. What
//! is added or moved while it runs and lies before its target is handed to it as well. A calendar
//! into which too much was put meanwhile is made anew by a sweep that begins at the present. Cancel
//! and reschedule never look here: a popped entry that disagrees with the index is stale.
//!
//! Invariants, for each kind: every waiting entry (durable, not leased, not surfaced, not held back)
//! before `end_ms` is in the calendar or the crowd; no waiting entry at or after it is earlier than `beyond_ms`.

use duly_core::NamespaceName;
use duly_wheel::Calendar;

use crate::index::{Claimable, Cursor, Entry, Flags, Kind, PackedKey};

use super::{Engine, Publish, allowance::Allowance};

mod catch;
mod crowd;
mod queue;

use catch::Catch;
use crowd::Crowd;

/// How far ahead a calendar reaches, unless that is too many timers.
const AHEAD_MS: u64 = 3_600_000;
/// What waits no longer than this is put into an empty calendar as soon as a sweep finds it.
const SOON_MS: u64 = 300_000;
/// Entries that one step puts into calendars at the end of a sweep.
const INSERTS_PER_STEP: usize = 16_384;
/// Tables of an index that one step of a sweep looks at.
const TABLES_PER_STEP: usize = 8;
/// Namespaces that one step of a sweep looks at.
const NAMESPACES_PER_STEP: usize = 256;
/// A calendar may hold one of so many pending timers, where that is more than the configured number.
const SHARE: usize = 16;

/// A time, and what may be claimable from then on.
pub(super) type Due = (u64, PackedKey);

/// The calendars.
#[derive(Debug)]
pub(super) struct Near {
    first: Window,
    retry: Window,
    sweep: Option<Sweep>,
}

/// The calendar of one kind, and how far it reaches.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) calendar: Calendar<PackedKey>,
    /// What has become due together with very much else.
    crowd: Crowd,
    end_ms: u64,
    /// Nothing that waits at or after the end is earlier; it may have been cancelled since.
    beyond_ms: u64,
    /// Whether the last sweep left off because the calendar was full.
    is_cut: bool,
    /// How many timers are too many.
    full_at: usize,
}

impl Default for Window {
    fn default() -> Self {
        let full_at = usize::MAX;
        let (calendar, crowd) = (Calendar::new(), Crowd::default());
        Self { calendar, crowd, end_ms: 0, beyond_ms: u64::MAX, is_cut: false, full_at }
    }
}

impl Window {
    /// Takes out what is due, if that is at most `limit`; of what is more the namespaces have turns.
    pub(super) fn pop_due(&mut self, now_ms: u64, limit: usize, out: &mut Vec<Due>) {
        self.crowd.take(&mut self.calendar, now_ms, limit, out);
    }

    /// Takes out what one namespace has in its turn; answers which and how many were looked at.
    pub(super) fn pop_turn(&mut self, now_ms: u64, out: &mut Vec<Due>) -> Option<(u32, usize)> {
        self.crowd.take_turn(&mut self.calendar, now_ms, out)
    }

    /// Takes back what a turn had no time for.
    pub(super) fn put_back(&mut self, number: u32, left: impl DoubleEndedIterator<Item = Due>) {
        self.crowd.put_back(number, left);
    }

    /// Whether namespaces wait for their turn.
    pub(super) const fn has_turns(&self) -> bool {
        !self.crowd.is_empty()
    }

    fn len(&self) -> usize {
        self.calendar.len() + self.crowd.len()
    }

    /// Moves the end as far as nothing waits behind it.
    fn reach(&mut self, now_ms: u64) {
        let free_until_ms = self.beyond_ms.min(now_ms.saturating_add(AHEAD_MS));
        if self.end_ms > 0 && self.calendar.len() <= self.full_at {
            self.end_ms = self.end_ms.max(free_until_ms);
        }
    }

    /// Forgets that something waits behind the end, for tests.
    #[cfg(test)]
    pub(super) const fn forget_beyond(&mut self) {
        self.beyond_ms = u64::MAX;
    }

    fn wants_sweep(&self, now_ms: u64, max: usize) -> bool {
        if self.end_ms == 0 || self.calendar.len() > self.full_at {
            // The first of an opening, or one to make the calendar anew.
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

    /// The earliest time at which something may become claimable.
    fn next_ms(&self) -> Option<u64> {
        let beyond = (self.beyond_ms < u64::MAX).then_some(self.beyond_ms);
        self.calendar.next_due().into_iter().chain(self.crowd.first_ms()).chain(beyond).min()
    }
}

/// A walk over all indexes.
#[derive(Debug)]
struct Sweep {
    /// The namespace under way, or the one behind which to go on.
    name: Option<NamespaceName>,
    number: Option<u32>,
    cursor: Cursor,
    first: Catch,
    retry: Catch,
    /// Whether all was seen: what was found goes into the calendars, some of it each step.
    is_walked: bool,
    /// What this step found that is due, or is soon, of a calendar that is made anew: it need not
    /// wait for the end of a sweep that may have a hundred million entries to look at.
    soon: Vec<(Kind, u64, PackedKey)>,
}

impl Near {
    pub(super) fn new() -> Self {
        Self { first: Window::default(), retry: Window::default(), sweep: None }
    }

    pub(super) const fn window(&mut self, kind: Kind) -> &mut Window {
        match kind {
            Kind::First => &mut self.first,
            Kind::Retry => &mut self.retry,
        }
    }

    /// Takes in a timer that waits.
    fn insert(&mut self, claimable: Claimable, key: PackedKey) {
        let Claimable { at_ms, kind } = claimable;
        // Where the calendar reaches nowhere yet, what is before the sweep's target is put into it, too.
        let mut until_ms = 0;
        if let Some(sweep) = &mut self.sweep {
            let is_walked = sweep.is_walked;
            let catch = sweep.catch(kind);
            catch.take(is_walked, at_ms, key);
            if is_walked || catch.from_ms == 0 {
                until_ms = catch.target_ms;
            }
        }
        let window = self.window(kind);
        if at_ms < window.end_ms.max(until_ms) {
            window.calendar.insert(at_ms, key);
        } else {
            window.beyond_ms = window.beyond_ms.min(at_ms);
        }
    }

    /// Whether something durable that waits for this time would never come up: no calendar has it
    /// and no sweep looks for it. While a sweep runs that is not known.
    pub(super) fn loses(&self, kind: Kind, at_ms: u64, now_ms: u64) -> bool {
        let window = match kind {
            Kind::First => &self.first,
            Kind::Retry => &self.retry,
        };
        if self.sweep.is_some() || window.end_ms == 0 {
            return false;
        }
        if at_ms >= window.end_ms {
            return at_ms < window.beyond_ms;
        }
        let has_due = window.calendar.next_due().is_some_and(|next_ms| next_ms <= now_ms);
        at_ms <= now_ms && !has_due && window.crowd.is_empty()
    }

    /// When something of a kind may become claimable, by its own clock.
    pub(super) fn next_ms(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::First => self.first.next_ms(),
            Kind::Retry => self.retry.next_ms(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let sweep = self.sweep.as_ref();
        let caught = sweep.map_or(0, |sweep| sweep.first.heap_bytes() + sweep.retry.heap_bytes());
        let windows = [&self.first, &self.retry];
        let held = windows.map(|window| window.calendar.heap_bytes() + window.crowd.heap_bytes());
        held.into_iter().sum::<usize>() + caught
    }
}

impl Sweep {
    const fn catch(&mut self, kind: Kind) -> &mut Catch {
        match kind {
            Kind::First => &mut self.first,
            Kind::Retry => &mut self.retry,
        }
    }

    fn offer(&mut self, number: u32, entry: &Entry) {
        let flags = entry.flags();
        if !flags.has(Flags::LEASED) && !flags.has(Flags::SURFACED) {
            let Claimable { at_ms, kind } = entry.claimable();
            let key = entry.key(number).pack();
            let catch = self.catch(kind);
            if catch.from_ms == 0 && at_ms < catch.soon_ms {
                self.soon.push((kind, at_ms, key));
            } else {
                catch.offer(at_ms, key);
            }
        }
    }
}

impl Engine {
    /// Makes a timer claimable when its time comes.
    pub(super) fn publish(&mut self, publish: Publish) {
        let Publish { key, claimable } = publish;
        let left_ms = claimable.at_ms.saturating_sub(self.clock_of(claimable.kind));
        self.near.insert(claimable, key.pack());
        let wall_ms = self.now.wall_ms.saturating_add(left_ms);
        if self.announced_ms.is_none_or(|announced| wall_ms < announced) {
            self.wake = true;
        }
    }

    /// Most timers that a calendar should hold.
    fn near_max(&self) -> usize {
        let share = usize::try_from(self.namespaces.sums().pending).unwrap_or(usize::MAX) / SHARE;
        self.options.near_max.max(share)
    }

    /// Keeps the calendars filled: one step of a sweep, if one is wanted or under way.
    pub(super) fn keep_near(&mut self) {
        let max = self.near_max();
        if self.near.sweep.is_none() {
            self.near.first.reach(self.now.wall_ms);
            self.near.retry.reach(self.now.steady_ms);
            if self.wants_sweep(max) {
                self.near.sweep = Some(Sweep {
                    name: None,
                    number: None,
                    cursor: Cursor::START,
                    first: Catch::new(&self.near.first, self.now.wall_ms, max),
                    retry: Catch::new(&self.near.retry, self.now.steady_ms, max),
                    is_walked: false,
                    soon: Vec::new(),
                });
            }
        }
        if let Some(mut sweep) = self.near.sweep.take() {
            if !sweep.is_walked {
                sweep.is_walked = self.sweep_step(&mut sweep);
            }
            let is_settled = sweep.first.offer_some_again() & sweep.retry.offer_some_again();
            let is_walked = sweep.is_walked;
            let mut allowance = Allowance::of_a_pass();
            for (kind, at_ms, key) in std::mem::take(&mut sweep.soon) {
                if at_ms <= self.clock_of(kind) && !allowance.is_spent() {
                    self.surface_one(kind, (at_ms, key), &mut allowance);
                    continue;
                }
                let window = self.near.window(kind);
                if window.end_ms == 0 {
                    window.calendar.insert(at_ms, key);
                }
                // At the last step of the walk, too: what was cut off comes back at the next sweep.
                sweep.catch(kind).take(is_walked, at_ms, key);
            }
            if !sweep.is_walked || !is_settled || !self.take_in(&mut sweep, max) {
                self.near.sweep = Some(sweep);
            }
        }
        self.busy |= self.near.sweep.is_some();
    }

    fn wants_sweep(&self, max: usize) -> bool {
        [(&self.near.first, self.now.wall_ms), (&self.near.retry, self.now.steady_ms)]
            .into_iter()
            .any(|(window, now_ms)| window.wants_sweep(now_ms, max))
    }

    /// Walks on; answers whether everything was seen.
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

    /// Puts some of what was found into the calendars; answers whether that was the last of it, and
    /// then moves their ends.
    fn take_in(&mut self, sweep: &mut Sweep, max: usize) -> bool {
        // What is due already surfaces in this step's passes or the next one's.
        self.busy = true;
        let mut left = INSERTS_PER_STEP.min((max / 4).max(1));
        for kind in [Kind::First, Kind::Retry] {
            let catch = sweep.catch(kind);
            left -= catch.move_into(&mut self.near.window(kind).calendar, left);
        }
        if !sweep.first.is_empty() || !sweep.retry.is_empty() {
            return false;
        }
        for kind in [Kind::First, Kind::Retry] {
            let (catch, window) = (sweep.catch(kind), self.near.window(kind));
            if catch.from_ms == 0 {
                window.calendar = std::mem::take(&mut catch.fresh);
            }
            window.end_ms = catch.target_ms;
            window.beyond_ms = catch.beyond_ms;
            window.is_cut = catch.is_cut;
            window.full_at = 2 * window.calendar.len().max(max);
        }
        true
    }
}

#[cfg(test)]
mod tests;
