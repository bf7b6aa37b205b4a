//! Counts: of one namespace, and of the whole store.

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_store::{Health, Stats, query::LaneStats};

use crate::index::{Cursor, Flags, Key, Kind};

use super::{Engine, HeldBack, namespaces::Namespace};

impl Engine {
    /// Counts of a namespace. Exact; only `next_due_at` costs a pass over its index.
    pub(crate) fn stats(&self, name: &NamespaceName) -> Option<Stats> {
        let number = self.namespaces.number_of(name)?;
        let namespace = self.namespaces.get(number)?;
        let mut stats = Stats {
            in_flight: namespace.in_flight,
            retrying: namespace.retrying,
            dead: namespace.dead(),
            retained: namespace.stubs.len(),
            pending_bytes: namespace.pending_bytes,
            paused: namespace.paused,
            totals: namespace.totals,
            next_due_at: self.next_due_at(number, namespace),
            ..Stats::default()
        };
        let mut oldest = None;
        for (slot, lane) in namespace.lanes.iter() {
            let due = lane.due(Kind::First).len();
            stats.due += due;
            let first = lane.due(Kind::First).window().first().map(|(at_ms, _)| *at_ms);
            oldest = oldest.into_iter().chain(first.filter(|_| due > 0)).min();
            let Some(key) = Self::lane_key(namespace, slot) else {
                continue;
            };
            let retry_due = lane.due(Kind::Retry).len();
            match stats.lanes.iter_mut().find(|known| known.key == key) {
                Some(known) => {
                    known.due += due;
                    known.retry_due += retry_due;
                    known.in_flight += lane.in_flight;
                }
                None => {
                    stats.lanes.push(LaneStats { key, due, retry_due, in_flight: lane.in_flight });
                }
            }
        }
        stats.scheduled = namespace.first.saturating_sub(stats.due);
        stats.oldest_due_at = oldest.map(Timestamp::saturating_from_unix_ms);
        Some(stats)
    }

    fn next_due_at(&self, number: u32, namespace: &Namespace) -> Option<Timestamp> {
        let mut left_ms = self.held_back_in_ms(number);
        let mut cursor = Some(Cursor::START);
        while let Some(scan) = cursor.and_then(|from| namespace.live.scan(from)) {
            cursor = scan.next;
            let waiting = scan.entries().filter(|entry| !entry.flags().has(Flags::LEASED));
            let ahead = waiting
                .map(|entry| entry.claimable())
                .map(|claimable| claimable.at_ms.saturating_sub(self.clock_of(claimable.kind)))
                .filter(|left_ms| *left_ms > 0);
            left_ms = left_ms.into_iter().chain(ahead).min();
        }
        left_ms.map(|left_ms| Timestamp::saturating_from_unix_ms(self.now.wall_ms + left_ms))
    }

    /// In how many milliseconds the first held-back retry of a namespace can be claimed.
    fn held_back_in_ms(&self, number: u32) -> Option<u64> {
        let of_namespace = |held: &&HeldBack| Key::unpack(held.key).namespace() == number;
        let held = self.held_back.iter().find(of_namespace)?;
        Some(held.due_ms.saturating_sub(self.now.wall_ms))
    }

    /// How the store feels.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health {
            location: self.disk.describe(),
            pending: self.namespaces.pending(),
            index_bytes: self.namespaces.index_bytes(),
            disk_bytes: self.files.bytes(),
            dead: self.namespaces.dead(),
            in_flight: self.leases.len() as u64,
            calendar_bytes: (self.near.heap_bytes()
                + self.lease_ends.heap_bytes()
                + self.expiries.heap_bytes()) as u64,
            ..Health::default()
        };
        let mut oldest_ms: Option<u64> = None;
        for (name, slot) in &self.namespaces.active {
            let number = self.namespaces.number_of(name);
            let namespace = number.and_then(|number| self.namespaces.get(number));
            let Some(lane) = namespace.and_then(|ns| ns.lanes.get(*slot)) else {
                continue;
            };
            for kind in [Kind::First, Kind::Retry] {
                health.overdue += lane.due(kind).len();
                let first = lane.due(kind).window().first().map(|(at_ms, _)| *at_ms);
                oldest_ms = oldest_ms.into_iter().chain(first).min();
            }
        }
        health.oldest_due_age =
            oldest_ms.map(|at| Millis::from_ms(self.now.wall_ms.saturating_sub(at)));
        health.audit_findings = self.auditor.findings;
        health.audited_at = self.auditor.audited_at;
        health.not_ready.extend(self.poisoned.clone());
        health.not_ready.extend(self.low_space().map(str::to_owned));
        health
    }
}
