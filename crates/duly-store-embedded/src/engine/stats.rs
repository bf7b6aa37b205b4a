//! Counts: of one namespace, and of the whole store.

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_store::{Health, Stats, query::LaneStats};

use crate::index::AttemptKind;

use super::Engine;

impl Engine {
    /// Returns the counts of namespaces, without `next_due_at`.
    pub(crate) fn counts(&self, names: &[NamespaceName]) -> Vec<Option<Stats>> {
        let counts = |name| self.counts_of(self.namespaces.number_of(name)?);
        names.iter().map(counts).collect()
    }

    /// Returns the counts of a namespace, which are kept at all times. Only `next_due_at` is missing: an
    /// async count finds that.
    pub(super) fn counts_of(&self, number: u32) -> Option<Stats> {
        let namespace = self.namespaces.get(number)?;
        let mut stats = Stats {
            in_flight: namespace.in_flight,
            retrying: namespace.retrying,
            dead: namespace.dead(),
            retained: namespace.tombstones.len(),
            pending_bytes: namespace.pending_bytes,
            paused: namespace.record.paused,
            totals: namespace.record.totals,
            ..Stats::default()
        };
        let mut oldest = None;
        for (slot, lane) in namespace.lanes.iter() {
            let due = lane.due(AttemptKind::First).len();
            stats.due += due;
            let first = lane.due(AttemptKind::First).first_ms();
            oldest = oldest.into_iter().chain(first.filter(|_| due > 0)).min();
            let Some(key) = Self::lane_key(namespace, slot) else {
                continue;
            };
            let retry_due = lane.due(AttemptKind::Retry).len();
            stats.add_lane(LaneStats { key, due, retry_due, in_flight: lane.in_flight });
        }
        stats.scheduled = namespace.first.saturating_sub(stats.due);
        stats.oldest_due_at = oldest.map(Timestamp::saturating_from_unix_ms);
        Some(stats)
    }

    /// Returns the health of the store. It costs the same for any number of namespaces and timers.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health {
            pending: self.namespaces.sums.pending,
            index_bytes: self.namespaces.sums.index_bytes,
            index_bytes_max: Some(self.options.index_memory_max_bytes),
            disk_bytes: self.files.bytes(),
            disk_room: self.space.room,
            rewrite_backlog_bytes: self.rewrite_backlog_bytes(),
            replay_bytes: self.replay_bytes(),
            retained: self.namespaces.sums.retained,
            dead: self.namespaces.sums.dead,
            namespaces_paused: self.namespaces.sums.paused,
            namespaces_dead_full: self.namespaces.sums.dead_full,
            overdue: self.namespaces.dues.len,
            unreadable: self.namespaces.dues.unreadable,
            in_flight: (self.leases.len() as u64).saturating_sub(self.reclamation.leases),
            calendar_bytes: (self.near_horizon.heap_bytes()
                + self.lease_ends.heap_bytes()
                + self.expiries.heap_bytes()) as u64,
            ..Health::default()
        };
        let oldest_ms = self.namespaces.dues.first_ms();
        health.oldest_due_age =
            oldest_ms.map(|at| Millis::from_ms(self.now.wall_ms.saturating_sub(at)));
        health.audit_findings = self.auditor.findings;
        health.audited_at = self.auditor.audited_at;
        health.not_ready.extend(self.terminal_error.clone());
        health.not_ready.extend(self.stall.reason.clone());
        health.not_ready.extend(self.failed_rolls.reason.clone());
        health.not_ready.extend(self.low_space().map(str::to_owned));
        health.not_ready.extend(self.clock_reason());
        health
    }
}
