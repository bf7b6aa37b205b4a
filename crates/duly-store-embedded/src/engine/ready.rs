//! Ready: which lanes have something claimable, and how long until there is more.

use std::time::Duration;

use duly_core::destination::LaneKey;
use duly_store::{Lane, Ready, ReadyLane};

use crate::index::Kind;

use super::Engine;

impl Engine {
    pub(crate) fn ready(&mut self, after: Option<&Lane>, limit: usize) -> Ready {
        let from = after.and_then(|lane| {
            let number = self.namespaces.number_of(&lane.namespace)?;
            Some((number, u8::MAX))
        });
        let mut ready = Ready {
            next_due_in: self.next_due_in(),
            ..Ready::default()
        };
        let range = (
            from.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded),
            std::ops::Bound::Unbounded,
        );
        for &(number, slot) in self.namespaces.active.range(range) {
            let Some(namespace) = self.namespaces.get(number) else {
                continue;
            };
            let Some(lane) = namespace.lanes.get(slot) else {
                continue;
            };
            let own = &namespace.settings.destination;
            let Some(key) = namespace.lanes.key_of(slot, own) else {
                continue;
            };
            if !namespace.is_claimable() {
                continue;
            }
            let first = self.claimable_count(lane, Kind::First);
            let retry = self.claimable_count(lane, Kind::Retry);
            if first + retry == 0 {
                continue;
            }
            let same = |known: &&mut ReadyLane| {
                known.lane.namespace == namespace.name && known.lane.key == key
            };
            if let Some(known) = ready.lanes.iter_mut().rev().take(256).find(same) {
                known.first += first;
                known.retry += retry;
                continue;
            }
            let same_namespace = ready
                .lanes
                .last()
                .is_some_and(|last| last.lane.namespace == namespace.name);
            // A page ends between namespaces, so that a lane of two numbers is never split.
            if ready.lanes.len() >= limit && !same_namespace {
                ready.cursor = ready.lanes.last().map(|last| last.lane.clone());
                break;
            }
            let lane = Lane {
                namespace: namespace.name.clone(),
                key,
            };
            ready.lanes.push(ReadyLane { lane, first, retry });
        }
        ready
    }

    /// How many of a due set are claimable now. Exact unless a clock stepped back: then those that
    /// are in the future again are left out one by one.
    fn claimable_count(&self, lane: &super::lanes::Lane, kind: Kind) -> u64 {
        let set = lane.set(kind);
        let now_ms = self.clock_of(kind);
        match set.last() {
            Some((at_ms, _)) if *at_ms <= now_ms => set.len() as u64,
            Some(_) => set.iter().take_while(|(at_ms, _)| *at_ms <= now_ms).count() as u64,
            None => 0,
        }
    }

    /// The clock that a kind of claim follows, in milliseconds.
    pub(super) const fn clock_of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::First => self.now.wall_ms,
            Kind::Retry => self.now.steady_ms,
        }
    }

    /// How long until the next timer, retry, expiry or lease end; remembers that it was said.
    pub(super) fn next_due_in(&mut self) -> Option<Duration> {
        let now = &self.now;
        let left = [
            self.calendar
                .next_due()
                .map(|at| at.saturating_sub(now.wall_ms)),
            self.retries
                .next_due()
                .map(|at| at.saturating_sub(now.steady_ms)),
            self.expiries
                .next_due()
                .map(|at| at.saturating_sub(now.wall_ms)),
            self.lease_ends
                .next_due()
                .map(|at| at.saturating_sub(now.boot_ms)),
        ];
        let left_ms = left.into_iter().flatten().min();
        self.announced_ms = left_ms.map(|left| now.wall_ms.saturating_add(left));
        left_ms.map(|left| Duration::from_millis(left).saturating_sub(now.wall_rest))
    }

    /// The lanes of a namespace by what they are keyed by at present.
    pub(super) fn lane_key(namespace: &super::namespaces::Namespace, slot: u8) -> Option<LaneKey> {
        namespace
            .lanes
            .key_of(slot, &namespace.settings.destination)
    }
}
