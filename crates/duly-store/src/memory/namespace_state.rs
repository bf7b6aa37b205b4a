//! One namespace: its live timers, the tombstones of ended ones, its dead letters.
//!
//! 1. An id is in at most one of `live` and `tombstones`.
//! 2. Dead letters are kept by delivery id. So several may have one id, beside a live timer with this id.
//! 3. A running number gives the order in which timers ended. The clock cannot, because it can step.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use duly_core::{
    DeliveryId, Millis, State, Timer, TimerId, Timestamp, Tombstone, destination::LaneKey,
    rate::Gcra, settle::HeldLease, totals::Totals,
};

use super::clock::ClockReading;
use crate::{Owner, TimerView, namespaces::Namespace};

/// A namespace and its data.
#[derive(Debug)]
pub(super) struct NamespaceState {
    pub(super) own: Namespace,
    pub(super) number: u64,
    /// `true`: only [`Put::IfAbsent`](crate::namespaces::Put::IfAbsent) has written its settings.
    pub(super) implicit: bool,
    /// The start of its idle time by the boot clock, as seen by background passes.
    pub(super) idle_since: Option<Duration>,
    pub(super) live: BTreeMap<TimerId, LiveTimer>,
    pub(super) tombstones: BTreeMap<TimerId, Numbered<Tombstone>>,
    pub(super) dead: BTreeMap<DeliveryId, Numbered<Timer>>,
    /// Origins of timers, up to the number that get lanes of their own.
    pub(super) receivers: BTreeSet<LaneKey>,
    pub(super) totals: Totals,
    pub(super) ended_next: u64,
    /// The use of `schedule_per_second`.
    pub(super) schedules: Gcra,
}

/// A pending timer.
#[derive(Debug)]
pub(super) struct LiveTimer {
    pub(super) timer: Timer,
    pub(super) lease: Option<Lease>,
}

/// The lease of a firing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) nonce: u64,
    pub(super) attempt: u32,
    pub(super) owner: Owner,
    /// The time of the claim, by the wall clock.
    pub(super) claimed_at: Timestamp,
    /// The time of the claim, by the boot clock.
    pub(super) claimed_boot: Duration,
    /// Its end, by the boot clock.
    pub(super) ends_boot: Duration,
    /// Its end by the wall clock, as computed when the lease was granted or extended.
    pub(super) leased_until: Option<Timestamp>,
    /// `true`: no attempt follows this one.
    pub(super) stopped: bool,
}

/// A timer that ended, with its number in the order of ends.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) value: T,
}

impl Lease {
    /// Returns the lease as the core needs it.
    pub(super) fn held(&self, now: ClockReading) -> HeldLease {
        HeldLease {
            nonce: self.nonce,
            attempt: self.attempt,
            claimed_at: self.claimed_at,
            held_for: now.boot.saturating_sub(self.claimed_boot),
            ends: matches!(self.owner, Owner::Consumer { .. }),
            stopped: self.stopped,
        }
    }

    /// Returns `true` if it has ended by the clock. Only the lease of a consumer can: that of a node lasts
    /// as long as the node.
    pub(super) const fn is_over(&self, now: ClockReading) -> bool {
        match self.owner {
            Owner::Node(_) => false,
            Owner::Consumer { .. } => self.ends_boot.as_nanos() <= now.boot.as_nanos(),
        }
    }
}

impl LiveTimer {
    pub(super) fn state(&self, now: ClockReading) -> State {
        if self.lease.is_some() { State::InFlight } else { self.timer.unleased_state(now.wall) }
    }

    /// Returns `true` if a claim may grant it (P2): it is due by the wall clock, and the wait of a retry is
    /// over.
    pub(super) fn is_claimable(&self, now: ClockReading) -> bool {
        let awaited = self.timer.next_attempt_at.is_none_or(|at| at <= now.steady);
        self.lease.is_none() && self.timer.due_at <= now.wall && awaited
    }

    /// Returns the time until a claim may grant it; `None` while it is leased or if it is claimable now.
    pub(super) fn claimable_in(&self, now: ClockReading) -> Option<Millis> {
        if self.lease.is_some() || self.is_claimable(now) {
            return None;
        }
        let until_due = self.timer.due_at.saturating_since(now.wall);
        let until_retry = self.timer.next_attempt_at;
        Some(until_retry.map_or(until_due, |at| until_due.max(at.saturating_since(now.steady))))
    }
}

impl NamespaceState {
    /// Returns the timer with this id: the live one, else its tombstone, else its latest dead letter. A new
    /// live timer removes the tombstone of its id, so a tombstone is later than every dead letter of its id.
    pub(super) fn view(&self, id: &TimerId, now: ClockReading) -> Option<TimerView> {
        if let Some(live) = self.live.get(id) {
            return Some(self.view_live(live, now));
        }
        if let Some(tombstone) = self.tombstones.get(id) {
            return Some(TimerView::tombstone(self.own.name.clone(), tombstone.value.clone()));
        }
        let delivery_id = self.latest_dead_letter(id)?;
        Some(self.view_dead(&self.dead[&delivery_id].value))
    }

    pub(super) fn view_live(&self, live: &LiveTimer, now: ClockReading) -> TimerView {
        let mut view = TimerView::whole(self.own.name.clone(), live.state(now), live.timer.clone());
        view.leased_until = live.lease.and_then(|lease| lease.leased_until);
        view.attempt_under_way = live.lease.map(|lease| lease.attempt);
        view.claimed_at = live.lease.map(|lease| lease.claimed_at);
        view.stopped = live.lease.is_some_and(|lease| lease.stopped);
        view
    }

    pub(super) fn view_dead(&self, timer: &Timer) -> TimerView {
        TimerView::whole(self.own.name.clone(), State::Dead, timer.clone())
    }

    /// Returns the latest dead letter of a timer.
    pub(super) fn latest_dead_letter(&self, id: &TimerId) -> Option<DeliveryId> {
        let dead_letters = self.dead.iter().filter(|(_, letter)| letter.value.id == *id);
        dead_letters.max_by_key(|(_, letter)| letter.number).map(|(delivery_id, _)| *delivery_id)
    }

    /// Removes the tombstones that ended first while there are too many.
    pub(super) fn trim_tombstones(&mut self) {
        while self.tombstones.len() as u64 > self.own.settings.limits.max_retained {
            let oldest = self.tombstones.iter().min_by_key(|(_, tombstone)| tombstone.number);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else {
                return;
            };
            self.tombstones.remove(&id);
        }
    }

    pub(super) const fn number_next(&mut self) -> u64 {
        self.ended_next += 1;
        self.ended_next
    }
}
