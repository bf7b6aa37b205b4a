//! The sums over the entries of a namespace, to compare with its counts.

use std::collections::BTreeMap;

use crate::index::{AttemptKind, Claimable, Entry, Flags};

use super::super::namespaces::{Namespace, Namespaces};

/// Sums over entries, or the counts that should be the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AuditTally {
    entries: u64,
    first: u64,
    retrying: u64,
    in_flight: u64,
    pending_bytes: u64,
    lanes: BTreeMap<u8, LaneTally>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LaneTally {
    pending: u64,
    in_flight: u64,
    first_due: u64,
    retry_due: u64,
    /// Of these, the unreadable ones.
    first_unreadable: u64,
    retry_unreadable: u64,
}

impl AuditTally {
    pub(super) fn add(&mut self, entry: &Entry) {
        let Claimable { kind, .. } = entry.claimable();
        let lane = self.lanes.entry(entry.lane()).or_default();
        lane.pending += 1;
        self.entries += 1;
        self.pending_bytes += entry.location().bytes_estimate();
        if entry.flags().has(Flags::LEASED) {
            self.in_flight += 1;
            lane.in_flight += 1;
            return;
        }
        let is_due = u64::from(entry.flags().has(Flags::COUNTED_DUE));
        let is_unreadable = u64::from(entry.flags().has(Flags::UNREADABLE));
        match kind {
            AttemptKind::First => {
                self.first += 1;
                lane.first_due += is_due;
                lane.first_unreadable += is_unreadable;
            }
            AttemptKind::Retry => {
                self.retrying += 1;
                lane.retry_due += is_due;
                lane.retry_unreadable += is_unreadable;
            }
        }
    }

    /// Returns the counts that a namespace keeps.
    pub(super) fn as_counted(namespace: &Namespace) -> Self {
        let lanes = namespace.lanes.iter().map(|(slot, lane)| {
            let tally = LaneTally {
                pending: lane.pending,
                in_flight: lane.in_flight,
                first_due: lane.due(AttemptKind::First).len(),
                retry_due: lane.due(AttemptKind::Retry).len(),
                first_unreadable: lane.due(AttemptKind::First).unreadable(),
                retry_unreadable: lane.due(AttemptKind::Retry).unreadable(),
            };
            (slot, tally)
        });
        Self {
            entries: namespace.live.len() as u64,
            first: namespace.first,
            retrying: namespace.retrying,
            in_flight: namespace.in_flight,
            pending_bytes: namespace.pending_bytes,
            lanes: lanes.collect(),
        }
    }

    /// Describes which counts differ.
    pub(super) fn difference(&self, counted: &Self) -> String {
        let pairs = [
            ("pending timers", self.entries, counted.entries),
            ("first attempts", self.first, counted.first),
            ("retries", self.retrying, counted.retrying),
            ("in flight", self.in_flight, counted.in_flight),
            ("bytes", self.pending_bytes, counted.pending_bytes),
        ];
        let differing = pairs.into_iter().filter(|(_, seen, said)| seen != said);
        let mut parts: Vec<String> =
            differing.map(|(what, seen, said)| format!("{seen} {what}, counted {said}")).collect();
        let slots = self.lanes.keys().chain(counted.lanes.keys());
        let mut slots: Vec<u8> =
            slots.copied().filter(|slot| self.lanes.get(slot) != counted.lanes.get(slot)).collect();
        slots.sort_unstable();
        slots.dedup();
        parts.extend(slots.into_iter().map(|slot| format!("lane {slot}")));
        parts.join("; ")
    }

    /// Corrects the counts of a namespace. The index itself keeps the number of its entries.
    pub(super) fn put_into(&self, namespaces: &mut Namespaces, number: u32) {
        for (slot, tally) in &self.lanes {
            let (first, retry) =
                ((number, *slot, AttemptKind::First), (number, *slot, AttemptKind::Retry));
            namespaces.correct_due(first, tally.first_due, tally.first_unreadable);
            namespaces.correct_due(retry, tally.retry_due, tally.retry_unreadable);
        }
        let Some(namespace) = namespaces.get_mut(number) else {
            return;
        };
        namespace.first = self.first;
        namespace.retrying = self.retrying;
        namespace.in_flight = self.in_flight;
        namespace.pending_bytes = self.pending_bytes;
        for (slot, tally) in &self.lanes {
            if let Some(lane) = namespace.lanes.get_mut(*slot) {
                lane.pending = tally.pending;
                lane.in_flight = tally.in_flight;
            }
        }
    }
}
