//! A timer as a store keeps it, and how each accepted change alters it.
//!
//! [`crate::lifecycle::transition`] says *whether* something may happen; the functions here say *what
//! the record looks like afterwards*. Every store writes exactly what they produce, so revision,
//! occurrence, attempts and history mean the same everywhere.

use crate::{
    DeliveryId, Incarnation, Schedule, State, TimerId, TimerSpec, Timestamp, invalid::Invalid,
    request_hash::RequestHash, schedule::Patch,
};

mod attempt;
pub use attempt::{
    Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, Next, SettledToken, Verdict, Wait,
};

/// Attempts kept in the history.
pub const HISTORY_MAX: usize = 16;
/// Longest reason kept of an attempt, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;

/// A timer: what was asked for, and what has happened to its present occurrence.
#[derive(Debug, Clone, PartialEq)]
pub struct Timer {
    /// The caller's id.
    pub id: TimerId,
    /// When it is due.
    pub due_at: Timestamp,
    /// When it was made (or replaced).
    pub created_at: Timestamp,
    /// When a caller last changed it.
    pub updated_at: Timestamp,
    /// 1 at creation, +1 at every accepted change by a caller.
    pub revision: u32,
    /// Tells it from an earlier timer with the same id.
    pub incarnation: Incarnation,
    /// Which firing this is.
    pub occurrence: u32,
    /// What its caller asked for, besides id and due time.
    pub spec: TimerSpec,
    /// Hash of the request that made it.
    pub request_hash: RequestHash,
    /// Attempts of this occurrence that have ended.
    pub attempts: u32,
    /// Attempts that had ended when the present budget began (after a redrive).
    pub budget_from: u32,
    /// When the next attempt may start, after a failed one.
    pub next_attempt_at: Option<Timestamp>,
    /// When the first attempt of this occurrence began.
    pub fired_at: Option<Timestamp>,
    /// An attempt began whose outcome is not known.
    pub maybe_delivered: bool,
    /// The last [`HISTORY_MAX`] attempts, oldest first.
    pub history: Vec<Attempt>,
    /// The token that was settled last, to recognise a repeated settle.
    pub last_settled: Option<SettledToken>,
    /// Why it is a dead letter, if it is one.
    pub dead_letter: Option<DeadLetter>,
}

impl Timer {
    /// A new timer, made at `now`.
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

    /// A timer that carries nothing, and that nothing has happened to: what a store reads first of one.
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

    /// The timer that takes the place of a pending one: new incarnation, revision of the old + 1.
    ///
    /// # Errors
    /// When the due time lies past 2200-01-01.
    pub fn replacing(
        old_revision: u32,
        schedule: Schedule,
        now: Timestamp,
        incarnation: Incarnation,
    ) -> Result<Self, Invalid> {
        let mut timer = Self::new(schedule, now, incarnation)?;
        timer.revision = old_revision.saturating_add(1);
        Ok(timer)
    }

    /// Applies a caller's change. A change of due time, payload or headers after an attempt has
    /// started is another occurrence: its delivery id differs and attempts start at 0.
    ///
    /// # Errors
    /// When the new due time lies past 2200-01-01; the timer is then unchanged.
    pub fn change(&mut self, patch: Patch, now: Timestamp) -> Result<(), Invalid> {
        let due_at = match patch.when {
            Some(when) => Some(when.due_at(now)?),
            None => None,
        };
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
        self.touch(now);
        Ok(())
    }

    /// Makes it due now, or its next attempt, as the caller wants it at once.
    pub fn fire_now(&mut self, now: Timestamp) {
        if self.next_attempt_at.is_some() {
            self.next_attempt_at = Some(now);
        } else {
            self.due_at = now;
        }
        self.touch(now);
    }

    /// Sends a dead letter again at `at`: same delivery id, attempts go on, fresh budget, no
    /// expiry.
    pub fn redrive(&mut self, at: Timestamp) {
        self.dead_letter = None;
        self.budget_from = self.attempts;
        self.next_attempt_at = Some(at);
        self.spec.expire_after = None;
    }

    /// When it may be claimed: the due time, or the time of the next attempt.
    pub fn claimable_at(&self) -> Timestamp {
        self.next_attempt_at.map_or(self.due_at, |at| at.max(self.due_at))
    }

    /// Returns the moment at which an attempt that may begin at `claimable_at` became claimable: not before a
    /// caller made or changed the timer, however long ago it was due then.
    pub fn claimable_since(&self, claimable_at: Timestamp) -> Timestamp {
        claimable_at.max(self.updated_at)
    }

    /// Returns its state while it is live and under no lease.
    pub fn unleased_state(&self, wall: Timestamp) -> State {
        if self.next_attempt_at.is_some() {
            State::Retrying
        } else if self.due_at <= wall {
            State::Due
        } else {
            State::Scheduled
        }
    }

    /// Returns `true` if `expire_after` has passed: strictly later than that after due.
    pub fn is_expired(&self, wall: Timestamp) -> bool {
        self.expires_at().is_some_and(|expires_at| wall > expires_at)
    }

    /// When it expires, if it does.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.spec.expire_after.map(|after| self.due_at.saturating_add(after))
    }

    /// The delivery id of its present occurrence.
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

    fn touch(&mut self, now: Timestamp) {
        self.revision = self.revision.saturating_add(1);
        self.updated_at = now;
    }
}

#[cfg(test)]
mod tests;
