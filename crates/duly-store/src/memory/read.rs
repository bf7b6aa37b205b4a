//! Lists and counts. Each examines every timer.

use std::collections::BTreeMap;

use duly_core::{State, destination::LaneKey};

use super::{clock::ClockReading, namespace_state::NamespaceState, state::MemoryState};
use crate::{
    Forecast, ForecastRequest, Health, ListRequest, Page, Result, Stats, TimerView,
    query::{LaneStats, ListState, Position},
};

impl NamespaceState {
    pub(super) fn list(&self, request: &ListRequest, now: ClockReading) -> Result<Page> {
        request.check()?;
        let mut found: Vec<(Position, TimerView)> = self
            .candidates(request.state, now)
            .into_iter()
            .filter(|view| request.state.admits(view.state))
            .map(|view| (Position::of(&view), view))
            .filter(|(position, _)| request.after.as_ref().is_none_or(|after| position > after))
            .collect();
        let examined = found.len() as u64;
        found.retain(|(_, view)| matches(view, request));
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some((_, first)) = found.first() {
            first.check_memory(request.bytes_max)?;
        }
        let mut bytes = 0;
        let by_bytes = found.iter().position(|(_, view)| {
            bytes += view.memory_bytes();
            bytes > request.bytes_max
        });
        let count_max = by_bytes.map_or(request.limit, |count| request.limit.min(count));
        let is_cut = found.len() > count_max;
        found.truncate(count_max);
        let next = found.last().filter(|_| is_cut).map(|(position, _)| position.clone());
        let timers = found.into_iter().map(|(_, view)| view).collect();
        Ok(Page { timers, next, examined })
    }

    fn candidates(&self, state: ListState, now: ClockReading) -> Vec<TimerView> {
        match state {
            ListState::Only(State::Dead) => {
                let dead_letters = self.dead.values();
                dead_letters.map(|letter| self.view_dead(&letter.value)).collect()
            }
            ListState::Only(State::Finished | State::Cancelled) => {
                let tombstones = self.tombstones.values().map(|tombstone| tombstone.value.clone());
                tombstones
                    .map(|tombstone| TimerView::tombstone(self.own.name.clone(), tombstone))
                    .collect()
            }
            ListState::Pending | ListState::Only(_) => {
                let live = self.live.values();
                live.map(|live| self.view_live(live, now)).collect()
            }
        }
    }

    pub(super) fn stats(&self, now: ClockReading) -> Stats {
        let mut stats = Stats {
            dead: self.dead.len() as u64,
            retained: self.tombstones.len() as u64,
            paused: self.own.paused,
            totals: self.totals,
            ..Stats::default()
        };
        let mut lanes: BTreeMap<LaneKey, LaneStats> = BTreeMap::new();
        for live in self.live.values() {
            let key = self.lane_of(&live.timer);
            let lane = lanes.entry(key.clone()).or_insert(LaneStats {
                key,
                due: 0,
                retry_due: 0,
                in_flight: 0,
            });
            let claimable = live.is_claimable(now);
            match live.state(now) {
                State::Due => {
                    stats.due += 1;
                    lane.due += 1;
                    let oldest = stats.oldest_due_at.get_or_insert(live.timer.due_at);
                    *oldest = live.timer.due_at.min(*oldest);
                }
                State::InFlight => {
                    stats.in_flight += 1;
                    lane.in_flight += 1;
                }
                State::Retrying => {
                    stats.retrying += 1;
                    lane.retry_due += u64::from(claimable);
                }
                _ => stats.scheduled += 1,
            }
            if live.lease.is_none() && !claimable {
                let at = live.timer.claimable_at();
                let next = stats.next_due_at.get_or_insert(at);
                *next = at.min(*next);
            }
            stats.pending_bytes += live.timer.stored_bytes();
        }
        stats.lanes = lanes.into_values().collect();
        stats
    }

    pub(super) fn forecast(&self, request: &ForecastRequest, now: ClockReading) -> Forecast {
        let mut forecast = Forecast::new(request, now.wall);
        for live in self.live.values() {
            match live.claimable_in(now) {
                _ if live.lease.is_some() => forecast.in_flight += 1,
                None => forecast.count(now.wall.unix_ms()),
                Some(left) => forecast.count(now.wall.unix_ms().saturating_add(left.ms())),
            }
        }
        forecast
    }
}

impl MemoryState {
    pub(super) fn health(&self, now: ClockReading) -> Health {
        let mut health = Health::default();
        for namespace in self.namespaces.values() {
            health.dead += namespace.dead.len() as u64;
            health.retained += namespace.tombstones.len() as u64;
            health.namespaces_paused += u64::from(namespace.own.paused);
            health.namespaces_dead_full += u64::from(namespace.is_dead_full());
            for live in namespace.live.values() {
                health.pending += 1;
                health.in_flight += u64::from(live.lease.is_some());
                if live.is_claimable(now) {
                    health.overdue += 1;
                    let age = now.wall.saturating_since(live.timer.claimable_at());
                    health.oldest_due_age = health.oldest_due_age.max(Some(age));
                }
            }
        }
        health
    }
}

/// Returns `true` if a view passes the filters of a list. It does not use [`ListRequest::admits`], because
/// the other stores are compared with this one.
fn matches(view: &TimerView, request: &ListRequest) -> bool {
    let due_at = view.due_at();
    let prefix = request.id_prefix.as_deref().unwrap_or("");
    let has = |tag| view.timer().is_some_and(|timer| timer.spec.tags.as_slice().contains(tag));
    request.due_from.is_none_or(|from| due_at >= from)
        && request.due_to.is_none_or(|to| due_at < to)
        && view.id().as_str().starts_with(prefix)
        && request.tag.as_ref().is_none_or(has)
}
