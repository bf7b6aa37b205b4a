//! The rules of a namespace after all its entries were visited.
//!
//! 1. Claimers know every lane in which a timer is due.
//! 2. The spilled timers of a lane are on their way back into its resident window.
//! 3. If nothing changed during the walk, every count is the sum over the entries.

use std::collections::BTreeMap;

use crate::index::{AttemptKind, Claimable, Entry, Flags};

use super::{
    super::{Engine, namespaces::Namespace, namespaces::Namespaces, refill::LaneKindKey},
    BrokenInvariant, NamespaceWalk,
};

impl Engine {
    /// Checks the lanes of a namespace, and its counts if nothing changed during the walk.
    pub(in crate::engine) fn check_lanes_and_counts(
        &self,
        walk: &NamespaceWalk,
        broken: &mut Vec<BrokenInvariant>,
    ) {
        let number = walk.number;
        let Some(namespace) = self.namespaces.get(number) else {
            return;
        };
        for (slot, _) in namespace.lanes.iter() {
            if self.is_misplaced(number, slot) {
                broken.push(BrokenInvariant::ActiveLanes { number, slot });
            }
            for kind in AttemptKind::ALL {
                if self.lacks_refill((number, slot, kind)) {
                    broken.push(BrokenInvariant::Refill((number, slot, kind)));
                }
            }
        }
        if namespace.touched == walk.touched && Counts::of(namespace) != walk.sums {
            let sums = Box::new(walk.sums.clone());
            broken.push(BrokenInvariant::Counts { number, touched: walk.touched, sums });
        }
    }

    /// Returns `true` if the list of active lanes disagrees with the due timers of a lane.
    pub(in crate::engine) fn is_misplaced(&self, number: u32, slot: u8) -> bool {
        let lane = |namespace: &Namespace| {
            let is_idle = namespace.lanes.get(slot)?.is_idle();
            Some(is_idle == self.namespaces.active.contains(&(namespace.record.name.clone(), slot)))
        };
        self.namespaces.get(number).and_then(lane).unwrap_or(false)
    }

    /// Returns `true` if a lane has spilled timers only, and no refill that brings them back.
    pub(in crate::engine) fn lacks_refill(&self, of: LaneKindKey) -> bool {
        let (number, slot, kind) = of;
        let lane = self.namespaces.get(number).and_then(|namespace| namespace.lanes.get(slot));
        lane.map(|lane| lane.due(kind)).is_some_and(|due| {
            let waits = due.window().is_empty() && due.has_spilled();
            waits && !(due.is_refilled() && self.refills.has(of))
        })
    }
}

/// Sums over entries, or the counts that should be the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    entries: u64,
    first: u64,
    retrying: u64,
    in_flight: u64,
    pending_bytes: u64,
    lanes: BTreeMap<u8, LaneCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LaneCounts {
    pending: u64,
    in_flight: u64,
    /// Due timers of each kind.
    due: [u64; 2],
    /// Of these, the unreadable ones.
    unreadable: [u64; 2],
}

impl Counts {
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
        lane.due[kind as usize] += u64::from(entry.flags().has(Flags::COUNTED_DUE));
        lane.unreadable[kind as usize] += u64::from(entry.flags().has(Flags::UNREADABLE));
        match kind {
            AttemptKind::First => self.first += 1,
            AttemptKind::Retry => self.retrying += 1,
        }
    }

    /// Returns the counts that a namespace keeps.
    pub(super) fn of(namespace: &Namespace) -> Self {
        let lanes = namespace.lanes.iter().map(|(slot, lane)| {
            let tally = LaneCounts {
                pending: lane.pending,
                in_flight: lane.in_flight,
                due: AttemptKind::ALL.map(|kind| lane.due(kind).len()),
                unreadable: AttemptKind::ALL.map(|kind| lane.due(kind).unreadable()),
            };
            (slot, tally)
        });
        // A checkpoint may name a lane whose last timer has ended since.
        let lanes = lanes.filter(|(_, tally)| *tally != LaneCounts::default());
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
    pub(in crate::engine) fn put_into(&self, namespaces: &mut Namespaces, number: u32) {
        for (slot, tally) in &self.lanes {
            for kind in AttemptKind::ALL {
                let (due, unreadable) = (tally.due[kind as usize], tally.unreadable[kind as usize]);
                namespaces.correct_due((number, *slot, kind), due, unreadable);
            }
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
