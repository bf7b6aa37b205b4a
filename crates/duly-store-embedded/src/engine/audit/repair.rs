//! Repairs of broken invariants.

use crate::{
    files::ReadError,
    index::{AttemptKind, Entry, Flags, Key},
};

use super::{
    super::{
        Engine, PendingClaimable,
        invariants::{BrokenInvariant, EntryRule, is_leased},
    },
    AuditFinding,
};

impl Engine {
    /// Reports a broken invariant and repairs it, unless it holds by now: an earlier repair of the same
    /// step may have changed the state.
    pub(super) fn repair(&mut self, broken: BrokenInvariant) {
        let Some((kind, repair)) = self.planned_repair(&broken) else {
            return;
        };
        let namespace = broken.namespace().unwrap_or(0);
        let what = format!("{}; {repair}", broken.text());
        let place = self.place_of_broken(&broken);
        self.note_fault(AuditFinding { kind, namespace, place, what });
        match broken {
            BrokenInvariant::Entry(rule, key) => {
                if let Some(entry) = self.namespaces.live(key) {
                    self.repair_entry(rule, key, &entry);
                }
            }
            BrokenInvariant::Lease(key) => drop(self.leases.remove(key)),
            BrokenInvariant::ActiveLanes { number, slot } => {
                self.correct_active(number, slot);
            }
            BrokenInvariant::Refill(of) => {
                self.check_window(of);
                self.refills.want(of);
                self.busy = true;
            }
            BrokenInvariant::Counts { number, sums, .. } => {
                sums.put_into(&mut self.namespaces, number);
            }
            BrokenInvariant::File { .. } => {}
        }
    }

    /// Returns the value of the metric's label `kind` and the text of the repair; `None` if the invariant
    /// holds.
    fn planned_repair(&self, broken: &BrokenInvariant) -> Option<(&'static str, &'static str)> {
        match broken {
            BrokenInvariant::Entry(rule, key) => {
                let namespace = self.namespaces.get(key.namespace())?;
                let entry = namespace.live.get(*key)?;
                let is_broken = match rule {
                    EntryRule::MarkedLeased => {
                        !is_leased(&entry) && self.leases.get(*key).is_some()
                    }
                    _ => self.broken_rule(key.namespace(), namespace, &entry) == Some(*rule),
                };
                is_broken.then_some(match rule {
                    EntryRule::InFile => ("file", "it becomes a dead letter"),
                    EntryRule::HasLane => ("lane", "it is left as it is"),
                    EntryRule::HasLease => ("lease", "it waits again"),
                    EntryRule::MarkedLeased => ("lease", "it is now"),
                    EntryRule::NotEarly => ("early", "it waits again"),
                    EntryRule::InLane => ("lane", "it was added"),
                    EntryRule::Awaited => ("forgotten", "it was reinserted"),
                })
            }
            BrokenInvariant::Lease(key) => {
                self.leases.get(*key).map(|_| ("lease", "it was removed"))
            }
            BrokenInvariant::ActiveLanes { number, slot } => {
                self.is_misplaced(*number, *slot).then_some(("lane", "it was corrected"))
            }
            BrokenInvariant::Refill(of) => {
                self.lacks_refill(*of).then_some(("lane", "one was begun"))
            }
            BrokenInvariant::Counts { number, touched, .. } => {
                let namespace = self.namespaces.get(*number)?;
                (namespace.touched == *touched).then_some(("count", "they were corrected"))
            }
            BrokenInvariant::File { .. } => None,
        }
    }

    fn correct_active(&mut self, number: u32, slot: u8) {
        let Some(namespace) = self.namespaces.get(number) else {
            return;
        };
        let is_idle = namespace.lanes.get(slot).is_none_or(|lane| lane.is_idle());
        let listed = (namespace.record.name.clone(), slot);
        if is_idle {
            self.namespaces.active.remove(&listed);
        } else {
            self.namespaces.active.insert(listed);
            self.wake = true;
        }
    }

    fn repair_entry(&mut self, rule: EntryRule, key: Key, entry: &Entry) {
        let number = key.namespace();
        match rule {
            EntryRule::InFile => self.dead_letter_damaged(key, entry),
            EntryRule::HasLane => {}
            EntryRule::HasLease => self.end_false_lease(key, entry),
            EntryRule::MarkedLeased => self.mark_leased(key, entry),
            EntryRule::NotEarly => {
                self.namespaces.clear_due(number, entry);
                self.namespaces.refresh_active(number, entry.lane());
                self.check_window((number, entry.lane(), entry.claimable().kind));
                self.make_claimable(PendingClaimable { key, claimable: entry.claimable() });
            }
            EntryRule::InLane => {
                let unmarked = entry.with_flags(entry.flags().without(Flags::DUE));
                self.count_due_entry(key, &unmarked);
            }
            EntryRule::Awaited => self.reinsert(key, entry),
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
