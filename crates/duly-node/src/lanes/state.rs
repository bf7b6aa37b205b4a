//! What is known of one lane.

use std::time::Duration;

use duly_core::rate::{Gcra, Rate};
use duly_store::{Lane, LaneClaim};

use super::{
    Kind, Pass, Planned, Receiver,
    breaker::Breaker,
    share::{Load, Share},
};

/// Shortest wait for a rate: what it lets through meanwhile is claimed together.
const RATE_GRAIN: Duration = Duration::from_millis(10);

/// One lane: what it holds, and what its receiver has shown.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct State {
    pub(super) load: Load,
    /// The kind that got the last slot, so that a lane of one slot takes turns.
    pub(super) last: Kind,
    pub(super) breaker: Breaker,
    begun: Gcra,
    /// Whether its firings went to the fallback when it was last planned.
    pub(super) is_diverted: bool,
    /// Its namespace's limits when it was last planned.
    pub(super) share: Option<Share>,
}

impl State {
    /// Of a lane that never held a slot.
    pub(super) fn unknown(share: Share) -> Self {
        Self { share: Some(share), ..Self::default() }
    }

    /// How many attempts the rate lets begin now.
    pub(super) fn rate_left(&self, rate: Option<Rate>, now: Duration) -> usize {
        rate.map_or(usize::MAX, |rate| {
            usize::try_from(self.begun.available(rate, now)).unwrap_or(usize::MAX)
        })
    }

    /// When the rate lets the next begin after `more` begin now.
    pub(super) fn rate_next_at(&self, rate: Option<Rate>, now: Duration, more: usize) -> Duration {
        let Some(rate) = rate else {
            return now;
        };
        let mut after = self.begun;
        after.take(rate, now, more as u64);
        now + after.next_in(rate, now).max(RATE_GRAIN)
    }

    /// Holds slots, of the rate too, for attempts that a breaker let through.
    pub(super) fn begin(
        &mut self,
        lane: Lane,
        slots: Load,
        share: Share,
        (to, pass): (Receiver, Pass),
        now: Duration,
    ) -> Planned {
        self.load.add(slots);
        self.last = if slots.retry > 0 { Kind::Retry } else { Kind::First };
        self.share = Some(share);
        let mark = share.rate.map(|rate| self.begun.take(rate, now, slots.sum() as u64));
        let claim = LaneClaim { lane, first_max: slots.first, retry_max: slots.retry };
        Planned { claim, pass, to, share, mark }
    }

    /// Gives `count` attempts that were not begun back to the rate.
    pub(super) fn give_back(&mut self, planned: &Planned, count: usize) {
        if let (Some(rate), Some(mark)) = (planned.share.rate, planned.mark) {
            self.begun.give_back(rate, mark, count as u64);
        }
    }

    /// Whether nothing would be lost by forgetting it while it holds nothing.
    pub(super) fn is_new(&self, now: Duration) -> bool {
        self.breaker.is_new() && self.begun.is_idle(now)
    }
}
