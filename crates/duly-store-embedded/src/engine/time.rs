//! The tick: timers become due, leases end, firings expire, tombstones are removed.
//!
//! Every pass is bounded: by the entries that it visits, and by an [`StepBudget`] of records that it reads
//! or writes. [`Engine::busy`] says that another pass is needed at once. A popped entry that disagrees
//! with the index is stale and dropped.

use duly_core::{
    Timer, Timestamp,
    settle::{self, LeaseLoss},
    timer::{DeadLetter, DeadLetterReason},
};
use duly_wheel::Calendar;

use crate::{
    files::{FileId, ReadError},
    format::{
        self,
        record::{Cause, Record},
    },
    index::{AttemptKind, Claimable, Entry, Flags, Key, Location, PackedKey},
};

use super::{
    DeferredRetry, Engine, NotWritten, near_horizon::DueTimer, step_budget::StepBudget, unreadable,
    view::not_now,
};

/// Entries that one pass takes from one calendar.
const PASS_MAX: usize = 4096;
/// Entries that are taken at once if each may need a record. The rest stays in the calendar.
const CHUNK: usize = 64;
/// Pause before the end of a lease or firing is tried again that could not be written.
pub(super) const AGAIN_MS: u64 = 1_000;

impl Engine {
    /// Updates the state to the time of the current step.
    pub(super) fn tick(&mut self) {
        self.check_space();
        self.retry_roll();
        self.resume_due();
        self.end_leases();
        self.update_deferred_retries();
        self.fill_near_horizon();
        self.count_due_timers(AttemptKind::First);
        self.count_due_timers(AttemptKind::Retry);
        self.retry_unreadable();
        self.refill();
        self.expire();
        self.run_tombstone_passes();
        self.reclaim_namespaces();
        self.search_free_numbers();
        self.audit();
        for kind in AttemptKind::ALL {
            let now_ms = self.clock_of(kind);
            self.busy |= self.near_horizon.kind_mut(kind).calendar.prepare(now_ms, PASS_MAX);
        }
        self.run_async_counts();
    }

    /// Counts due timers in their lanes.
    fn count_due_timers(&mut self, kind: AttemptKind) {
        let mut popped = std::mem::take(&mut self.popped);
        let now_ms = self.clock_of(kind);
        let mut budget = StepBudget::for_pass();
        let horizon = self.near_horizon.kind_mut(kind);
        horizon.burst.take(&mut horizon.calendar, now_ms, PASS_MAX, &mut popped);
        self.namespaces.warm_live(popped.iter().map(|(_, packed)| Key::unpack(*packed)));
        for due in popped.drain(..) {
            self.count_due_timer(kind, due, &mut budget);
        }
        let mut visits = 0;
        while visits < PASS_MAX
            && !budget.is_spent()
            && let horizon = self.near_horizon.kind_mut(kind)
            && let Some((number, visited)) =
                horizon.burst.take_slice(&mut horizon.calendar, now_ms, &mut popped)
        {
            visits += visited;
            self.namespaces.warm_live(popped.iter().map(|(_, packed)| Key::unpack(*packed)));
            let mut done = 0;
            while done < popped.len() && !budget.is_spent() {
                self.count_due_timer(kind, popped[done], &mut budget);
                done += 1;
            }
            let burst = &mut self.near_horizon.kind_mut(kind).burst;
            burst.return_unfinished(number, popped.drain(..).skip(done));
        }
        self.busy |= !self.near_horizon.kind_mut(kind).burst.is_empty();
        self.popped = popped;
    }

