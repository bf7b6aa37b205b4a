//! The quotas of this node: its parts of the lanes' limits, where several nodes share the store. Pure.
//!
//! Caps and rates apply to all nodes together. So before a node starts anything in a lane it sends a
//! quota request to the lane's coordinator shard (`duly_store::Deployment::allot`):
//!
//! 1. It requests more at once when a lane wants more than its quota.
//! 2. It renews the request every [`AGAIN_AFTER`] while it has a quota.
//! 3. It gives up a quota that it did not use for [`KEPT_FOR`].
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
    share::{Demand, Load, Share},
};

/// Time between two quota requests of a lane.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Time to the next request of a lane that must give slots back, or whose last request got no reply.
const SOON_AFTER: Duration = Duration::from_millis(50);
/// Time for which an unused quota is kept: often another timer follows soon.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Most quota requests in one round.
pub(crate) const ASKS_MAX: usize = 1_000;

/// The quotas of this node, by lane.
#[derive(Debug, Default)]
pub(super) struct LaneQuotas {
    lanes: FxHashMap<Lane, Allocate>,
    /// Lanes that want more than their quota, to be requested at once.
    urgent: Vec<Lane>,
}

#[derive(Debug, Clone, Copy)]
struct Allocate {
    slots: usize,
    rate: Option<u32>,
    /// Slots held and wanted when the lane was last planned. `wanted_at` is the time of that.
    wanted: usize,
    wanted_at: Duration,
    /// Slots wanted by the last request.
    asked_for: usize,
    /// The limits of all nodes together.
    cap: usize,
    whole_rate: Option<u32>,
    ask_at: Duration,
    is_asked: bool,
}

impl LaneQuotas {
    /// Returns the lane's limits with this node's quota in place of the limits of all nodes. Marks the
    /// lane as urgent if the quota is less than the lane wants.
    pub(super) fn limit(
        &mut self,
        lane: &Lane,
        share: Share,
        load: Load,
        demand: Demand,
        now: Duration,
    ) -> Share {
        let whole_rate = share.rate.map(Rate::per_second);
        let allot = self.lanes.entry(lane.clone()).or_insert(Allocate {
            slots: 0,
            rate: whole_rate.map(|_| 0),
            wanted: 0,
            wanted_at: now,
            asked_for: 0,
            cap: share.cap,
            whole_rate,
            ask_at: now,
            is_asked: false,
        });
        (allot.cap, allot.whole_rate) = (share.cap, whole_rate);
        (allot.wanted, allot.wanted_at) = (load.sum().saturating_add(demand.sum()), now);
        let is_short = allot.wanted.min(share.cap) > allot.slots;
        if is_short && !allot.is_asked && allot.wanted > allot.asked_for {
            self.urgent.push(lane.clone());
        }
        let cap = share.cap.min(allot.slots);
        match (share.rate, allot.rate) {
            (Some(_), Some(0)) => Share { cap: 0, ..share },
            (Some(_), Some(part)) => Share { cap, rate: Some(Rate::smooth(part)), ..share },
            _ => Share { cap, ..share },
        }
    }

    /// Returns the quota requests to be sent now. `load` returns the slots that a lane holds, `waiting`
    /// the demand of all its shards in addition. Shards are planned one by one, and the coordinator
    /// shard may be far away. So one request covers the demand of all shards.
    pub(super) fn asks(
        &mut self,
        now: Duration,
        load: impl Fn(&Lane) -> Load,
        waiting: impl Fn(&Lane) -> Demand,
    ) -> Vec<Ask> {
        let mut due = std::mem::take(&mut self.urgent);
        let again = self.lanes.iter().filter(|(_, allot)| !allot.is_asked && allot.ask_at <= now);
        due.extend(again.map(|(lane, _)| lane.clone()).take(ASKS_MAX));
        let mut asks = Vec::new();
        for lane in due {
            let Some(allot) = self.lanes.get_mut(&lane).filter(|allot| !allot.is_asked) else {
                continue;
            };
            let load = load(&lane).sum();
            let is_wanted = now.saturating_sub(allot.wanted_at) < KEPT_FOR;
            if load == 0 && !is_wanted {
                allot.slots = 0;
            }
            let fit = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            if is_wanted && allot.wanted.min(allot.cap) > allot.slots {
                let all = load.saturating_add(waiting(&lane).sum());
                allot.wanted = allot.wanted.max(all);
            }
            allot.is_asked = true;
            allot.asked_for = if is_wanted { allot.wanted.max(load) } else { load };
            asks.push(Ask {
                cap: fit(allot.cap),
                per_second: allot.whole_rate,
                keep: fit(load.max(allot.slots)),
                wanted: fit(allot.asked_for),
                lane,
            });
        }
        asks
    }

