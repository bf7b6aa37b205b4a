//! The rules of one index entry, and of one lease.
//!
//! The rules hold between any two steps. Two cases are skipped here, and a later walk sees them:
//!
//! 1. An entry whose record is not durable yet is in no calendar and no lane: it becomes claimable later.
//! 2. While a sweep runs, the calendars may be behind it.

use crate::{
    format::ALIGN,
    index::{AttemptKind, Claimable, Entry, Flags, Key},
};

use super::{
    super::{Engine, lane_due::DuePlace, namespaces::Namespace},
    BrokenInvariant,
};

/// A rule of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryRule {
    /// Its record is in a file, before the end of it.
    InFile,
    /// Its lane exists.
    HasLane,
    /// If it is marked as leased, there is a lease.
    HasLease,
    /// If there is a lease, it is marked as leased.
    MarkedLeased,
    /// It is not counted as due before its time.
    NotEarly,
    /// If it is marked as counted in its lane, the lane contains it.
    InLane,
    /// A calendar or a sweep will find it.
    Awaited,
}

impl EntryRule {
    /// Returns the text of a broken rule.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::InFile => "a timer's record is in no file",
            Self::HasLane => "a timer's lane does not exist",
            Self::HasLease => "a timer is marked as leased without a lease",
            Self::MarkedLeased => "a timer with a lease is not marked as leased",
            Self::NotEarly => "a timer is counted as due before its time",
            Self::InLane => "a due timer is missing in its lane",
            Self::Awaited => "a timer would never become due",
        }
    }
}

/// Returns `true` if the entry has to be compared only with its file and the clock.
pub(super) fn is_plain(entry: &Entry) -> bool {
    !entry.flags().has(Flags::LEASED) && !entry.flags().has(Flags::COUNTED_DUE)
}

pub(in crate::engine) fn is_leased(entry: &Entry) -> bool {
    entry.flags().has(Flags::LEASED)
}

impl Engine {
    /// Returns the rule that an entry breaks.
    pub(in crate::engine) fn broken_rule(
        &self,
        number: u32,
        namespace: &Namespace,
        entry: &Entry,
    ) -> Option<EntryRule> {
        let (flags, location) = (entry.flags(), entry.location());
        let file = self.files.get(location.slot());
        if file.is_none_or(|file| location.unit() * ALIGN >= file.length) {
            return Some(EntryRule::InFile);
        }
        let Some(lane) = namespace.lanes.get(entry.lane()) else {
            return Some(EntryRule::HasLane);
        };
        if flags.has(Flags::LEASED) {
            return self.leases.get(entry.key(number)).is_none().then_some(EntryRule::HasLease);
        }
        let Claimable { at_ms, kind } = entry.claimable();
        if flags.has(Flags::COUNTED_DUE) {
            if at_ms > self.clock_of(kind) {
                // After the wall clock has stepped back, a pass corrects this.
                return (!self.step_back.is_under_way()).then_some(EntryRule::NotEarly);
            }
            let due = lane.due(kind);
            let is_there = match flags.has(Flags::UNREADABLE) {
                true => due.unreadable() > 0,
                false => due.has_spilled() || due.window().contains(&DuePlace::of(number, entry)),
            };
            return (!is_there).then_some(EntryRule::InLane);
        }
        let is_lost = self.near_horizon.has_lost(kind, at_ms, self.clock_of(kind));
        // A retry may be deferred while the wall clock is behind its due time.
        let waits_elsewhere = || {
            (kind == AttemptKind::Retry && self.may_be_ahead())
                || self.is_awaiting_durability(entry.key(number), entry)
        };
        (is_lost && !waits_elsewhere()).then_some(EntryRule::Awaited)
    }

    /// Returns the invariant that a lease breaks. Namespace reclamation drops the leases of a deleted
    /// namespace, step by step.
    pub(in crate::engine) fn broken_lease(&self, key: Key) -> Option<BrokenInvariant> {
        self.namespaces.get(key.namespace())?;
        match self.namespaces.live(key) {
            None => Some(BrokenInvariant::Lease(key)),
            Some(entry) if is_leased(&entry) => None,
            Some(_) => Some(BrokenInvariant::Entry(EntryRule::MarkedLeased, key)),
        }
    }
}