    /// Counts a timer as due, if the index agrees. If that needs a read and the budget is spent, the
    /// next step does it.
    pub(super) fn count_due_timer(
        &mut self,
        kind: AttemptKind,
        (at_ms, packed): DueTimer,
        budget: &mut StepBudget,
    ) {
        if budget.is_spent() {
            self.near_horizon.kind_mut(kind).calendar.insert(at_ms, packed);
            self.busy = true;
            return;
        }
        let key = Key::unpack(packed);
        let Some(entry) = self.namespaces.live(key) else {
            return;
        };
        let flags = entry.flags();
        let waits = !flags.has(Flags::LEASED) && !flags.has(Flags::COUNTED_DUE);
        let agrees = entry.claimable() == Claimable { at_ms, kind };
        if !waits || !agrees || self.is_awaiting_durability(key, &entry) {
            return;
        }
        if kind == AttemptKind::Retry && self.may_be_ahead() {
            budget.spend(entry.location().bytes_estimate());
            if self.defer_retry(key, &entry) {
                return;
            }
        }
        self.count_due_entry(key, &entry);
        if kind == AttemptKind::First && flags.has(Flags::EXPIRES) {
            budget.spend(entry.location().bytes_estimate());
            self.note_expiry(key);
        }
    }

    pub(super) fn count_due_entry(&mut self, key: Key, entry: &Entry) {
        let number = key.namespace();
        self.namespaces.count_due(number, entry, self.options.overdue_max);
        self.check_window((number, entry.lane(), entry.claimable().kind));
        self.wake = true;
    }

    /// Records the expiry of a firing. If its record cannot be read now, that is done when it can.
    pub(super) fn note_expiry(&mut self, key: Key) {
        let Some(entry) = self.namespaces.live(key) else {
            return;
        };
        match self.load_timer(entry.location()) {
            Ok(timer) => {
                if let Some(expires_at) = timer.expires_at() {
                    self.expiries.insert(expires_at.unix_ms() + 1, key.pack());
                }
            }
            Err(ReadError::Disk(error)) => self.mark_unreadable(key, &entry, &error),
            // The claim finds a damaged record.
            Err(_) => {}
        }
    }

    /// Returns `true` if an entry waits for its record to be durable; then it becomes claimable. An older
    /// calendar entry belongs to an earlier record.
    pub(super) fn is_awaiting_durability(&self, key: Key, entry: &Entry) -> bool {
        !self.is_durable(entry.location())
            && (entry.claimable().kind == AttemptKind::First
                || self.retries_awaiting_durability.contains_key(&key))
    }

    /// Returns `true` if the record at this location is durable.
    pub(super) fn is_durable(&self, location: Location) -> bool {
        // A record in a run was durable before it was copied there.
        self.files.get(location.slot()).is_none_or(|file| match file.id {
            FileId::Segment(sequence) => {
                self.journal.is_durable(sequence, location.unit() * format::ALIGN)
            }
            FileId::SortedRun(_) => true,
        })
    }

    /// Keeps due retries from being claimed while the wall clock is behind their due time, after it
    /// stepped back (P2). At all other times this does nothing.
    fn update_deferred_retries(&mut self) {
        let stepped_back = self.now.wall_ms < self.last_wall_ms;
        self.last_wall_ms = self.now.wall_ms;
        if stepped_back {
            self.begin_step_back_pass();
        }
        self.step_back_step();
        let mut visits = 0;
        while let Some(held) = self.deferred_retries.first().copied()
            && held.due_ms <= self.now.wall_ms
        {
            if visits == PASS_MAX {
                self.busy = true;
                break;
            }
            visits += 1;
            self.deferred_retries.remove(&held);
            let key = Key::unpack(held.key);
            if let Some(entry) = self.namespaces.live(key)
                && entry.claimable() == (Claimable { at_ms: held.at_ms, kind: AttemptKind::Retry })
                && !entry.flags().has(Flags::LEASED)
                && !entry.flags().has(Flags::COUNTED_DUE)
            {
                self.count_due_entry(key, &entry);
            }
        }
    }

    /// Defers a retry that is due by the steady clock, if its due time is after the wall clock. Returns
    /// `true` if it did.
    pub(super) fn defer_retry(&mut self, key: Key, entry: &Entry) -> bool {
        // The claim finds a record that cannot be read.
        let Ok(timer) = self.load_timer(entry.location()) else {
            return false;
        };
        if timer.due_at <= self.now.wall() {
            return false;
        }
        let number = key.namespace();
        self.namespaces.clear_due(number, entry);
        self.namespaces.refresh_active(number, entry.lane());
        self.check_window((number, entry.lane(), AttemptKind::Retry));
        self.deferred_retries.insert(DeferredRetry {
            due_ms: timer.due_at.unix_ms(),
            at_ms: entry.claimable().at_ms,
            key: key.pack(),
        });
        true
    }

