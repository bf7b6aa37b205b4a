//! The quotas of this node: its parts of the lanes' limits, where several nodes share the store. Pure.
//!
//! Caps and rates apply to all nodes together. So before a node starts anything in a lane it sends a
//! quota request to the lane's coordinator shard (`duly_store::Deployment::allot`):
//!
//! 1. It requests more at once when a lane wants more than its quota.
//! 2. It renews the request every [`RENEW_AFTER`] while it has a quota.
//! 3. It gives up a quota that it did not use for [`UNUSED_KEPT_FOR`].
//! 4. Until the grant arrives it starts nothing beyond the slots that it *keeps*, which the request
//!    names. So all nodes together never have more under way than the cap.

use std::time::Duration;

use duly_core::{rate::Rate, shard::ShardId};
use duly_store::{
    Lane,
    deployment::{Allotment, Ask},
};
use rustc_hash::FxHashMap;

use super::{
    Lanes,
    fair_share::{Demand, LaneLimits, Load},
};

/// Time between two quota requests of a lane.
pub(crate) const RENEW_AFTER: Duration = Duration::from_millis(250);
/// Time to the next request of a lane that must give slots back, or whose last request got no reply.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// Time for which an unused quota is kept: often another timer follows soon.
const UNUSED_KEPT_FOR: Duration = Duration::from_secs(5);
/// Most quota requests in one round.
pub(crate) const REQUESTS_MAX: usize = 1_000;

/// The quotas of this node, by lane.
#[derive(Debug, Default)]
pub(super) struct LaneQuotas {
    lanes: FxHashMap<Lane, LaneQuota>,
    /// Lanes that want more than their quota, to be requested at once.
    urgent: Vec<Lane>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LaneQuota {
    slots: usize,
    rate: Option<u32>,
    /// Slots held and wanted when the lane was last planned. `wanted_at` is the time of that.
    wanted: usize,
    wanted_at: Duration,
    /// Slots wanted by the last request.
    requested: usize,
    /// The limits of all nodes together.
    cap: usize,
    whole_rate: Option<u32>,
    next_request_at: Duration,
    is_requested: bool,
}

impl LaneQuotas {
    /// Returns the lane's limits with this node's quota in place of the limits of all nodes. Marks the
    /// lane as urgent if the quota is less than the lane wants.
    pub(super) fn apply_quota(
        &mut self,
        lane: &Lane,
        limits: LaneLimits,
        load: Load,
        demand: Demand,
        now: Duration,
    ) -> LaneLimits {
        let whole_rate = limits.rate.map(Rate::per_second);
        let quota = self.lanes.entry(lane.clone()).or_insert_with(|| LaneQuota {
            rate: whole_rate.map(|_| 0),
            next_request_at: now,
            ..LaneQuota::default()
        });
        (quota.cap, quota.whole_rate) = (limits.cap, whole_rate);
        (quota.wanted, quota.wanted_at) = (load.sum().saturating_add(demand.sum()), now);
        let is_short = quota.wanted.min(limits.cap) > quota.slots;
        if is_short && !quota.is_requested && quota.wanted > quota.requested {
            self.urgent.push(lane.clone());
        }
        let cap = limits.cap.min(quota.slots);
        match (limits.rate, quota.rate) {
            (Some(_), Some(0)) => LaneLimits { cap: 0, ..limits },
            (Some(_), Some(part)) => LaneLimits { cap, rate: Some(Rate::smooth(part)), ..limits },
            _ => LaneLimits { cap, ..limits },
        }
    }

    /// Returns the quota requests to be sent now. `load` returns the slots that a lane holds, `waiting`
    /// the demand of all its shards in addition. Shards are planned one by one, and the coordinator
    /// shard may be far away. So one request covers the demand of all shards.
    pub(super) fn quota_requests(
        &mut self,
        now: Duration,
        load: impl Fn(&Lane) -> Load,
        waiting: impl Fn(&Lane) -> Demand,
    ) -> Vec<Ask> {
        let mut due = std::mem::take(&mut self.urgent);
        let again = self
            .lanes
            .iter()
            .filter(|(_, quota)| !quota.is_requested && quota.next_request_at <= now);
        due.extend(again.map(|(lane, _)| lane.clone()).take(REQUESTS_MAX));
        let mut requests = Vec::new();
        for lane in due {
            let Some(quota) = self.lanes.get_mut(&lane).filter(|quota| !quota.is_requested) else {
                continue;
            };
            let load = load(&lane).sum();
            let is_wanted = now.saturating_sub(quota.wanted_at) < UNUSED_KEPT_FOR;
            if load == 0 && !is_wanted {
                quota.slots = 0;
            }
            let fit = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            if is_wanted && quota.wanted.min(quota.cap) > quota.slots {
                let all = load.saturating_add(waiting(&lane).sum());
                quota.wanted = quota.wanted.max(all);
            }
            quota.is_requested = true;
            quota.requested = if is_wanted { quota.wanted.max(load) } else { load };
            requests.push(Ask {
                cap: fit(quota.cap),
                per_second: quota.whole_rate,
                keep: fit(load.max(quota.slots)),
                wanted: fit(quota.requested),
                lane,
            });
        }
        requests
    }

