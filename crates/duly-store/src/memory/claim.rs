//! Claims, and the lanes that are ready for a claim.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use duly_core::{
    Millis, Timer, TimerId,
    destination::LaneKey,
    lifecycle::{Event, Transition, transition},
    shard::ShardId,
};

use super::{
    clock::Now,
    space::{Lease, Space},
    state::{Grant, State},
};
use crate::{
    ClaimRequest, Claimed, Firing, Lane, Owner, Ready, ReadyCursor, ReadyLane, Result, Token, claim,
};

impl State {
    /// Returns a page of ready lanes. A page ends between namespaces: its cursor is the name of the last
    /// one.
    pub(super) fn ready(&self, after: Option<&ReadyCursor>, limit: usize, now: Now) -> Ready {
        let mut ready = Ready { next_due_in: self.next_due_in(now), ..Ready::default() };
        let granting = self.spaces.values().filter(|space| space.grants());
        for space in granting {
            if after.is_some_and(|after| space.name.as_str().as_bytes() <= after.own()) {
                continue;
            }
            let lanes = space.ready_lanes(now);
            if !lanes.is_empty() && ready.lanes.len() >= limit {
                let last = ready.lanes.last();
                let name = last.map(|ready| ready.lane.namespace.as_str().as_bytes());
                ready.cursor = Some(ReadyCursor::new(name.unwrap_or_default()));
                break;
            }
            ready.lanes.extend(lanes);
        }
        ready
    }

    pub(super) fn claim(
        &mut self,
        shard: ShardId,
        request: &ClaimRequest,
        now: Now,
    ) -> Result<Claimed> {
        claim::check(request)?;
        let mut claimed = Claimed::default();
        let mut bytes_left = request.bytes_max;
        'lanes: for wanted in &request.lanes {
            let Some(space) = self.spaces.get(&wanted.lane.namespace) else {
                continue;
            };
            if !space.grants() {
                continue;
            }
            for id in space.claim_order(&wanted.lane.key, wanted.first_max, wanted.retry_max, now) {
                let Some(space) = self.spaces.get_mut(&wanted.lane.namespace) else {
                    continue 'lanes;
                };
                let bytes = space.live[&id].timer.spec.content_bytes();
                let fits = claimed.firings.is_empty() || bytes <= bytes_left;
                if !fits || claimed.firings.len() >= request.total_max {
                    break 'lanes;
                }
                bytes_left = bytes_left.saturating_sub(bytes);
                let nonce = self.random.next_u64();
                let token = token(shard, self.store_id, nonce);
                let grant =
                    Grant { namespace: space.name.clone(), space: space.number, id: id.clone() };
                self.grants.insert(nonce, grant);
                claimed.firings.push(space.grant(&id, nonce, token, request, now));
            }
        }
        for wanted in &request.lanes {
            let left = self.spaces.get(&wanted.lane.namespace).is_some_and(|space| {
                space.grants() && space.claimable(&wanted.lane.key, now).next().is_some()
            });
            if left && !claimed.more.contains(&wanted.lane) {
                claimed.more.push(wanted.lane.clone());
            }
        }
        claimed.next_due_in = self.next_due_in(now);
        let here =
            request.lanes.iter().filter_map(|wanted| self.next_in_lane(&wanted.lane, now)).min();
        claimed.next_here = here.map(Millis::to_std);
        let mut others = self.spaces.values().flat_map(|space| space.ready_lanes(now));
        claimed.nothing_else =
            others.all(|ready| request.lanes.iter().any(|wanted| wanted.lane == ready.lane));
        Ok(claimed)
    }

    /// Returns the time until something more becomes claimable in a lane.
    fn next_in_lane(&self, lane: &Lane, now: Now) -> Option<Millis> {
        let space = self.spaces.get(&lane.namespace)?;
        let own = space.live.values().filter(|live| space.lane_of(&live.timer) == lane.key);
        own.filter_map(|live| live.claimable_in(now)).min()
    }

    /// Returns the time until something more becomes claimable.
    fn next_due_in(&self, now: Now) -> Option<Duration> {
        let live = self.spaces.values().flat_map(|space| space.live.values());
        let moments = live.filter_map(|live| match live.lease {
            Some(Lease { owner: Owner::Consumer { .. }, ends_boot, .. }) => {
                Some(ends_boot.saturating_sub(now.boot))
            }
            Some(_) => None,
            None => live.claimable_in(now).map(Millis::to_std),
        });
        let resumes = self.spaces.values().filter_map(|space| space.resumes_at);
        let resumes = resumes.map(|at| at.saturating_since(now.wall).to_std());
        moments.chain(resumes).min()
    }
}

