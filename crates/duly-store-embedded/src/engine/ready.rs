//! Ready: lists the lanes with claimable timers, and the time until there are more.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use duly_core::{Invalid, NamespaceName, destination::LaneKey};
use duly_store::{Error, Lane, Ready, ReadyCursor, ReadyLane};

use crate::index::AttemptKind;

use super::{Engine, namespaces::Namespace};

/// Most namespaces that one page visits: paused ones add nothing to it.
const NAMES_PER_PAGE: usize = 1_000;

impl Engine {
    /// Returns the lanes with claimable timers, in lane order. A page ends between namespaces. So it may
    /// exceed `limit` by the lanes of one namespace, and it may be empty although there is more.
    pub(crate) fn ready(
        &mut self,
        after: Option<&ReadyCursor>,
        limit: usize,
    ) -> Result<Ready, Error> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut ready = Ready { next_due_in: self.next_due_in(), ..Ready::default() };
        let from = match after.map(name_of) {
            Some(name) => Excluded((name?, u8::MAX)),
            None => Unbounded,
        };
        let mut last: Option<&NamespaceName> = None;
        let mut visited = 0;
        for (name, _) in self.namespaces.active.range((from, Unbounded)) {
            if last == Some(name) {
                continue;
            }
            if ready.lanes.len() >= limit || visited == NAMES_PER_PAGE {
                ready.cursor = last.map(cursor_behind);
                break;
            }
            visited += 1;
            last = Some(name);
            let number = self.namespaces.number_of(name);
            if let Some(namespace) = number.and_then(|number| self.namespaces.get(number)) {
                ready.lanes.extend(Self::ready_lanes(namespace));
            }
        }
        Ok(ready)
    }

    fn ready_lanes(namespace: &Namespace) -> Vec<ReadyLane> {
        let mut by_key: BTreeMap<LaneKey, (u64, u64)> = BTreeMap::new();
        if namespace.is_claimable() {
            for (slot, lane) in namespace.lanes.iter() {
                let Some(key) = Self::lane_key(namespace, slot) else {
                    continue;
                };
                let counts = by_key.entry(key).or_default();
                counts.0 += lane.due(AttemptKind::First).claimable();
                counts.1 += lane.due(AttemptKind::Retry).claimable();
            }
        }
        by_key
            .into_iter()
            .filter(|(_, (first, retry))| first + retry > 0)
            .map(|(key, (first, retry))| {
                let lane = Lane { namespace: namespace.record.name.clone(), key };
                let settings = Arc::clone(&namespace.record.settings);
                ReadyLane { lane, first, retry, settings }
            })
            .collect()
    }

    /// Returns the clock that a kind of claim follows, in milliseconds.
    pub(super) const fn clock_of(&self, kind: AttemptKind) -> u64 {
        match kind {
            AttemptKind::First => self.now.wall_ms,
            AttemptKind::Retry => self.now.steady_ms,
        }
    }

    /// Returns the time until the next timer, retry, expiry or lease end, and records that it was
    /// announced.
    pub(super) fn next_due_in(&mut self) -> Option<Duration> {
        let now = &self.now;
        let left = [
            self.near_horizon.next_ms(AttemptKind::First).map(|at| at.saturating_sub(now.wall_ms)),
            self.near_horizon
                .next_ms(AttemptKind::Retry)
                .map(|at| at.saturating_sub(now.steady_ms)),
            self.deferred_retries.first().map(|held| held.due_ms.saturating_sub(now.wall_ms)),
            self.expiries.next_due().map(|at| at.saturating_sub(now.wall_ms)),
            self.lease_ends.next_due().map(|at| at.saturating_sub(now.boot_ms)),
            self.next_unreadable_round_in_ms(),
            self.next_resume_in_ms(),
        ];
        let left_ms = left.into_iter().flatten().min();
        self.announced_ms = left_ms.map(|left| now.wall_ms.saturating_add(left));
        left_ms.map(|left| Duration::from_millis(left).saturating_sub(now.wall_rest))
    }

    fn next_resume_in_ms(&self) -> Option<u64> {
        let left_ms = self.namespaces.next_resume()?.unix_ms().saturating_sub(self.now.wall_ms);
        Some(left_ms.max(self.resume_not_before_ms.saturating_sub(self.now.boot_ms)))
    }

    /// Returns the current key of a lane.
    pub(super) fn lane_key(namespace: &Namespace, slot: u8) -> Option<LaneKey> {
        namespace.lanes.key_of(slot, &namespace.record.settings.destination)
    }
}

/// Returns the cursor after the last namespace that a page visited, ready or not: its name.
fn cursor_behind(last: &NamespaceName) -> ReadyCursor {
    ReadyCursor::new(last.as_str().as_bytes())
}

fn name_of(cursor: &ReadyCursor) -> Result<NamespaceName, Error> {
    let name =
        std::str::from_utf8(cursor.own()).ok().and_then(|text| NamespaceName::new(text).ok());
    name.ok_or_else(|| Invalid::unseen("after", "a cursor of this store").into())
}
