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

use crate::{
    files::{FileId, ReadError},
    format::{
        self,
        record::{Cause, Record},
    },
    index::{Claimable, Entry, Flags, Key, Kind, Location},
};

use super::{Engine, HeldBack, Stop, allowance::StepBudget, aside, near::Due, view::not_now};

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
        self.roll_again();
        self.resume_due();
        self.end_leases();
        self.hold_back();
        self.keep_near();
        self.surface(Kind::First);
        self.surface(Kind::Retry);
        self.try_aside();
        self.refill();
        self.expire();
        self.pass_over_tombstones();
        self.count_out();
        self.look_for_numbers();
        self.audit();
        for kind in [Kind::First, Kind::Retry] {
            let now_ms = self.clock_of(kind);
            self.busy |= self.near.window(kind).calendar.prepare(now_ms, PASS_MAX);
        }
        self.survey();
    }

    /// Counts due timers in their lanes.
    fn surface(&mut self, kind: Kind) {
        let mut popped = std::mem::take(&mut self.popped);
        let now_ms = self.clock_of(kind);
        let mut allowance = StepBudget::of_a_pass();
        self.near.window(kind).pop_due(now_ms, PASS_MAX, &mut popped);
        self.namespaces.warm_live(popped.iter().map(|(_, packed)| Key::unpack(*packed)));
        for due in popped.drain(..) {
            self.surface_one(kind, due, &mut allowance);
        }
        let mut looks = 0;
        while looks < PASS_MAX
            && !allowance.is_spent()
            && let Some((number, looked_at)) = self.near.window(kind).pop_turn(now_ms, &mut popped)
        {
            looks += looked_at;
            self.namespaces.warm_live(popped.iter().map(|(_, packed)| Key::unpack(*packed)));
            let mut done = 0;
            while done < popped.len() && !allowance.is_spent() {
                self.surface_one(kind, popped[done], &mut allowance);
                done += 1;
            }
            self.near.window(kind).put_back(number, popped.drain(..).skip(done));
        }
        self.busy |= self.near.window(kind).has_turns();
        self.popped = popped;
    }

    /// Counts a timer as due, if the index agrees. If that needs a read and the allowance is spent, the
    /// next step does it.
    pub(super) fn surface_one(
        &mut self,
        kind: Kind,
        (at_ms, packed): Due,
        allowance: &mut StepBudget,
    ) {
        if allowance.is_spent() {
            self.near.window(kind).calendar.insert(at_ms, packed);
            self.busy = true;
            return;
        }
        let key = Key::unpack(packed);
        let Some(entry) = self.namespaces.live(key) else {
            return;
        };
        let flags = entry.flags();
        let waits = !flags.has(Flags::LEASED) && !flags.has(Flags::SURFACED);
        let agrees = entry.claimable() == Claimable { at_ms, kind };
        if !waits || !agrees || self.is_unpublished(key, &entry) {
            return;
        }
        if kind == Kind::Retry && self.may_be_ahead() {
            allowance.spend(entry.location().bytes_estimate());
            if self.hold_back_retry(key, &entry) {
                return;
            }
        }
        self.surface_entry(key, &entry);
        if kind == Kind::First && flags.has(Flags::EXPIRES) {
            allowance.spend(entry.location().bytes_estimate());
            self.note_expiry(key);
        }
    }

    pub(super) fn surface_entry(&mut self, key: Key, entry: &Entry) {
        let number = key.namespace();
        self.namespaces.surface(number, entry, self.options.overdue_max);
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
            Err(ReadError::Disk(error)) => self.set_aside(key, &entry, &error),
            // The claim finds a damaged record.
            Err(_) => {}
        }
    }

    /// Returns `true` if an entry waits for its record to be durable; then it becomes claimable. An older
    /// calendar entry belongs to an earlier record.
    pub(super) fn is_unpublished(&self, key: Key, entry: &Entry) -> bool {
        !self.is_durable(entry.location())
            && (entry.claimable().kind == Kind::First
                || self.unpublished_retries.contains_key(&key))
    }

    /// Returns `true` if the record at this location is durable.
    pub(super) fn is_durable(&self, location: Location) -> bool {
        // A record in a run was durable before it was copied there.
        self.files.get(location.slot()).is_none_or(|file| match file.id {
            FileId::Segment(sequence) => {
                self.journal.is_durable(sequence, location.unit() * format::ALIGN)
            }
            FileId::Run(_) => true,
        })
    }

    /// Keeps due retries from being claimed while the wall clock is behind their due time, after it
    /// stepped back (P2). At all other times this does nothing.
    fn hold_back(&mut self) {
        let stepped_back = self.now.wall_ms < self.last_wall_ms;
        self.last_wall_ms = self.now.wall_ms;
        if stepped_back {
            self.look_back();
        }
        self.look_back_on();
        let mut looks = 0;
        while let Some(held) = self.held_back.first().copied()
            && held.due_ms <= self.now.wall_ms
        {
            if looks == PASS_MAX {
                self.busy = true;
                break;
            }
            looks += 1;
            self.held_back.remove(&held);
            let key = Key::unpack(held.key);
            if let Some(entry) = self.namespaces.live(key)
                && entry.claimable() == (Claimable { at_ms: held.at_ms, kind: Kind::Retry })
                && !entry.flags().has(Flags::LEASED)
                && !entry.flags().has(Flags::SURFACED)
            {
                self.surface_entry(key, &entry);
            }
        }
    }

    /// Defers a retry that is due by the steady clock, if its due time is after the wall clock. Returns
    /// `true` if it did.
    pub(super) fn hold_back_retry(&mut self, key: Key, entry: &Entry) -> bool {
        // The claim finds a record that cannot be read.
        let Ok(timer) = self.load_timer(entry.location()) else {
            return false;
        };
        if timer.due_at <= self.now.wall() {
            return false;
        }
        let number = key.namespace();
        self.namespaces.sink(number, entry);
        self.namespaces.refresh_active(number, entry.lane());
        self.check_window((number, entry.lane(), Kind::Retry));
        self.held_back.insert(HeldBack {
            due_ms: timer.due_at.unix_ms(),
            at_ms: entry.claimable().at_ms,
            key: key.pack(),
        });
        true
    }

    fn end_leases(&mut self) {
        let now_ms = self.now.boot_ms;
        let (mut allowance, mut looks) = (StepBudget::of_a_pass(), 0);
        let mut popped = std::mem::take(&mut self.popped);
        let mut more = true;
        while more && !allowance.is_spent() && looks < PASS_MAX {
            more = self.lease_ends.pop_due(now_ms, CHUNK, &mut popped);
            looks += popped.len();
            for (at_ms, packed) in popped.drain(..) {
                if allowance.is_spent() {
                    self.lease_ends.insert(at_ms, packed);
                    more = true;
                    continue;
                }
                let key = Key::unpack(packed);
                if self.leases.get(key).is_some_and(|lease| lease.ends_boot_ms <= at_ms) {
                    let entry = self.namespaces.live(key);
                    allowance.spend(entry.map_or(0, |entry| entry.location().bytes_estimate()));
                    self.end_lease(key, LeaseLoss::Ended);
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
    fn look_up_expiries(&mut self, allowance: &mut StepBudget) {
        while !allowance.is_spent()
            && let Some(key) = self.retries_that_expire.pop()
        {
            let entry = self.namespaces.live(key);
            allowance.spend(entry.map_or(0, |entry| entry.location().bytes_estimate()));
            self.note_expiry(key);
        }
        self.busy |= !self.retries_that_expire.is_empty();
    }

    fn expire(&mut self) {
        self.look_up_expiries(&mut StepBudget::of_a_pass());
        let now_ms = self.now.wall_ms;
        let (mut allowance, mut looks) = (StepBudget::of_a_pass(), 0);
        let mut popped = std::mem::take(&mut self.popped);
        let mut more = true;
        while more && !allowance.is_spent() && looks < PASS_MAX {
            more = self.expiries.pop_due(now_ms, CHUNK, &mut popped);
            looks += popped.len();
            for (at_ms, packed) in popped.drain(..) {
                if allowance.is_spent() {
                    self.expiries.insert(at_ms, packed);
                    more = true;
                    continue;
                }
                let key = Key::unpack(packed);
                let entry = self.namespaces.live(key);
                // The expiry of an unreadable timer is recorded again when it can be read.
                let is_at_hand =
                    |flags: Flags| !flags.has(Flags::LEASED) && !flags.has(Flags::ASIDE);
                if let Some(entry) = entry.filter(|entry| is_at_hand(entry.flags())) {
                    allowance.spend(entry.location().bytes_estimate());
                    self.expire_one(key, &entry);
                }
            }
        }
        self.busy |= more;
        self.popped = popped;
    }

    /// Makes a dead letter of a firing without a lease, if it has expired.
    fn expire_one(&mut self, key: Key, entry: &Entry) {
        let written = match self.load_timer(entry.location()) {
            Ok(timer) => self.expire_timer(key, timer).map(drop),
            Err(ReadError::Disk(error)) if entry.flags().has(Flags::SURFACED) => {
                self.set_aside(key, entry, &error);
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
    ) -> Result<Option<Box<Timer>>, Stop> {
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
    ) -> Result<(), Stop> {
        may_be_damaged(error)?;
        tracing::error!(%error, "a record cannot be read; its timer becomes a dead letter");
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
    pub(super) fn quarantine_tombstone(&mut self, key: Key, error: &ReadError) -> Result<(), Stop> {
        may_be_damaged(error)?;
        tracing::error!(%error, "a record cannot be read; that its timer has ended is forgotten");
        metrics::counter!(duly_core::metric_names::QUARANTINED_TOTAL).increment(1);
        self.write(key.namespace(), &Record::Lost { key: key.pack() })
    }
}

/// Fails if the record itself may be valid, so that a later try can succeed.
pub(super) fn may_be_damaged(error: &ReadError) -> Result<(), Stop> {
    match error {
        ReadError::Damaged { .. } | ReadError::NoFile(_) => Ok(()),
        ReadError::Disk(error) => Err(Stop::Unread(not_now(error))),
    }
}

/// Returns the pause before another try to write an end; `None` if none is needed.
fn again_after_ms(written: &Result<(), Stop>) -> Option<u64> {
    match written {
        Err(Stop::Refused(_) | Stop::NotNow(_)) => Some(AGAIN_MS),
        Err(Stop::Unread(_)) => Some(aside::LATER_MS),
        Ok(()) | Err(Stop::Terminal) => None,
    }
}
