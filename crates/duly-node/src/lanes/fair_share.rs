//! The arithmetic of fair shares: how many slots one lane may take now.

use std::time::Duration;

use duly_core::{Settings, rate::Rate};

/// Dynamic threshold of a namespace: it gets more only while it holds less than this many times the free
/// workers, per unit of its weight.
pub(super) const NAMESPACE_PART: usize = 2;
/// Dynamic threshold of a lane with siblings: it gets more only while it holds less than this many times
/// the free part of its namespace.
const LANE_PART: usize = 2;
/// While more than `1 / RESERVE_PART` of the workers are free, each lane can have one, regardless of the
/// slots that its namespace holds.
const RESERVE_PART: usize = 4;
/// Bound of a round-robin turn: in its turn a namespace can hold as many slots as its weight, up to
/// `1 / TURN_PART` of the workers, regardless of the threshold. Otherwise weights would have no effect
/// while all namespaces wait.
const TURN_PART: usize = 8;

duly_core::named_enum! {
    /// First attempt or retry: two kinds of firings, neither of which may starve the other.
    #[derive(Default)]
    pub enum AttemptKind {
        /// The first attempt of an occurrence.
        First = "first",
        /// Any later attempt.
        #[default]
        Retry = "retry",
    }
}

impl AttemptKind {
    /// Returns the kind of an attempt by its number, from 1.
    pub(crate) const fn of(attempt: u32) -> Self {
        if attempt <= 1 { Self::First } else { Self::Retry }
    }
}

/// Slots by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Load {
    pub(super) first: usize,
    pub(super) retry: usize,
}

impl Load {
    pub(super) const fn new(first: usize, retry: usize) -> Self {
        Self { first, retry }
    }

    pub(super) const fn one(kind: AttemptKind) -> Self {
        match kind {
            AttemptKind::First => Self::new(1, 0),
            AttemptKind::Retry => Self::new(0, 1),
        }
    }

    pub(super) const fn sum(self) -> usize {
        self.first + self.retry
    }

    pub(super) const fn covers(self, other: Self) -> bool {
        self.first >= other.first && self.retry >= other.retry
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self::new(self.first.saturating_sub(other.first), self.retry.saturating_sub(other.retry))
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.first += other.first;
        self.retry += other.retry;
    }

    pub(super) const fn subtract(&mut self, other: Self) {
        *self = self.minus(other);
    }
}

/// The slots that a lane wants.
pub(super) type Demand = Load;

impl Demand {
    pub(super) fn wanted(first: u64, retry: u64) -> Self {
        let fit = |n: u64| usize::try_from(n).unwrap_or(usize::MAX / 4);
        Self::new(fit(first), fit(retry))
    }
}

/// The limits of each lane of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneLimits {
    /// Attempts under way at once, per lane.
    pub(super) cap: usize,
    /// The namespace's weight when workers are scarce.
    pub(super) weight: usize,
    /// Attempts started per second, per lane.
    pub(super) rate: Option<Rate>,
    /// Time that the breaker must stay open before firings go to the namespace's fallback, if there is
    /// one.
    pub(super) fallback_after: Option<Duration>,
}

impl LaneLimits {
    pub(super) fn of(settings: &Settings) -> Self {
        let fit = |n: u32| usize::try_from(n).unwrap_or(usize::MAX).max(1);
        let configured = &settings.limits;
        Self {
            cap: fit(configured.max_in_flight),
            weight: fit(settings.weight),
            rate: configured.deliver_rate(),
            fallback_after: settings.fallback.as_ref().map(|fallback| fallback.after_open.to_std()),
        }
    }
}

/// The reason why a lane does not get more slots, and the event that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// Its own cap, or its breaker's probes: only a freed slot of its own helps.
    Lane,
    /// The workers of the node, or its namespace's round-robin credit: any freed slot helps.
    Workers,
    /// Shards that have waited longer for the lane's slots. A freed slot of its own helps, or this time,
    /// at which the reservation of those shards ends.
    ShardQueue(Duration),
    /// Its rate: it may start more at this time of the boot-time clock.
    Rate(Duration),
    /// Its open breaker: this time helps, or a success.
    Breaker(Duration),
}

