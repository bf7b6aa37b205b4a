//! Counts: of one namespace, and of the whole store.

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_store::{Health, Stats, query::LaneStats};

use crate::index::{Key, Kind, TABLES};

use super::{Engine, HeldBack};

impl Engine {
    /// Counts of a namespace. Exact; only `next_due_at` costs a pass over the index.
    pub(crate) fn stats(&self, name: &NamespaceName) -> Option<Stats> {
        let number = self.namespaces.number_of(name)?;
        let namespace = self.namespaces.get(number)?;
        let mut stats = Stats {
            in_flight: namespace.in_flight,
            retrying: namespace.retrying,
            dead: namespace.dead(),
            retained: namespace.retained,
            pending_bytes: namespace.pending_bytes,
            paused: namespace.paused,
            totals: namespace.totals,
            next_due_at: self.next_due_at(number),
            ..Stats::default()
        };
        let mut oldest = None;
        for (slot, lane) in namespace.lanes.iter() {
            let due = self.claimable_count(lane, Kind::First);
            stats.due += due;
            let first = lane.set(Kind::First).first().map(|(at_ms, _)| *at_ms);
            oldest = oldest.into_iter().chain(first.filter(|_| due > 0)).min();
            let Some(key) = Self::lane_key(namespace, slot) else {
                continue;
            };
            let retry_due = self.claimable_count(lane, Kind::Retry);
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

    fn next_due_at(&self, number: u32) -> Option<Timestamp> {
        (0..TABLES)
            .flat_map(|table| self.live.table(table))
            .filter(|entry| entry.key().namespace() == number)
            .filter(|entry| !self.leases.contains_key(&entry.key()))
            .map(|entry| entry.claimable())
            .map(|claimable| claimable.at_ms.saturating_sub(self.clock_of(claimable.kind)))
            .filter(|left_ms| *left_ms > 0)
            .chain(self.held_back_in_ms(number))
            .min()
            .map(|left_ms| Timestamp::saturating_from_unix_ms(self.now.wall_ms + left_ms))
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
            index_bytes: (self.live.heap_bytes() + self.stubs.heap_bytes()) as u64,
            disk_bytes: self.journal.disk_bytes(),
            dead: self.letters.len() as u64,
            in_flight: self.leases.len() as u64,
            calendar_bytes: [
                &self.calendar,
                &self.retries,
                &self.lease_ends,
                &self.expiries,
                &self.stub_ends,
            ]
            .into_iter()
            .map(|calendar| calendar.heap_bytes() as u64)
            .sum(),
            ..Health::default()
        };
        let mut oldest_ms: Option<u64> = None;
        for (_, namespace) in self.namespaces.iter() {
            health.pending += namespace.pending();
        }
        for (name, slot) in &self.namespaces.active {
            let number = self.namespaces.number_of(name);
            let namespace = number.and_then(|number| self.namespaces.get(number));
            let Some(lane) = namespace.and_then(|ns| ns.lanes.get(*slot)) else {
                continue;
            };
            for kind in [Kind::First, Kind::Retry] {
                health.overdue += self.claimable_count(lane, kind);
                let first = lane.set(kind).first().map(|(at_ms, _)| *at_ms);
                oldest_ms = oldest_ms.into_iter().chain(first).min();
            }
        }
        health.oldest_due_age =
            oldest_ms.map(|at| Millis::from_ms(self.now.wall_ms.saturating_sub(at)));
        health.not_ready.extend(self.poisoned.clone());
        health.not_ready.extend(self.low_space().map(str::to_owned));
        health
    }
}