    /// Applies the grant for a request; `None` if no reply came. Returns `true` if the lane can have
    /// more now.
    pub(super) fn allotted(&mut self, ask: &Ask, answer: Option<Allotment>, now: Duration) -> bool {
        let Some(allot) = self.lanes.get_mut(&ask.lane) else {
            return false;
        };
        allot.is_asked = false;
        let Some(Allotment { slots, per_second }) = answer else {
            (allot.ask_at, allot.asked_for) = (now + SOON_AFTER, 0);
            return false;
        };
        if ask.keep == 0 && ask.wanted == 0 {
            // The lane was wanted again while its quota was given up: request a new one.
            if now.saturating_sub(allot.wanted_at) < KEPT_FOR {
                allot.ask_at = now;
                self.urgent.push(ask.lane.clone());
            } else {
                self.lanes.remove(&ask.lane);
            }
            return false;
        }
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        let more = slots > allot.slots || (slots > 0 && per_second > allot.rate);
        let gives_back = slots < usize::try_from(ask.keep).unwrap_or(usize::MAX);
        (allot.slots, allot.rate) = (slots, per_second);
        allot.ask_at = now + if gives_back { SOON_AFTER } else { AGAIN_AFTER };
        more
    }

    /// Returns `true` if a lane wants more than its quota, and its request is not sent yet.
    pub(super) fn asks_now(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Returns the time of the next request.
    pub(super) fn ask_at(&self) -> Option<Duration> {
        if !self.urgent.is_empty() {
            return Some(Duration::ZERO);
        }
        let waiting = self.lanes.values().filter(|allot| !allot.is_asked);
        waiting.map(|allot| allot.ask_at).min()
    }

    /// Drops all quotas: a new member id has none. All lanes request theirs again.
    pub(super) fn begin_again(&mut self, now: Duration) {
        for allot in self.lanes.values_mut() {
            (allot.slots, allot.rate) = (0, allot.whole_rate.map(|_| 0));
            (allot.is_asked, allot.ask_at) = (false, now);
        }
    }
}

impl Lanes {
    /// Returns the quota requests to be sent now.
    pub(crate) fn asks(&mut self, now: Duration) -> Vec<Ask> {
        let Some(allotments) = &mut self.allotments else {
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
        allotments.asks(now, load, waiting)
    }

    /// Returns `true` if a request must be sent at once.
    pub(crate) fn asks_now(&self) -> bool {
        self.allotments.as_ref().is_some_and(LaneQuotas::asks_now)
    }

    /// Returns the time of the next request; `None` if there is none.
    pub(crate) fn ask_at(&self) -> Option<Duration> {
        self.allotments.as_ref()?.ask_at()
    }

    /// Applies the grant for a request; `None` if no reply came. Returns the shards that may start more.
    pub(crate) fn allotted(
        &mut self,
        ask: &Ask,
        answer: Option<Allotment>,
        now: Duration,
    ) -> Vec<ShardId> {
        let allotments = self.allotments.as_mut();
        if allotments.is_some_and(|allotments| allotments.allotted(ask, answer, now)) {
            return self.shards_where(|backlog| backlog.freed(&ask.lane));
        }
        Vec::new()
    }

    /// Drops all quotas, because the node continues with a new member id.
    pub(crate) fn begin_again(&mut self, now: Duration) {
        if let Some(allotments) = &mut self.allotments {
            allotments.begin_again(now);
        }
    }
}

#[cfg(test)]
mod tests;
