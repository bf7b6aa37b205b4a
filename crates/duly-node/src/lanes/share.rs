//! The arithmetic of shares: what one lane may take now.

use duly_core::Settings;
use duly_store::Firing;

/// First attempt or retry: the two kinds that are kept from starving each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Kind {
    /// The first attempt of an occurrence.
    First,
    /// Any later attempt.
    #[default]
    Retry,
}

impl Kind {
    /// The kind of a claimed firing.
    pub(crate) fn of(firing: &Firing) -> Self {
        Self::of_attempt(firing.attempt)
    }

    /// The kind of an attempt by its number, from 1.
    pub(crate) const fn of_attempt(attempt: u32) -> Self {
        if attempt <= 1 { Self::First } else { Self::Retry }
    }

    /// Its name in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
        }
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

    pub(super) const fn one(kind: Kind) -> Self {
        match kind {
            Kind::First => Self::new(1, 0),
            Kind::Retry => Self::new(0, 1),
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

    /// At most `max` slots in all, first attempts first.
    pub(super) fn at_most(self, max: usize) -> Self {
        let first = self.first.min(max);
        Self::new(first, self.retry.min(max - first))
    }
}

/// What a lane wants.
pub(super) type Demand = Load;

impl Demand {
    pub(super) fn wanted(first: u64, retry: u64) -> Self {
        let fit = |n: u64| usize::try_from(n).unwrap_or(usize::MAX / 4);
        Self::new(fit(first), fit(retry))
    }
}

/// What a namespace's lanes may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Attempts under way at once, per lane.
    pub(super) cap: usize,
    /// Its share when workers are scarce.
    pub(super) weight: usize,
}

impl Default for Share {
    /// What is safe while nothing is known: every cap is at least 1.
    fn default() -> Self {
        Self { cap: 1, weight: 1 }
    }
}

impl Share {
    pub(super) fn of(settings: &Settings) -> Self {
        let fit = |n: u32| usize::try_from(n).unwrap_or(usize::MAX).max(1);
        Self { cap: fit(settings.limits.max_in_flight), weight: fit(settings.weight) }
    }
}

/// What keeps a lane from having more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Its own cap: only its own slots can help.
    Lane,
    /// The workers of the node: any freed slot can help.
    Workers,
}

/// The answer to a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    /// What it may take.
    pub(super) slots: Load,
    /// What kept it from more, if it wanted more.
    pub(super) limit: Limit,
}

/// The situation in which a lane asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) share: Share,
    pub(super) lane: Load,
    pub(super) workers: Load,
    pub(super) workers_max: usize,
}

impl Room {
    /// What the lane may take of `demand`. `last` is the kind that got its last slot.
    pub(super) fn allow(self, demand: Demand, last: Kind) -> Allowed {
        let cap = self.share.cap;
        let by_lane = cap.saturating_sub(self.lane.sum());
        let free = self.workers_max.saturating_sub(self.workers.sum());
        let room = by_lane.min(free);
        let first_room = room.min(self.fair(free, self.lane.first));

        // Half of the slots are out of reach for retries, in the lane and in the node.
        let retry_cap = cap - cap / 2;
        let retry_workers_max = (self.workers_max / 2).max(1);
        let retry_free = free.min(retry_workers_max.saturating_sub(self.workers.retry));
        let retry_room = room
            .min(retry_cap.saturating_sub(self.lane.retry))
            .min(self.fair(retry_free, self.lane.retry));
        let retry_wanted = demand.retry.min(retry_room);

        // A quarter of what is free goes to retries even when first attempts want all of it; of a
        // single slot, every other turn.
        let kept_for_retries = match (room, last) {
            (1, Kind::First) => 1,
            (1, Kind::Retry) => 0,
            _ => room / 4,
        }
        .min(retry_wanted);
        let first = demand.first.min(first_room).min(room - kept_for_retries);
        let retry = retry_wanted.min(room - first);

        let lane_full = first + retry == by_lane;
        let retries_full = first == demand.first && self.lane.retry + retry >= retry_cap;
        Allowed {
            slots: Load::new(first, retry),
            limit: if lane_full || retries_full { Limit::Lane } else { Limit::Workers },
        }
    }

    /// Largest k with `held + k <= weight / 2 * (free - k)`, and one for a lane that holds none.
    fn fair(self, free: usize, held: usize) -> usize {
        let fair = free.saturating_mul(self.share.weight).saturating_sub(held.saturating_mul(2))
            / (self.share.weight.saturating_add(2));
        let least = usize::from(held == 0).min(free);
        fair.min(free).max(least)
    }
}
