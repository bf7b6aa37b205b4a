//! The invariants of one index entry, and their repairs.
//!
//! The rules hold between any two steps. Two cases are skipped here, and the next pass sees them:
//!
//! 1. An entry whose record is not durable yet is in no calendar and no lane: it becomes claimable later.
//! 2. While a sweep runs, the calendars may be behind it.

use crate::{
    files::ReadError,
    format::ALIGN,
    index::{AttemptKind, Claimable, Entry, Flags, Key},
};

use super::{
    super::{Engine, PendingClaimable, lane_due::DuePlace, namespaces::Namespace},
    AuditFinding,
};

/// An invariant that an entry breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokenInvariant {
    /// Its record is in no file, or past the end of one.
    NoRecord,
    /// Its lane does not exist.
    NoLane,
    /// It is marked as leased, and there is no lease.
    LeaseGone,
    /// There is a lease, and it is not marked as leased.
    Unleased,
    /// It is counted as due before its time.
    Early,
    /// It is marked as counted in its lane, which does not contain it.
    NotInLane,
    /// It waits where neither a calendar nor a sweep will find it.
    Forgotten,
}

impl BrokenInvariant {
    const fn kind(self) -> &'static str {
        match self {
            Self::NoRecord => "file",
            Self::NoLane | Self::NotInLane => "lane",
            Self::LeaseGone | Self::Unleased => "lease",
            Self::Early => "early",
            Self::Forgotten => "forgotten",
        }
    }

    const fn what(self) -> &'static str {
        match self {
            Self::NoRecord => "a timer's record is in no file; it becomes a dead letter",
            Self::NoLane => "a timer's lane does not exist",
            Self::LeaseGone => "a timer is marked as leased without a lease; it waits again",
            Self::Unleased => "a timer with a lease is not marked as leased; it is now",
            Self::Early => "a timer is counted as due before its time; it waits again",
            Self::NotInLane => "a due timer was missing in its lane; it was added",
            Self::Forgotten => "a timer would never have become due; it was reinserted",
        }
    }
}

/// Returns `true` if the entry has to be compared only with its file and the clock.
pub(super) fn is_plain(entry: &Entry) -> bool {
    !entry.flags().has(Flags::LEASED) && !entry.flags().has(Flags::COUNTED_DUE)
}

pub(super) fn is_leased(entry: &Entry) -> bool {
    entry.flags().has(Flags::LEASED)
}

impl Engine {
    pub(super) fn broken_invariant(
        &self,
        number: u32,
        namespace: &Namespace,
        entry: &Entry,
    ) -> Option<BrokenInvariant> {
        let (flags, location) = (entry.flags(), entry.location());
        let file = self.files.get(location.slot());
        if file.is_none_or(|file| location.unit() * ALIGN >= file.length) {
            return Some(BrokenInvariant::NoRecord);
        }
        let Some(lane) = namespace.lanes.get(entry.lane()) else {
            return Some(BrokenInvariant::NoLane);
        };
        if flags.has(Flags::LEASED) {
            return self
                .leases
                .get(entry.key(number))
                .is_none()
                .then_some(BrokenInvariant::LeaseGone);
        }
        let Claimable { at_ms, kind } = entry.claimable();
        if flags.has(Flags::COUNTED_DUE) {
            if at_ms > self.clock_of(kind) {
                // After the wall clock has stepped back, a pass corrects this.
                return (!self.step_back.is_under_way()).then_some(BrokenInvariant::Early);
            }
            let due = lane.due(kind);
            let is_there = match flags.has(Flags::UNREADABLE) {
                true => due.unreadable() > 0,
                false => due.has_spilled() || due.window().contains(&DuePlace::of(number, entry)),
            };
            return (!is_there).then_some(BrokenInvariant::NotInLane);
        }
        let is_lost = self.near_horizon.has_lost(kind, at_ms, self.clock_of(kind));
        // A retry may be deferred while the wall clock is behind its due time.
        let waits_elsewhere = || {
            (kind == AttemptKind::Retry && self.may_be_ahead())
                || self.is_awaiting_durability(entry.key(number), entry)
        };
        (is_lost && !waits_elsewhere()).then_some(BrokenInvariant::Forgotten)
    }