impl Space {
    fn ready_lanes(&self, now: Now) -> Vec<ReadyLane> {
        let mut counts: BTreeMap<LaneKey, (u64, u64)> = BTreeMap::new();
        for live in self.live.values().filter(|live| live.is_claimable(now)) {
            let count = counts.entry(self.lane_of(&live.timer)).or_default();
            match live.timer.next_attempt_at {
                None => count.0 += 1,
                Some(_) => count.1 += 1,
            }
        }
        let lanes = counts.into_iter().map(|(key, (first, retry))| ReadyLane {
            lane: Lane { namespace: self.name.clone(), key },
            first,
            retry,
            settings: Arc::clone(&self.settings),
        });
        lanes.collect()
    }

    /// Returns the ids to claim from a lane: first attempts in order of their due times, then retries in
    /// order of their times.
    fn claim_order(
        &self,
        key: &LaneKey,
        first_max: usize,
        retry_max: usize,
        now: Now,
    ) -> Vec<TimerId> {
        let (retries, firsts): (Vec<&Timer>, Vec<&Timer>) = self
            .claimable(key, now)
            .map(|live| &live.timer)
            .partition(|timer| timer.next_attempt_at.is_some());
        let picked = [in_order(firsts, first_max), in_order(retries, retry_max)].concat();
        picked.into_iter().map(|timer| timer.id.clone()).collect()
    }

    fn grant(
        &mut self,
        id: &TimerId,
        nonce: u64,
        token: Token,
        request: &ClaimRequest,
        now: Now,
    ) -> Firing {
        let timer = &self.live[id].timer;
        let allowed = transition(Some(self.live[id].state(now)), Event::Claim);
        assert_eq!(
            allowed,
            Transition::Move(duly_core::State::InFlight),
            "only claimable timers are picked"
        );
        let length = match request.owner {
            Owner::Consumer { lease } => Some(lease.unwrap_or(self.settings.lease)),
            Owner::Node(_) => None,
        };
        let lease = Lease {
            nonce,
            attempt: timer.attempts + 1,
            owner: request.owner,
            claimed_at: now.wall,
            claimed_boot: now.boot,
            ends_boot: length.map_or(Duration::MAX, |length| now.boot + length.to_std()),
            leased_until: length.map(|length| now.wall.saturating_add(length)),
        };
        let lane = Lane { namespace: self.name.clone(), key: self.lane_of(timer) };
        let firing = Firing::new(
            timer.clone(),
            token,
            &lane,
            timer.claimable_at(),
            lease.leased_until,
            Arc::clone(&self.settings),
        );
        if let Some(live) = self.live.get_mut(id) {
            live.lease = Some(lease);
        }
        self.totals.fired += 1;
        firing
    }
}

/// Returns at most `max` timers, in order of the time from which they can be claimed.
fn in_order(mut timers: Vec<&Timer>, max: usize) -> Vec<&Timer> {
    timers.sort_by_key(|timer| (timer.claimable_at(), timer.id.clone()));
    timers.truncate(max);
    timers
}

/// Creates a token from the ids of the store and the grant.
fn token(shard: ShardId, store_id: u64, nonce: u64) -> Token {
    let mut own = [0; 16];
    own[..8].copy_from_slice(&store_id.to_be_bytes());
    own[8..].copy_from_slice(&nonce.to_be_bytes());
    Token::new(shard, &own)
}
