//! Claims, the lanes that are ready for a claim, and the lane of a timer:
//!
//! 1. A timer with its own destination belongs to the lane of that destination.
//! 2. A timer without one belongs to the lane of the namespace's destination at the time of the claim.
//! 3. The first [`RECEIVERS_MAX`] receivers of timers get lanes of their own, and keep them while the namespace
//!    exists. Timers to later receivers share the overflow lane.
//! 4. The namespace's own destination never overflows.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use duly_core::{
    Destination, Millis, State, Timer, TimerId,
    destination::LaneKey,
    lifecycle::{Event, Transition, transition},
    shard::ShardId,
    totals::Total,
};

use super::{
    clock::ClockReading,
    namespace_state::{Lease, LiveTimer, NamespaceState},
    state::{IssuedToken, MemoryState},
};
use crate::{
    ClaimRequest, Claimed, Firing, Lane, LaneClaim, Owner, Ready, ReadyCursor, ReadyLane, Result,
    Token,
    claim::{self, RECEIVERS_MAX},
};

impl MemoryState {
    /// Returns a page of ready lanes. A page ends between namespaces: its cursor is the name of the last
    /// one.
    pub(super) fn ready(
        &self,
        after: Option<&ReadyCursor>,
        limit: usize,
        now: ClockReading,
    ) -> Ready {
        let mut ready = Ready { next_due_in: self.next_due_in(now), ..Ready::default() };
        let granting = self.namespaces.values().filter(|namespace| namespace.grants_claims());
        for namespace in granting {
            if after.is_some_and(|after| namespace.own.name.as_str().as_bytes() <= after.own()) {
                continue;
            }
            let lanes = namespace.ready_lanes(now);
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
        now: ClockReading,
    ) -> Result<Claimed> {
        claim::check(request)?;
        let mut claimed = Claimed::default();
        let mut bytes_left = request.bytes_max;
        'lanes: for wanted in &request.lanes {
            let named = self.namespaces.get_mut(&wanted.lane.namespace);
            let Some(namespace) = named.filter(|namespace| namespace.grants_claims()) else {
                continue;
            };
            let LaneClaim { lane, first_max, retry_max } = wanted;
            for id in namespace.claim_order(&lane.key, *first_max, *retry_max, now) {
                let bytes = namespace.live[&id].timer.spec.content_bytes();
                let fits = claimed.firings.is_empty() || bytes <= bytes_left;
                if !fits || claimed.firings.len() >= request.total_max {
                    break 'lanes;
                }
                bytes_left = bytes_left.saturating_sub(bytes);
                let nonce = self.random.next_u64();
                let token = token(shard, self.store_id, nonce);
                let issued = IssuedToken {
                    namespace: namespace.own.name.clone(),
                    namespace_number: namespace.number,
                    id: id.clone(),
                };
                self.tokens.insert(nonce, issued);
                claimed.firings.push(namespace.grant(&id, nonce, token, request, now));
            }
        }
        for wanted in &request.lanes {
            let left = self.namespaces.get(&wanted.lane.namespace).is_some_and(|namespace| {
                namespace.grants_claims()
                    && namespace.claimable(&wanted.lane.key, now).next().is_some()
            });
            if left && !claimed.more.contains(&wanted.lane) {
                claimed.more.push(wanted.lane.clone());
            }
        }
        claimed.next_due_in = self.next_due_in(now);
        let here =
            request.lanes.iter().filter_map(|wanted| self.next_in_lane(&wanted.lane, now)).min();
        claimed.next_here = here.map(Millis::to_std);
        let mut others = self.namespaces.values().flat_map(|namespace| namespace.ready_lanes(now));
        claimed.nothing_else =
            others.all(|ready| request.lanes.iter().any(|wanted| wanted.lane == ready.lane));
        Ok(claimed)
    }

    /// Returns the time until something more becomes claimable in a lane.
    fn next_in_lane(&self, lane: &Lane, now: ClockReading) -> Option<Millis> {
        let namespace = self.namespaces.get(&lane.namespace)?;
        let own = namespace.live.values().filter(|live| namespace.lane_of(&live.timer) == lane.key);
        own.filter_map(|live| live.claimable_in(now)).min()
    }