    /// Reports the broken invariant and repairs it, unless it holds by now.
    pub(super) fn repair_entry(&mut self, wrong: BrokenInvariant, key: Key) {
        let number = key.namespace();
        let Some((namespace, entry)) =
            self.namespaces.get(number).and_then(|ns| Some((ns, ns.live.get(key)?)))
        else {
            return;
        };
        let is_still = match wrong {
            BrokenInvariant::Unleased => !is_leased(&entry) && self.leases.get(key).is_some(),
            _ => self.broken_invariant(number, namespace, &entry) == Some(wrong),
        };
        if !is_still {
            return;
        }
        let place = match wrong {
            BrokenInvariant::NoRecord => self.place_of(entry.location()),
            _ => format!("lane {}, time {} ms", entry.lane(), entry.claimable().at_ms),
        };
        let (kind, what) = (wrong.kind(), wrong.what());
        self.note_fault(AuditFinding { kind, namespace: number, place, what });
        match wrong {
            BrokenInvariant::NoRecord => self.dead_letter_damaged(key, &entry),
            BrokenInvariant::NoLane => {}
            BrokenInvariant::LeaseGone => self.end_false_lease(key, &entry),
            BrokenInvariant::Unleased => self.mark_leased(key, &entry),
            BrokenInvariant::Early => {
                self.namespaces.clear_due(number, &entry);
                self.namespaces.refresh_active(number, entry.lane());
                self.check_window((number, entry.lane(), entry.claimable().kind));
                self.make_claimable(PendingClaimable { key, claimable: entry.claimable() });
            }
            BrokenInvariant::NotInLane => {
                let unmarked = entry.with_flags(entry.flags().without(Flags::DUE));
                self.count_due_entry(key, &unmarked);
            }
            BrokenInvariant::Forgotten => self.reinsert(key, &entry),
        }
    }

    /// Makes a dead letter of a timer whose record does not read back.
    pub(super) fn dead_letter_damaged(&mut self, key: Key, entry: &Entry) {
        // If the file does not count the entry, its location cannot be released: the entry is damaged.
        if !self.files.is_counted(entry.location()) {
            return;
        }
        let error: ReadError = match self.load_timer(entry.location()) {
            Ok(_) => return,
            Err(error) => error,
        };
        // If there is no capacity for the dead letter, the timer stays until the next pass.
        self.quarantine(key, entry, &error).ok();
    }

    fn end_false_lease(&mut self, key: Key, entry: &Entry) {
        let namespace = self.namespace(key.namespace());
        namespace.live.set_flags(key, entry.flags().without(Flags::LEASED));
        namespace.in_flight = namespace.in_flight.saturating_sub(1);
        *namespace.waiting_mut(entry.claimable().kind) += 1;
        if let Some(lane) = namespace.lanes.get_mut(entry.lane()) {
            lane.in_flight = lane.in_flight.saturating_sub(1);
        }
        self.make_claimable(PendingClaimable { key, claimable: entry.claimable() });
    }

    fn mark_leased(&mut self, key: Key, entry: &Entry) {
        let number = key.namespace();
        self.namespaces.clear_due(number, entry);
        let flags = entry.flags().without(Flags::DUE).with(Flags::LEASED);
        self.namespace(number).live.set_flags(key, flags);
        self.namespaces.refresh_active(number, entry.lane());
    }

    fn reinsert(&mut self, key: Key, entry: &Entry) {
        let claimable = entry.claimable();
        if claimable.at_ms > self.clock_of(claimable.kind) {
            self.make_claimable(PendingClaimable { key, claimable });
            return;
        }
        self.count_due_entry(key, entry);
        if claimable.kind == AttemptKind::First && entry.flags().has(Flags::EXPIRES) {
            self.note_expiry(key);
        }
    }
}