    /// Applies the grant for a request; `None` if no reply came. Returns `true` if the lane can have
    /// more now.
    pub(super) fn apply_grant(
        &mut self,
        request: &Ask,
        grant: Option<Allotment>,
        now: Duration,
    ) -> bool {
        let Some(quota) = self.lanes.get_mut(&request.lane) else {
            return false;
        };
        quota.is_requested = false;
        let Some(Allotment { slots, per_second }) = grant else {
            (quota.next_request_at, quota.requested) = (now + RETRY_AFTER, 0);
            return false;
        };
        if request.keep == 0 && request.wanted == 0 {
            // The lane was wanted again while its quota was given up: request a new one.
            if now.saturating_sub(quota.wanted_at) < UNUSED_KEPT_FOR {
                quota.next_request_at = now;
                self.urgent.push(request.lane.clone());
            } else {
                self.lanes.remove(&request.lane);
            }
            return false;
        }
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        let more = slots > quota.slots || (slots > 0 && per_second > quota.rate);
        let must_release = slots < usize::try_from(request.keep).unwrap_or(usize::MAX);
        (quota.slots, quota.rate) = (slots, per_second);
        quota.next_request_at = now + if must_release { RETRY_AFTER } else { RENEW_AFTER };
        more
    }

    /// Returns the time of the next request.
    pub(super) fn next_request_at(&self) -> Option<Duration> {
        if !self.urgent.is_empty() {
            return Some(Duration::ZERO);
        }
        let waiting = self.lanes.values().filter(|quota| !quota.is_requested);
        waiting.map(|quota| quota.next_request_at).min()
    }
}

impl Lanes {
    /// Returns the quota requests to be sent now.
    pub(crate) fn quota_requests(&mut self, now: Duration) -> Vec<Ask> {
        let Some(quotas) = &mut self.quotas else {
            return Vec::new();
        };
        let (lanes, backlogs) = (&self.lanes, &self.backlogs);
        let load = |lane: &Lane| lanes.get(lane).map_or(Load::default(), |state| state.load);
        let waiting = |lane: &Lane| {
            let mut all = Demand::default();
            for waiting in backlogs.iter().filter_map(|backlog| backlog.get(lane)) {
                all.add(waiting.demand);
            }
            all
        };
        quotas.quota_requests(now, load, waiting)
    }

    /// Returns `true` if a lane wants more than its quota, and its request is not sent yet.
    pub(crate) fn has_urgent_requests(&self) -> bool {
        self.quotas.as_ref().is_some_and(|quotas| !quotas.urgent.is_empty())
    }

    /// Returns the time of the next request; `None` if there is none.
    pub(crate) fn next_request_at(&self) -> Option<Duration> {
        self.quotas.as_ref()?.next_request_at()
    }

    /// Applies the grant for a request; `None` if no reply came. Returns the shards that may start more.
    pub(crate) fn apply_grant(
        &mut self,
        request: &Ask,
        grant: Option<Allotment>,
        now: Duration,
    ) -> Vec<ShardId> {
        let quotas = self.quotas.as_mut();
        if quotas.is_some_and(|quotas| quotas.apply_grant(request, grant, now)) {
            return self.shards_where(|backlog| backlog.slot_freed(&request.lane));
        }
        Vec::new()
    }

    /// Drops all quotas: a new member id has none. All lanes request theirs again.
    pub(crate) fn drop_quotas(&mut self, now: Duration) {
        for quota in self.quotas.iter_mut().flat_map(|quotas| quotas.lanes.values_mut()) {
            (quota.slots, quota.rate) = (0, quota.whole_rate.map(|_| 0));
            (quota.is_requested, quota.next_request_at) = (false, now);
        }
    }
}

#[cfg(test)]
mod tests;