impl WaitReason {
    /// Returns the time at which the limit ends, if it ends at a time.
    pub(super) const fn until(self) -> Option<Duration> {
        match self {
            Self::ShardQueue(at) | Self::Rate(at) | Self::Breaker(at) => Some(at),
            Self::Lane | Self::Workers => None,
        }
    }
}

/// The result for a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    /// The slots that the lane may take.
    pub(super) slots: Load,
    /// The reason why it does not get more, if it wants more: its own slots or the workers.
    pub(super) reason: WaitReason,
}

/// The reason for planning a lane: the round-robin turn of its namespace, or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundRobinTurn {
    Own,
    None,
}

/// The capacity that is available to a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneCapacity {
    pub(super) limits: LaneLimits,
    /// Slots that the lane holds.
    pub(super) lane: Load,
    /// Slots that all lanes of its namespace hold.
    pub(super) namespace: Load,
    /// Slots that all lanes hold.
    pub(super) workers: Load,
    pub(super) workers_max: usize,
    /// The namespace's turn among the starved.
    pub(super) turn: RoundRobinTurn,
    /// Upper limit for reasons outside of this arithmetic.
    pub(super) most: usize,
}

impl LaneCapacity {
    /// Returns the slots that the lane may take of `demand`. `last` is the kind that got its last slot.
    pub(super) fn allow(self, demand: Demand, last: AttemptKind) -> Allowed {
        let cap = self.limits.cap;
        let by_lane = cap.saturating_sub(self.lane.sum());
        let free = self.workers_max.saturating_sub(self.workers.sum());
        let capacity = by_lane.min(free).min(self.most);
        let first_capacity = capacity.min(self.fair(free, self.lane.first, self.namespace.first));

        // Retries may use only half of the slots, in the lane and in the node.
        let retry_cap = cap - cap / 2;
        let retry_workers_max = (self.workers_max / 2).max(1);
        let retry_free = free.min(retry_workers_max.saturating_sub(self.workers.retry));
        let retry_capacity = capacity
            .min(retry_cap.saturating_sub(self.lane.retry))
            .min(self.fair(retry_free, self.lane.retry, self.namespace.retry));
        let retry_wanted = demand.retry.min(retry_capacity);

        // Retries get a quarter of the free slots even if first attempts want all of them. A single slot
        // alternates between the kinds.
        let kept_for_retries = match (capacity, last) {
            (1, AttemptKind::First) => 1,
            (1, AttemptKind::Retry) => 0,
            _ => capacity / 4,
        }
        .min(retry_wanted);
        let first = demand.first.min(first_capacity).min(capacity - kept_for_retries);
        let retry = retry_wanted.min(capacity - first);

        let lane_full = first + retry == by_lane;
        let retries_full = first == demand.first && self.lane.retry + retry >= retry_cap;
        Allowed {
            slots: Load::new(first, retry),
            reason: if lane_full || retries_full { WaitReason::Lane } else { WaitReason::Workers },
        }
    }

    /// Returns the fair share of `free` workers for a lane that holds `lane` of them, in a namespace
    /// that holds `namespace`: the lane's part of its namespace's part. A namespace that holds none gets
    /// at least one. A lane that holds none gets at least one while workers are not scarce.
    fn fair(self, free: usize, lane: usize, namespace: usize) -> usize {
        let alpha = self.limits.weight.saturating_mul(NAMESPACE_PART);
        let by_namespace = part(free, namespace, alpha);
        let is_only = namespace == lane;
        let by_lane = if is_only { by_namespace } else { part(by_namespace, lane, LANE_PART) };
        let plenty = free > self.workers_max / RESERVE_PART;
        let is_new = lane == 0 && (is_only || by_namespace > 0 || plenty);
        let by_turn = match self.turn {
            RoundRobinTurn::None => 0,
            RoundRobinTurn::Own => {
                let most = self.limits.weight.min((self.workers_max / TURN_PART).max(1));
                most.saturating_sub(self.namespace.sum())
            }
        };
        by_lane.max(by_turn).max(usize::from(is_new)).min(free)
    }
}

/// Returns the largest k with `held + k <= alpha * (free - k)`: the more is held, the less is added.
const fn part(free: usize, held: usize, alpha: usize) -> usize {
    free.saturating_mul(alpha).saturating_sub(held) / alpha.saturating_add(1)
}
