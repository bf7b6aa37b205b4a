//! A lane's limits where several nodes share the store: what this node was allotted of them. Pure.
//!
//! Caps and rates are of all nodes together, so before a node begins anything in a lane it asks the
//! lane's home for a part (`duly_store::Deployment::allot`). It asks when a lane wants more than it
//! has, then every [`AGAIN_AFTER`] for as long as it has some, and gives up what it had no use for
//! over [`KEPT_FOR`]. Until the answer is there it begins nothing beyond what it *keeps*, which the
//! ask says; so all nodes together never have more under way than the cap.

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

/// Time between two asks of a lane.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Time between two asks of a lane that gives something back, or that nobody answered.
const SOON_AFTER: Duration = Duration::from_millis(50);
/// How long a part is kept that nobody has use for: a timer often has another behind it.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Asks of one round.
pub(crate) const ASKS_MAX: usize = 1_000;

/// What this node was allotted, lane by lane.
#[derive(Debug, Default)]
pub(super) struct Allotments {
    lanes: FxHashMap<Lane, Allot>,
    /// Lanes that want more than they have, to be asked for at once.
    urgent: Vec<Lane>,
}

#[derive(Debug, Clone, Copy)]
struct Allot {
    slots: usize,
    rate: Option<u32>,
    /// Under way and wanted when it was last planned, and when that was.
    wanted: usize,
    wanted_at: Duration,
    /// What was wanted when it was last asked for.
    asked_for: usize,
    /// The limits of all nodes together.
    cap: usize,
    whole_rate: Option<u32>,
    ask_at: Duration,
    is_asked: bool,
}

impl Allotments {
    /// The share of a lane with what this node was allotted in the place of the limits of all; more is
    /// asked for when that is less than the lane wants.
    pub(super) fn limit(
        &mut self,
        lane: &Lane,
        share: Share,
        load: Load,
        demand: Demand,
        now: Duration,
    ) -> Share {
        let whole_rate = share.rate.map(Rate::per_second);
        let allot = self.lanes.entry(lane.clone()).or_insert(Allot {
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

    /// What is to be asked now; `load` says what a lane has under way, and `waiting` what all shards
    /// want of it beside that. They are planned one by one, and the home may be far away: what is
    /// short is asked for all of them at once.
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

    /// Takes the answer to an ask; `None` when there was none. Whether the lane can have more now.
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
            // Wanted again while it was given up: then it is asked for anew.
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

    /// Whether a lane wants more than it has, and it is not asked for yet.
    pub(super) fn asks_now(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// When something is to be asked.
    pub(super) fn ask_at(&self) -> Option<Duration> {
        if !self.urgent.is_empty() {
            return Some(Duration::ZERO);
        }
        let waiting = self.lanes.values().filter(|allot| !allot.is_asked);
        waiting.map(|allot| allot.ask_at).min()
    }

    /// Another run has nothing yet: everything is asked for anew.
    pub(super) fn begin_again(&mut self, now: Duration) {
        for allot in self.lanes.values_mut() {
            (allot.slots, allot.rate) = (0, allot.whole_rate.map(|_| 0));
            (allot.is_asked, allot.ask_at) = (false, now);
        }
    }
}

impl Lanes {
    /// Returns the asks for the lanes' homes that are to be sent now.
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

    /// Says whether something is to be asked at once.
    pub(crate) fn asks_now(&self) -> bool {
        self.allotments.as_ref().is_some_and(Allotments::asks_now)
    }

    /// Returns the moment of the next ask; `None` when nothing is to be asked.
    pub(crate) fn ask_at(&self) -> Option<Duration> {
        self.allotments.as_ref()?.ask_at()
    }

    /// Takes the answer to an ask, `None` when there was none. Answers the shards that may have use for
    /// it.
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

    /// This node goes on as another run, to which nothing was allotted yet.
    pub(crate) fn begin_again(&mut self, now: Duration) {
        if let Some(allotments) = &mut self.allotments {
            allotments.begin_again(now);
        }
    }
}

#[cfg(test)]
mod tests;
