//! The state of one lane.

use std::time::Duration;

use duly_core::rate::{Gcra, Rate};
use duly_store::{Lane, LaneClaim};

use super::{
    Admission, AttemptKind, Planned, Receiver,
    breaker::Breaker,
    fair_share::{LaneLimits, Load},
};

/// Shortest wait for a rate: attempts that the rate allows within it are claimed together.
const RATE_GRAIN: Duration = Duration::from_millis(10);

/// The state of one lane: the slots it holds, and the health of its receiver.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LaneState {
    pub(super) load: Load,
    /// The kind that got the last slot, so that the kinds alternate in a lane with one slot.
    pub(super) last: AttemptKind,
    pub(super) breaker: Breaker,
    started: Gcra,
    /// `true`: its firings went to the fallback when it was last planned.
    pub(super) is_diverted: bool,
    /// Its namespace's limits when it was last planned.
    pub(super) limits: Option<LaneLimits>,
}

impl LaneState {
    /// Creates the state of a lane that never held a slot.
    pub(super) fn unknown(limits: LaneLimits) -> Self {
        Self { limits: Some(limits), ..Self::default() }
    }

    /// Returns how many attempts the rate allows to start now.
    pub(super) fn rate_left(&self, rate: Option<Rate>, now: Duration) -> usize {
        rate.map_or(usize::MAX, |rate| {
            usize::try_from(self.started.available(rate, now)).unwrap_or(usize::MAX)
        })
    }

    /// Returns the time at which the rate allows the next attempt if `more` start now.
    pub(super) fn rate_next_at(&self, rate: Option<Rate>, now: Duration, more: usize) -> Duration {
        let Some(rate) = rate else {
            return now;
        };
        let mut after = self.started;
        after.take(rate, now, more as u64);
        now + after.next_in(rate, now).max(RATE_GRAIN)
    }

    /// Reserves slots and rate tokens for attempts that a breaker admitted.
    pub(super) fn reserve(
        &mut self,
        lane: Lane,
        slots: Load,
        limits: LaneLimits,
        (to, admission): (Receiver, Admission),
        now: Duration,
    ) -> Planned {
        self.load.add(slots);
        self.last = if slots.retry > 0 { AttemptKind::Retry } else { AttemptKind::First };
        self.limits = Some(limits);
        let mark = limits.rate.map(|rate| self.started.take(rate, now, slots.sum() as u64));
        let claim = LaneClaim { lane, first_max: slots.first, retry_max: slots.retry };
        Planned { claim, admission, to, limits, mark }
    }

    /// Returns the rate tokens of `count` attempts that were not started.
    pub(super) fn release_rate(&mut self, planned: &Planned, count: usize) {
        if let (Some(rate), Some(mark)) = (planned.limits.rate, planned.mark) {
            self.started.release(rate, mark, count as u64);
        }
    }

    /// Returns `true` if the state has no information, so that a lane without slots can be dropped.
    pub(super) fn is_new(&self, now: Duration) -> bool {
        self.breaker.is_new() && self.started.is_idle(now)
    }
}
