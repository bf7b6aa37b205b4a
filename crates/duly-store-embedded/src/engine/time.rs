//! What time brings: timers become due, leases end, firings expire, stubs go.
//!
//! Every pass is bounded; [`Engine::busy`] says that another is needed at once. A popped entry
//! that disagrees with the index is stale and dropped.

use duly_core::{
    State, Timer, Timestamp,
    lifecycle::{self, Budget, Decision, Event},
    timer::{Attempt, AttemptOutcome, Death, DeathReason, Next, Wait},
};
use duly_store::Refusal;

use crate::{
    files::{FileId, ReadError},
    format::{
        self,
        record::{Cause, Record},
    },
    index::{Claimable, Cursor, Entry, Flags, Key, Kind, Location, PackedKey},
};

use super::{Engine, HeldBack, Stop, overdue::Overdue};

/// Entries that one pass takes from one calendar.
const PASS_MAX: usize = 4096;
/// Records that one pass reads to learn when they expire.
const LOOK_UPS_MAX: usize = 256;
/// When an end that could not be written is tried again.
pub(super) const AGAIN_MS: u64 = 1_000;

impl Engine {
    /// Brings the state up to the present step's time.
    pub(super) fn tick(&mut self) {
        self.check_space();
        self.end_leases();
        self.hold_back();
        self.keep_near();
        self.surface(Kind::First);
        self.surface(Kind::Retry);
        self.refill();
        self.expire();
        self.pass_over_stubs();
        self.count_out();
        self.audit();
        for kind in [Kind::First, Kind::Retry] {
            let now_ms = self.clock_of(kind);
            self.busy |= self.near.window(kind).calendar.prepare(now_ms, PASS_MAX);
        }
    }

    /// Counts what has become due in its lane.
    fn surface(&mut self, kind: Kind) {
        let mut popped = std::mem::take(&mut self.popped);
        let now_ms = self.clock_of(kind);
        self.busy |= self.near.window(kind).calendar.pop_due(now_ms, PASS_MAX, &mut popped);
        for (at_ms, packed) in popped.drain(..) {
            let key = Key::unpack(packed);
            let Some(entry) = self.namespaces.live(key) else {
                continue;
            };
            let flags = entry.flags();
            let waits = !flags.has(Flags::LEASED) && !flags.has(Flags::SURFACED);
            let agrees = entry.claimable() == Claimable { at_ms, kind };
            if !waits || !agrees || self.is_unpublished(key, &entry) {
                continue;
            }
            if kind == Kind::Retry && self.may_be_ahead() && self.hold_back_retry(key, &entry) {
                continue;
            }
            if kind == Kind::First && flags.has(Flags::EXPIRES) {
                self.note_expiry(&entry, packed);
            }
            self.surface_entry(key, &entry);
        }
        self.popped = popped;
    }

    pub(super) fn surface_entry(&mut self, key: Key, entry: &Entry) {
        let number = key.namespace();
        self.namespaces.surface(number, entry, self.options.overdue_max);
        self.check_window((number, entry.lane(), entry.claimable().kind));
        self.wake = true;
    }

    /// Notes when a firing that has just become due expires.
    pub(super) fn note_expiry(&mut self, entry: &Entry, packed: PackedKey) {
        // A record that cannot be read is found by the claim.
        let timer = self.load_timer(entry.location()).ok();
        if let Some(expires_at) = timer.and_then(|timer| timer.expires_at()) {
            self.expiries.insert(expires_at.unix_ms() + 1, packed);
        }
    }

    /// Whether an entry waits for its record to be durable; it is published when that is so. What
    /// got into a calendar before was of an earlier record.
    pub(super) fn is_unpublished(&self, key: Key, entry: &Entry) -> bool {
        !self.is_durable(entry.location())
            && (entry.claimable().kind == Kind::First
                || self.unpublished_retries.contains_key(&key))
    }

    /// Whether a record is durable where it stands.
    pub(super) fn is_durable(&self, location: Location) -> bool {
        // What is in a run was durable before it got there.
        self.files.get(location.slot()).is_none_or(|file| match file.id {
            FileId::Segment(sequence) => {
                self.journal.is_durable(sequence, location.unit() * format::ALIGN)
            }
            FileId::Run(_) => true,
        })
    }