    /// Returns the time until something more becomes claimable.
    fn next_due_in(&self, now: ClockReading) -> Option<Duration> {
        let live = self.namespaces.values().flat_map(|namespace| namespace.live.values());
        let moments = live.filter_map(|live| match live.lease {
            Some(Lease { owner: Owner::Consumer { .. }, ends_boot, .. }) => {
                Some(ends_boot.saturating_sub(now.boot))
            }
            Some(_) => None,
            None => live.claimable_in(now).map(Millis::to_std),
        });
        let resumes = self.namespaces.values().filter_map(|namespace| namespace.own.resumes_at);
        let resumes = resumes.map(|at| at.saturating_since(now.wall).to_std());
        moments.chain(resumes).min()
    }
}

impl NamespaceState {
    /// Gives a lane to the receiver of a timer, while there are lanes left.
    pub(super) fn add_receiver(&mut self, destination: Option<&Destination>) {
        if let Some(key @ LaneKey::Receiver(_)) = destination.map(Destination::lane_key)
            && self.receivers.len() < RECEIVERS_MAX
        {
            self.receivers.insert(key);
        }
    }

    /// Returns the present lane of a timer.
    pub(super) fn lane_of(&self, timer: &Timer) -> LaneKey {
        match timer.spec.destination.as_ref().map(Destination::lane_key) {
            None => self.own.settings.destination.lane_key(),
            Some(LaneKey::Receiver(receiver)) => {
                let key = LaneKey::Receiver(receiver);
                if self.receivers.contains(&key) { key } else { LaneKey::Overflow }
            }
            Some(key) => key,
        }
    }

    /// Returns `true` if the namespace grants claims.
    pub(super) fn grants_claims(&self) -> bool {
        !self.own.paused && !self.is_dead_full()
    }

    /// Returns `true` if the namespace has reached its limit of dead letters.
    pub(super) fn is_dead_full(&self) -> bool {
        self.dead.len() as u64 >= self.own.settings.limits.max_dead
    }

    /// Returns the claimable timers of a lane.
    pub(super) fn claimable<'a>(
        &'a self,
        key: &'a LaneKey,
        now: ClockReading,
    ) -> impl Iterator<Item = &'a LiveTimer> {
        let live = self.live.values();
        live.filter(move |live| live.is_claimable(now) && self.lane_of(&live.timer) == *key)
    }

    fn ready_lanes(&self, now: ClockReading) -> Vec<ReadyLane> {
        let mut counts: BTreeMap<LaneKey, (u64, u64)> = BTreeMap::new();
        for live in self.live.values().filter(|live| live.is_claimable(now)) {
            let count = counts.entry(self.lane_of(&live.timer)).or_default();
            match live.timer.next_attempt_at {
                None => count.0 += 1,
                Some(_) => count.1 += 1,
            }
        }
        let lanes = counts.into_iter().map(|(key, (first, retry))| ReadyLane {
            lane: Lane { namespace: self.own.name.clone(), key },
            first,
            retry,
            settings: Arc::clone(&self.own.settings),
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
        now: ClockReading,
    ) -> Vec<TimerId> {
        let (retries, firsts): (Vec<&Timer>, Vec<&Timer>) = self
            .claimable(key, now)
            .map(|live| &live.timer)
            .partition(|timer| timer.next_attempt_at.is_some());
        let picked =
            [first_in_order(firsts, first_max), first_in_order(retries, retry_max)].concat();
        picked.into_iter().map(|timer| timer.id.clone()).collect()
    }

    fn grant(
        &mut self,
        id: &TimerId,
        nonce: u64,
        token: Token,
        request: &ClaimRequest,
        now: ClockReading,
    ) -> Firing {
        let timer = &self.live[id].timer;
        let allowed = transition(Some(self.live[id].state(now)), Event::Claim);
        let granted = Transition::Move(State::InFlight);
        assert_eq!(allowed, granted, "only claimable timers are picked");
        let length = match request.owner {
            Owner::Consumer { lease } => Some(lease.unwrap_or(self.own.settings.lease)),
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
            stopped: false,
        };
        let lane = Lane { namespace: self.own.name.clone(), key: self.lane_of(timer) };
        let firing = Firing::new(
            timer.clone(),
            token,
            &lane,
            timer.claimable_at(),
            lease.leased_until,
            Arc::clone(&self.own.settings),
        );
        if let Some(live) = self.live.get_mut(id) {
            live.lease = Some(lease);
        }
        self.totals.count(&[Total::Fired]);
        firing
    }
}

/// Returns at most `max` timers, in order of the time from which they can be claimed.
fn first_in_order(mut timers: Vec<&Timer>, max: usize) -> Vec<&Timer> {
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
