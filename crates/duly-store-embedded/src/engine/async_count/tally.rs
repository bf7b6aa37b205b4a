//! The counts of a walk: forecasts, and the earliest times ahead.

use std::collections::BinaryHeap;

use duly_core::Timestamp;
use duly_store::{Forecast, ForecastRequest, Result};
use tokio::sync::oneshot::Sender;

use crate::index::{AttemptKind, Claimable, PackedKey};

/// Most of the earliest times that are kept. As many may be cancelled or passed by the clock during a
/// walk without an effect on its result.
const EARLIEST_MAX: usize = 1_024;

/// The clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountMoment {
    pub(super) wall_ms: u64,
    pub(super) steady_ms: u64,
}

impl CountMoment {
    /// Returns the time at which a timer is claimable, by the wall clock. A retry whose wait is over is
    /// claimable now.
    #[inline]
    pub(super) const fn wall_ms_of(self, claimable: Claimable) -> u64 {
        match claimable.kind {
            AttemptKind::First => claimable.at_ms,
            AttemptKind::Retry => self.wall_ms + claimable.at_ms.saturating_sub(self.steady_ms),
        }
    }
}

/// A forecast that callers wait for.
#[derive(Debug)]
pub(super) struct ForecastCount {
    pub(super) request: ForecastRequest,
    pub(super) replies: Vec<Sender<Result<Option<Forecast>>>>,
    /// Made when the walk begins.
    forecast: Option<Box<Forecast>>,
}

impl ForecastCount {
    pub(super) fn new(request: ForecastRequest, reply: Sender<Result<Option<Forecast>>>) -> Self {
        Self { request, replies: vec![reply], forecast: None }
    }

    fn at(&mut self, moment: CountMoment) -> &mut Forecast {
        self.forecast.get_or_insert_with(|| {
            let now = Timestamp::saturating_from_unix_ms(moment.wall_ms);
            Box::new(Forecast::new(&self.request, now))
        })
    }

    #[inline]
    pub(super) fn count(&mut self, moment: CountMoment, at_ms: u64) {
        self.at(moment).count(at_ms);
    }

    /// Counts again a timer that was counted as overdue.
    pub(super) fn recount(&mut self, moment: CountMoment, at_ms: u64) {
        let forecast = self.at(moment);
        forecast.overdue = forecast.overdue.saturating_sub(1);
        forecast.count(at_ms);
    }

    pub(super) fn reply_all(mut self, moment: CountMoment, in_flight: u64) {
        let forecast = self.at(moment);
        forecast.in_flight = in_flight;
        let forecast = forecast.clone();
        self.reply(&Ok(Some(forecast)));
    }

    pub(super) fn reply(self, answer: &Result<Option<Forecast>>) {
        for reply in self.replies {
            drop(reply.send(answer.clone()));
        }
    }
}

/// The earliest times ahead with their timers, the last of them on top.
#[derive(Debug, Default)]
pub(super) struct EarliestAhead {
    kept: BinaryHeap<(u64, PackedKey)>,
    is_cut: bool,
}

impl EarliestAhead {
    #[inline]
    pub(super) fn offer(&mut self, at_ms: u64, key: PackedKey) {
        if self.kept.len() < EARLIEST_MAX {
            self.kept.push((at_ms, key));
            return;
        }
        self.is_cut = true;
        if let Some(mut last) = self.kept.peek_mut()
            && (at_ms, key) < *last
        {
            *last = (at_ms, key);
        }
    }

    /// Returns the earliest time that is still ahead. `at_now` returns the current time of a timer. If
    /// all kept times have passed, the next one is later than they are, by an unknown amount.
    pub(super) fn first(
        self,
        now_ms: u64,
        at_now: impl Fn(u64, PackedKey) -> Option<u64>,
    ) -> Option<Timestamp> {
        let last_ms = self.kept.peek().map(|(at_ms, _)| *at_ms);
        let kept = self.kept.into_iter().filter_map(|(at_ms, key)| at_now(at_ms, key));
        let first_ms = kept.filter(|at_ms| *at_ms > now_ms).min();
        let beyond_ms = last_ms.filter(|_| self.is_cut).map(|last_ms| last_ms.max(now_ms + 1));
        first_ms.or(beyond_ms).map(Timestamp::saturating_from_unix_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u64) -> PackedKey {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&n.to_le_bytes());
        key
    }

    #[test]
    fn earliest_future_time_is_returned() {
        let mut earliest = EarliestAhead::default();
        let many = 5 * EARLIEST_MAX as u64;
        // In no order.
        (0..many).map(|n| 1_000 + n * 7_919 % many).for_each(|at| earliest.offer(at, key(at)));
        let moved = |at_ms, _| match at_ms {
            1_000..1_010 => None,
            at_ms => Some(at_ms + 5),
        };
        let first = |at: &EarliestAhead| at.kept.clone().into_sorted_vec()[0].0;
        assert_eq!((first(&earliest), earliest.kept.len()), (1_000, EARLIEST_MAX));
        let told = earliest.first(500, moved);
        assert_eq!(told.map(Timestamp::unix_ms), Some(1_015));
    }

    #[test]
    fn next_time_is_bounded_after_all_kept_times_passed() {
        let mut all = EarliestAhead::default();
        all.offer(10, key(1));
        assert_eq!(all.first(20, |at_ms, _| Some(at_ms)), None, "there is nothing else");
        let mut cut = EarliestAhead::default();
        (0..=EARLIEST_MAX as u64).for_each(|at_ms| cut.offer(at_ms, key(at_ms)));
        let told = cut.first(5_000, |_, _| None);
        assert_eq!(told.map(Timestamp::unix_ms), Some(5_001));
    }
}