    /// Keeps what is due from being claimed while the wall clock is behind its due time, where a step
    /// back has put it (P2). In all other times this does nothing.
    fn hold_back(&mut self) {
        let stepped_back = self.now.wall_ms < self.last_wall_ms;
        self.last_wall_ms = self.now.wall_ms;
        if stepped_back {
            self.sink_what_is_ahead();
        }
        if stepped_back && self.may_be_ahead() {
            let lanes: Vec<(u32, u8)> = self
                .namespaces
                .iter()
                .flat_map(|(number, ns)| ns.lanes.iter().map(move |(slot, _)| (number, slot)))
                .collect();
            for (number, slot) in lanes {
                self.hold_back_hidden(number, slot);
                self.hold_back_lane(number, slot);
            }
        }
        while let Some(held) = self.held_back.first().copied()
            && held.due_ms <= self.now.wall_ms
        {
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

    /// After a step back of the wall clock: what is in the future again is no longer counted as due,
    /// and waits in the calendar.
    fn sink_what_is_ahead(&mut self) {
        let numbers: Vec<u32> = self.namespaces.iter().map(|(number, _)| number).collect();
        for number in numbers {
            for entry in self.surfaced_ahead(number) {
                self.namespaces.sink(number, &entry);
                self.namespaces.refresh_active(number, entry.lane());
                let (key, claimable) = (entry.key(number), entry.claimable());
                self.check_window((number, entry.lane(), claimable.kind));
                self.publish(super::Publish { key, claimable });
            }
        }
    }

    /// First attempts of a namespace that are counted as due and are not any more.
    fn surfaced_ahead(&self, number: u32) -> Vec<Entry> {
        let Some(namespace) = self.namespaces.get(number) else {
            return Vec::new();
        };
        let wall_ms = self.now.wall_ms;
        let is_ahead = |entry: &Entry| {
            let Claimable { at_ms, kind } = entry.claimable();
            kind == Kind::First && at_ms > wall_ms && entry.flags().has(Flags::SURFACED)
        };
        let dues = || namespace.lanes.iter().map(|(_, lane)| lane.due(Kind::First));
        let mut ahead = Vec::new();
        if dues().any(Overdue::has_hidden) {
            let mut cursor = Some(Cursor::START);
            while let Some(scan) = cursor.and_then(|from| namespace.live.scan(from)) {
                cursor = scan.next;
                ahead.extend(scan.entries().filter(is_ahead));
            }
        } else {
            let late = dues().flat_map(|due| due.window().range((wall_ms + 1, [0; 12])..));
            let entries = late.filter_map(|(_, packed)| namespace.live.get(Key::unpack(*packed)));
            ahead.extend(entries.filter(is_ahead));
        }
        ahead
    }

    /// Holds back what a lane hides of retries whose due time is ahead of the wall clock, where that
    /// is a short piece of work; otherwise the refill that finds them does.
    fn hold_back_hidden(&mut self, number: u32, slot: u8) {
        let Some(namespace) = self.namespaces.get(number) else {
            return;
        };
        let due = namespace.lanes.get(slot).map(|lane| lane.due(Kind::Retry));
        if !due.is_some_and(Overdue::has_hidden) || namespace.live.len() > super::refill::AT_ONCE {
            return;
        }
        let mut retries: Vec<Entry> = Vec::new();
        let mut cursor = Some(Cursor::START);
        while let Some(scan) = cursor.and_then(|from| namespace.live.scan(from)) {
            cursor = scan.next;
            let due = scan.entries().filter(|entry| entry.flags().has(Flags::SURFACED));
            retries.extend(
                due.filter(|entry| entry.lane() == slot && entry.claimable().kind == Kind::Retry),
            );
        }
        for entry in retries {
            self.hold_back_retry(entry.key(number), &entry);
        }
    }

    /// Holds back what a lane shows of retries whose due time is ahead of the wall clock.
    pub(super) fn hold_back_lane(&mut self, number: u32, slot: u8) {
        if !self.may_be_ahead() {
            return;
        }
        let lane = self.namespaces.get(number).and_then(|ns| ns.lanes.get(slot));
        let due: Vec<Key> = lane.map_or(Vec::new(), |lane| {
            lane.due(Kind::Retry).window().iter().map(|(_, key)| Key::unpack(*key)).collect()
        });
        for key in due {
            if let Some(entry) = self.namespaces.live(key) {
                self.hold_back_retry(key, &entry);
            }
        }
    }

    /// Whether some retry may have its due time ahead of the wall clock.
    pub(super) const fn may_be_ahead(&self) -> bool {
        self.now.wall_ms < self.retry_due_max_ms
    }

    /// Takes a retry that is due by the steady clock out of what is due if its due time is ahead of
    /// the wall clock; answers whether it did.
    pub(super) fn hold_back_retry(&mut self, key: Key, entry: &Entry) -> bool {
        // A record that cannot be read is found by the claim.
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
        let mut popped = std::mem::take(&mut self.popped);
        self.busy |= self.lease_ends.pop_due(self.now.boot_ms, PASS_MAX, &mut popped);
        for (at_ms, packed) in popped.drain(..) {
            let key = Key::unpack(packed);
            if self.leases.get(key).is_some_and(|lease| lease.ends_boot_ms <= at_ms) {
                self.end_lease(key, "the lease ended before a verdict");
            }
        }
        self.popped = popped;
    }

    /// Ends a lease without a verdict: the attempt counts and the firing is due again.
    pub(super) fn end_lease(&mut self, key: Key, reason: &str) {
        let (Some(lease), Some(entry)) = (self.leases.get(key).copied(), self.namespaces.live(key))
        else {
            return;
        };
        let attempt =
            Attempt::new(lease.attempt, lease.claimed_at, AttemptOutcome::LeaseLost, reason);
        // The firing is due again from when the lease ended, not from when that was noticed.
        let ago_ms = self.now.boot_ms.saturating_sub(lease.ends_boot_ms);
        let since = Timestamp::saturating_from_unix_ms(self.now.steady_ms.saturating_sub(ago_ms));
        let ended = match self.load_timer(entry.location()) {
            Ok(timer) => self.fail_attempt(key, timer, attempt, Wait::None, since).map(drop),
            Err(error) => self.quarantine(key, &entry, &error),
        };
        if let Err(Stop::Refused(_)) = ended {
            // No room to write it: the lease is over all the same, and tried again.
            self.lease_ends.insert(self.now.boot_ms + AGAIN_MS, key.pack());
        }
    }

    /// Records a failed attempt whose wait begins at `since` by the steady clock; answers what
    /// follows.
    pub(super) fn fail_attempt(
        &mut self,
        key: Key,
        mut timer: Timer,
        attempt: Attempt,
        wait: Wait,
        since: Timestamp,
    ) -> Result<Next, Stop> {
        let number = key.namespace();
        let namespace = self.namespace(number);
        let settings = std::sync::Arc::clone(&namespace.settings);
        let seed = timer.delivery_id(namespace.name.as_str()).seed();
        let policy = timer.retry.clone();
        let policy = policy.as_ref().unwrap_or(&settings.retry);
        let next = timer.attempt_failed(attempt, wait, policy, seed, since);
        let (event, record) = match next {
            Next::Retry(_) => {
                (Event::Fail(Budget::Left), Record::Pending(Cause::AttemptFailed, Box::new(timer)))
            }
            Next::Dead => {
                timer.die(self.now.wall(), DeathReason::AttemptsSpent);
                (Event::Fail(Budget::Spent), Record::Dead(Cause::AttemptFailed, Box::new(timer)))
            }
        };
        assert!(
            matches!(lifecycle::decide(Some(State::InFlight), event), Decision::Move(_)),
            "a leased firing can fail"
        );
        self.write(number, &record)?;
        Ok(next)
    }

    /// Looks up when some of the retries expire that a checkpoint brought.
    fn look_up_expiries(&mut self) {
        let rest = self.retries_that_expire.len().saturating_sub(LOOK_UPS_MAX);
        for key in self.retries_that_expire.split_off(rest) {
            if let Some(entry) = self.namespaces.live(key) {
                self.note_expiry(&entry, key.pack());
            }
        }
        self.busy |= !self.retries_that_expire.is_empty();
    }

    fn expire(&mut self) {
        self.look_up_expiries();
        let mut popped = std::mem::take(&mut self.popped);
        self.busy |= self.expiries.pop_due(self.now.wall_ms, PASS_MAX, &mut popped);
        for (_, packed) in popped.drain(..) {
            let key = Key::unpack(packed);
            let Some(entry) = self.namespaces.live(key) else {
                continue;
            };
            if entry.flags().has(Flags::LEASED) {
                continue;
            }
            match self.load_timer(entry.location()) {
                Ok(timer) if self.is_expired(&timer) => {
                    if let Err(Stop::Refused(_)) = self.give_up_expired(key, timer) {
                        self.expiries.insert(self.now.wall_ms + AGAIN_MS, packed);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    if let Err(Stop::Refused(_)) = self.quarantine(key, &entry, &error) {
                        self.expiries.insert(self.now.wall_ms + AGAIN_MS, packed);
                    }
                }
            }
        }
        self.popped = popped;
    }

    /// Whether `expire_after` has passed: strictly later than that after due.
    pub(super) fn is_expired(&self, timer: &Timer) -> bool {
        timer.expires_at().is_some_and(|expires_at| self.now.wall() > expires_at)
    }

    /// Makes a dead letter of a firing that expired unclaimed.
    pub(super) fn give_up_expired(&mut self, key: Key, mut timer: Timer) -> Result<(), Stop> {
        timer.die(self.now.wall(), DeathReason::Expired);
        self.write(key.namespace(), &Record::Dead(Cause::Expired, Box::new(timer)))
    }

    /// Makes a dead letter of a timer whose record cannot be read: reason `corrupt`, an id that
    /// says where the record was, an alarm. The rest stays on time.
    pub(super) fn quarantine(
        &mut self,
        key: Key,
        entry: &Entry,
        error: &ReadError,
    ) -> Result<(), Stop> {
        if let ReadError::Disk(error) = error {
            // The record may be well: a later try can succeed.
            return Err(Stop::Refused(Refusal::Exhausted {
                reason: format!("a record cannot be read now: {error}"),
                retry_after: Some(duly_core::Millis::from_secs(1)),
            }));
        }
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
        timer.death = Some(Death { at: now, reason: DeathReason::Corrupt });
        // Written first: refused for want of room, the timer stays what it is.
        self.write(key.namespace(), &Record::Dead(Cause::Expired, Box::new(timer)))?;
        self.write(key.namespace(), &Record::Lost { key: key.pack() })
    }
}
