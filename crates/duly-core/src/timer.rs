//! The record of a timer in a store, and its change at each accepted operation.
//!
//! [`crate::lifecycle::transition`] decides *whether* an event is possible. The functions here produce *the
//! record that results*. Every store writes exactly that record, so revision, occurrence, attempts and
//! history mean the same in each store.

use crate::{
    DeliveryId, Incarnation, Schedule, State, TimerId, TimerSpec, Timestamp, invalid::Invalid,
    request_hash::RequestHash, schedule::Patch,
};

mod attempt;
pub use attempt::{
    AfterFailure, Attempt, AttemptOutcome, DeadLetter, DeadLetterId, DeadLetterReason, FALLBACK,
    SettledToken, Verdict, Wait, own_reason,
};

/// Maximum number of attempts in the history.
pub const HISTORY_MAX: usize = 16;
/// Maximum bytes of the reason of an attempt.
pub const REASON_BYTES_MAX: usize = 1024;

/// A timer: the caller's request, and the history of its present occurrence.
#[derive(Debug, Clone, PartialEq)]
pub struct Timer {
    /// The caller's id.
    pub id: TimerId,
    /// The due time.
    pub due_at: Timestamp,
    /// The time at which it was created or replaced.
    pub created_at: Timestamp,
    /// The time of the last change by a caller.
    pub updated_at: Timestamp,
    /// The revision: 1 at creation, +1 at every accepted change by a caller.
    pub revision: u32,
    /// Distinguishes it from earlier timers with the same id.
    pub incarnation: Incarnation,
    /// The number of the present occurrence.
    pub occurrence: u32,
    /// The caller's fields, besides id and due time.
    pub spec: TimerSpec,
    /// Hash of the request that created it.
    pub request_hash: RequestHash,
    /// Number of attempts of this occurrence that have ended.
    pub attempts: u32,
    /// Number of attempts that do not count for the present retry budget: those before a redrive, and those
    /// that ended in a snooze.
    pub budget_from: u32,
    /// The earliest time of the next attempt, after a failed one.
    pub next_attempt_at: Option<Timestamp>,
    /// The start of the first attempt of this occurrence.
    pub fired_at: Option<Timestamp>,
    /// `true`: the outcome of an attempt is not known.
    pub maybe_delivered: bool,
    /// The last [`HISTORY_MAX`] attempts, oldest first.
    pub history: Vec<Attempt>,
    /// The token that was settled last, to recognise a repeated settlement.
    pub last_settled: Option<SettledToken>,
    /// The time and reason of its dead-lettering, if it is a dead letter.
    pub dead_letter: Option<DeadLetter>,
}

impl Timer {
    /// Creates a timer at `now`.
    ///
    /// # Errors
    /// When the due time lies past 2200-01-01.
    pub fn new(
        schedule: Schedule,
        now: Timestamp,
        incarnation: Incarnation,
    ) -> Result<Self, Invalid> {
        let request_hash = RequestHash::of(&schedule);
        let due_at = schedule.when.due_at(now)?;
        Ok(Self {
            spec: schedule.spec,
            ..Self::bare(schedule.id, due_at, now, incarnation, request_hash)
        })
    }

    /// Creates a timer without content and history: a store reads this part of a timer first.
    pub fn bare(
        id: TimerId,
        due_at: Timestamp,
        created_at: Timestamp,
        incarnation: Incarnation,
        request_hash: RequestHash,
    ) -> Self {
        Self {
            id,
            due_at,
            created_at,
            updated_at: created_at,
            revision: 1,
            incarnation,
            occurrence: 0,
            spec: TimerSpec::default(),
            request_hash,
            attempts: 0,
            budget_from: 0,
            next_attempt_at: None,
            fired_at: None,
            maybe_delivered: false,
            history: Vec::new(),
            last_settled: None,
            dead_letter: None,
        }
    }

    /// Applies a caller's change. If the timer is retrying, a change of due time, payload or headers begins
    /// a new occurrence: its delivery id differs, and attempts start at 0.
    ///
    /// # Errors
    /// When the new due time lies past 2200-01-01; the timer is then unchanged.
    pub fn change(&mut self, patch: Patch, now: Timestamp) -> Result<(), Invalid> {
        let due_at = patch.when.map(|when| when.due_at(now)).transpose()?;
        let other_firing = due_at.is_some() || !patch.payload.is_keep() || !patch.headers.is_keep();
        if let Some(due_at) = due_at {
            self.due_at = due_at;
        }
        patch.payload.write_to_option(&mut self.spec.payload);
        patch.headers.write_to(&mut self.spec.headers);
        patch.tags.write_to(&mut self.spec.tags);
        patch.destination.write_to_option(&mut self.spec.destination);
        patch.retry.write_to_option(&mut self.spec.retry);
        if other_firing && self.next_attempt_at.is_some() {
            self.begin_occurrence();
        }
        self.bump_revision(now);
        Ok(())
    }

    /// Makes it due at `now`, or its next attempt if it waits for one.
    pub fn fire_now(&mut self, now: Timestamp) {
        if self.next_attempt_at.is_some() {
            self.next_attempt_at = Some(now);
        } else {
            self.due_at = now;
        }
        self.bump_revision(now);
    }

    /// Redrives a dead letter at `at`: the delivery id stays, the attempts keep counting, the retry budget
    /// is fresh, and it does not expire.
    pub fn redrive(&mut self, at: Timestamp) {
        self.dead_letter = None;
        self.budget_from = self.attempts;
        self.next_attempt_at = Some(at);
        self.spec.expire_after = None;
    }

    /// Returns the time from which it may be claimed: the due time, or the time of the next attempt.
    pub fn claimable_at(&self) -> Timestamp {
        self.next_attempt_at.map_or(self.due_at, |at| at.max(self.due_at))
    }

    /// Returns the time since which an attempt that may begin at `claimable_at` has been claimable. It is
    /// never before the last creation or change by a caller, even if the due time was earlier.
    pub fn claimable_since(&self, claimable_at: Timestamp) -> Timestamp {
        claimable_at.max(self.updated_at)
    }

    /// Returns its state as a live timer without a lease.
    pub fn unleased_state(&self, wall: Timestamp) -> State {
        if self.next_attempt_at.is_some() {
            State::Retrying
        } else if self.due_at <= wall {
            State::Due
        } else {
            State::Scheduled
        }
    }

    /// Returns `true` if `expire_after` has passed: `wall` is strictly later than the due time plus it.
    pub fn is_expired(&self, wall: Timestamp) -> bool {
        self.expires_at().is_some_and(|expires_at| wall > expires_at)
    }

    /// Returns the time after which it expires, if it does.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.spec.expire_after.map(|after| self.due_at.saturating_add(after))
    }

    /// Returns the delivery id of its present occurrence.
    pub fn delivery_id(&self, namespace: &str) -> DeliveryId {
        DeliveryId::of(namespace, self.id.as_str(), self.incarnation, self.occurrence)
    }

    fn begin_occurrence(&mut self) {
        self.occurrence = self.occurrence.saturating_add(1);
        self.attempts = 0;
        self.budget_from = 0;
        self.next_attempt_at = None;
        self.fired_at = None;
        self.maybe_delivered = false;
        self.history.clear();
    }

    fn bump_revision(&mut self, now: Timestamp) {
        self.revision = self.revision.saturating_add(1);
        self.updated_at = now;
    }
}

#[cfg(test)]
mod tests;