    fn end_leases(&mut self) {
        let now_ms = self.now.boot_ms;
        self.pop_chunks(
            |engine| &mut engine.lease_ends,
            now_ms,
            |engine, at_ms, key, budget| {
                if engine.leases.get(key).is_some_and(|lease| lease.ends_boot_ms <= at_ms) {
                    let entry = engine.namespaces.live(key);
                    budget.spend(entry.map_or(0, |entry| entry.location().bytes_estimate()));
                    engine.end_lease(key, LeaseLoss::Ended);
                }
            },
        );
    }

    /// Takes what is due out of a calendar, chunk by chunk, and passes it to `each` until the budget is
    /// spent.
    fn pop_chunks(
        &mut self,
        calendar: impl Fn(&mut Self) -> &mut Calendar<PackedKey>,
        now_ms: u64,
        mut each: impl FnMut(&mut Self, u64, Key, &mut StepBudget),
    ) {
        let (mut budget, mut visits) = (StepBudget::for_pass(), 0);
        let mut popped = std::mem::take(&mut self.popped);
        let mut more = true;
        while more && !budget.is_spent() && visits < PASS_MAX {
            more = calendar(self).pop_due(now_ms, CHUNK, &mut popped);
            visits += popped.len();
            for (at_ms, packed) in popped.drain(..) {
                if budget.is_spent() {
                    calendar(self).insert(at_ms, packed);
                    more = true;
                } else {
                    each(self, at_ms, Key::unpack(packed), &mut budget);
                }
            }
        }
        self.busy |= more;
        self.popped = popped;
    }

    /// Ends a lease without a verdict.
    pub(super) fn end_lease(&mut self, key: Key, loss: LeaseLoss) {
        let (Some(lease), Some(entry)) = (self.leases.get(key).copied(), self.namespaces.live(key))
        else {
            return;
        };
        let held = lease.held(self.now.boot_ms);
        // The firing is due again from the end of the lease, not from the moment at which this is
        // noticed.
        let ago_ms = self.now.boot_ms.saturating_sub(lease.ends_boot_ms);
        let since = Timestamp::saturating_from_unix_ms(self.now.steady_ms.saturating_sub(ago_ms));
        let ended = match self.load_timer(entry.location()) {
            Ok(timer) => {
                let effect = self.with_context(key.namespace(), 0, |context| {
                    settle::lose_lease(timer, &held, loss, since, context)
                });
                self.persist(key, effect).map(drop)
            }
            Err(error) => self.quarantine(key, &entry, &error),
        };
        if let Some(wait_ms) = again_after_ms(&ended) {
            // There is no space to write it, or the record cannot be read: the lease is over all the
            // same, and its end is tried again.
            self.lease_ends.insert(self.now.boot_ms + wait_ms, key.pack());
        }
    }

    /// Looks up the expiry of some retries from a checkpoint.
    fn look_up_expiries(&mut self, budget: &mut StepBudget) {
        while !budget.is_spent()
            && let Some(key) = self.retries_that_expire.pop()
        {
            let entry = self.namespaces.live(key);
            budget.spend(entry.map_or(0, |entry| entry.location().bytes_estimate()));
            self.note_expiry(key);
        }
        self.busy |= !self.retries_that_expire.is_empty();
    }

    fn expire(&mut self) {
        self.look_up_expiries(&mut StepBudget::for_pass());
        let now_ms = self.now.wall_ms;
        self.pop_chunks(
            |engine| &mut engine.expiries,
            now_ms,
            |engine, _, key, budget| {
                let entry = engine.namespaces.live(key);
                // The expiry of an unreadable timer is recorded again when it can be read.
                let is_at_hand =
                    |flags: Flags| !flags.has(Flags::LEASED) && !flags.has(Flags::UNREADABLE);
                if let Some(entry) = entry.filter(|entry| is_at_hand(entry.flags())) {
                    budget.spend(entry.location().bytes_estimate());
                    engine.expire_one(key, &entry);
                }
            },
        );
    }

    /// Makes a dead letter of a firing without a lease, if it has expired.
    fn expire_one(&mut self, key: Key, entry: &Entry) {
        let written = match self.load_timer(entry.location()) {
            Ok(timer) => self.expire_timer(key, timer).map(drop),
            Err(ReadError::Disk(error)) if entry.flags().has(Flags::COUNTED_DUE) => {
                self.mark_unreadable(key, entry, &error);
                Ok(())
            }
            Err(error) => self.quarantine(key, entry, &error),
        };
        if let Some(wait_ms) = again_after_ms(&written) {
            self.expiries.insert(self.now.wall_ms + wait_ms, key.pack());
        }
    }

    /// Makes a dead letter of a timer without a lease, if it has expired; otherwise returns the timer.
    pub(super) fn expire_timer(
        &mut self,
        key: Key,
        timer: Box<Timer>,
    ) -> Result<Option<Box<Timer>>, NotWritten> {
        let expired =
            self.with_context(key.namespace(), 0, |context| settle::expire(timer, context));
        match expired {
            Ok(effect) => self.persist(key, effect).map(|_| None),
            Err(timer) => Ok(Some(timer)),
        }
    }

    /// Makes a dead letter of a timer whose record is damaged or in no file. The dead letter has the
    /// reason `corrupt` and an id that names the place of the record; an error is logged and counted.
    /// Other timers stay on time.
    pub(super) fn quarantine(
        &mut self,
        key: Key,
        entry: &Entry,
        error: &ReadError,
    ) -> Result<(), NotWritten> {
        may_be_damaged(error)?;
        tracing::error!(%error, "record is damaged or missing; its timer becomes a dead letter");
        metrics::counter!(duly_core::metric_names::QUARANTINED_TOTAL).increment(1);
        let place = entry.location();
        let id = format!("corrupt-{}-{}", place.slot(), place.unit());
        let id = duly_core::TimerId::new(&id).expect("letters, digits and dashes");
        let at = Timestamp::saturating_from_unix_ms(entry.claimable().at_ms);
        let when = duly_core::schedule::When::At(at);
        let incarnation = duly_core::Incarnation(self.random_u64());
        let now = self.now.wall();
        let mut timer = Timer::new(duly_core::Schedule::new(id, when), now, incarnation)
            .expect("the time came from a timestamp");
        timer.dead_letter = Some(DeadLetter { at: now, reason: DeadLetterReason::Corrupt });
        // Written first: if it is refused for lack of capacity, the timer stays as it is.
        self.write(key.namespace(), &Record::Dead(Cause::Expired, Box::new(timer)))?;
        self.write(key.namespace(), &Record::Lost { key: key.pack() })
    }

    /// Forgets a tombstone whose record is damaged: it is no longer counted, and its id is free.
    pub(super) fn quarantine_tombstone(
        &mut self,
        key: Key,
        error: &ReadError,
    ) -> Result<(), NotWritten> {
        may_be_damaged(error)?;
        tracing::error!(%error, "tombstone record is damaged or missing; dropping the tombstone");
        metrics::counter!(duly_core::metric_names::QUARANTINED_TOTAL).increment(1);
        self.write(key.namespace(), &Record::Lost { key: key.pack() })
    }
}

/// Fails if the record itself may be valid, so that a later try can succeed.
pub(super) fn may_be_damaged(error: &ReadError) -> Result<(), NotWritten> {
    match error {
        ReadError::Damaged { .. } | ReadError::NoFile(_) => Ok(()),
        ReadError::Disk(error) => Err(NotWritten::Unread(not_now(error))),
    }
}

/// Returns the pause before another try to write an end; `None` if none is needed.
fn again_after_ms(written: &Result<(), NotWritten>) -> Option<u64> {
    match written {
        Err(NotWritten::Refused(_) | NotWritten::NotNow(_)) => Some(AGAIN_MS),
        Err(NotWritten::Unread(_)) => Some(unreadable::RETRY_UNREADABLE_MS),
        Ok(()) | Err(NotWritten::Terminal) => None,
    }
}
