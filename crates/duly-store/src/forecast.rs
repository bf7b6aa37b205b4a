//! Forecasts: the number of pending timers that become claimable in each period of the future.
//!
//! ```text
//!              now
//!   ────────────┼──────────────────────────────────────────────────────────────────► time
//!    overdue    │    │         │         │         │         │    later
//!          ├─ bucket 0┤─ bucket 1┤   …            ┤ last bucket
//!          from
//! ```
//!
//! 1. Buckets begin at multiples of their length since 1970-01-01T00:00:00Z, so forecasts with the same
//!    length can be compared.
//! 2. The first bucket contains `now`; it counts only timers after `now`.
//! 3. A timer counts at the time from which it can be claimed: its due time, or the time of its next
//!    attempt.
//! 4. A timer under a lease counts separately.
//! 5. So every pending timer is counted once, and the sum is the number of pending timers.
//!
//! Every store uses [`Forecast::count`]; it is the only code that assigns a time to a bucket.

use duly_core::{Millis, NamespaceName, Timestamp, invalid::check_range};

use crate::Result;

/// Maximum number of buckets of one forecast; a call with more is refused.
pub const BUCKETS_MAX: usize = 1_000;
/// Shortest bucket.
pub const BUCKET_MIN: Millis = Millis::from_secs(1);
/// Longest bucket: 366 days.
pub const BUCKET_MAX: Millis = Millis::from_secs(366 * 24 * 3_600);

/// A request for a forecast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForecastRequest {
    /// The namespace.
    pub namespace: NamespaceName,
    /// Length of a bucket, [`BUCKET_MIN`] to [`BUCKET_MAX`].
    pub bucket: Millis,
    /// Number of buckets, 1 to [`BUCKETS_MAX`].
    pub count: usize,
}

impl ForecastRequest {
    /// Checks the limits of the request.
    ///
    /// # Errors
    /// `Invalid`, which names `bucket` or `count`.
    pub fn check(&self) -> Result<()> {
        self.bucket.within(BUCKET_MIN, BUCKET_MAX).map_err(|invalid| invalid.within("bucket"))?;
        Ok(check_range("count", self.count, 1..=BUCKETS_MAX)?)
    }
}

/// The forecast of one shard, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// The time of the forecast.
    pub now: Timestamp,
    /// The start of the first bucket; at most one bucket before `now`.
    pub from: Timestamp,
    /// Length of a bucket.
    pub bucket: Millis,
    /// Timers that are claimable by `now`.
    pub overdue: u64,
    /// Timers under a lease.
    pub in_flight: u64,
    /// Timers that become claimable within each bucket, after `now`.
    pub buckets: Vec<u64>,
    /// Timers that become claimable at the end of the last bucket or later.
    pub later: u64,
}

impl Forecast {
    /// Creates a forecast without timers. The request must have been checked.
    pub fn new(request: &ForecastRequest, now: Timestamp) -> Self {
        let bucket = request.bucket.max(BUCKET_MIN);
        let from = Timestamp::saturating_from_unix_ms(now.unix_ms() / bucket.ms() * bucket.ms());
        let buckets = vec![0; request.count];
        Self { now, from, bucket, overdue: 0, in_flight: 0, buckets, later: 0 }
    }

    /// Counts a timer without a lease that can be claimed at `at_ms`.
    #[inline]
    pub fn count(&mut self, at_ms: u64) {
        if at_ms <= self.now.unix_ms() {
            self.overdue += 1;
            return;
        }
        let number = (at_ms - self.from.unix_ms()) / self.bucket.ms();
        match usize::try_from(number).ok().and_then(|number| self.buckets.get_mut(number)) {
            Some(count) => *count += 1,
            None => self.later += 1,
        }
    }

    /// Returns the sum of the forecasts of two shards. It has the buckets of the forecast that is behind,
    /// because the clock of the other may be in a later bucket.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let (mut behind, ahead) =
            if other.from < self.from { (other, self) } else { (self, other) };
        let offset = ahead.from.saturating_since(behind.from).ms() / behind.bucket.ms().max(1);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        for (number, count) in ahead.buckets.iter().enumerate() {
            match behind.buckets.get_mut(number.saturating_add(offset)) {
                Some(sum) => *sum += count,
                None => behind.later += count,
            }
        }
        behind.later += ahead.later;
        behind.overdue += ahead.overdue;
        behind.in_flight += ahead.in_flight;
        behind
    }

    /// Returns the number of timers that are counted.
    pub fn pending(&self) -> u64 {
        self.overdue + self.in_flight + self.buckets.iter().sum::<u64>() + self.later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bucket_ms: u64, count: usize) -> ForecastRequest {
        let namespace = NamespaceName::new("shop").expect("a name that is allowed");
        ForecastRequest { namespace, bucket: Millis::from_ms(bucket_ms), count }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::saturating_from_unix_ms(ms)
    }

    #[test]
    fn buckets_are_aligned_and_now_itself_is_overdue() {
        let mut forecast = Forecast::new(&request(60_000, 2), at(90_500));
        assert_eq!(forecast.from, at(60_000));
        for at_ms in [0, 60_000, 90_500, 90_501, 119_999, 120_000, 179_999, 180_000, u64::MAX >> 1]
        {
            forecast.count(at_ms);
        }
        assert_eq!(forecast.overdue, 3);
        assert_eq!(forecast.buckets, [2, 2]);
        assert_eq!(forecast.later, 2);
        assert_eq!(forecast.pending(), 9);
    }

    #[test]
    fn forecasts_of_clocks_that_differ_are_laid_side_by_side() {
        let shard = |now_ms, times: &[u64]| {
            let mut forecast = Forecast::new(&request(1_000, 3), at(now_ms));
            times.iter().for_each(|at_ms| forecast.count(*at_ms));
            forecast
        };
        let behind = shard(999, &[500, 1_500, 2_500, 3_500]);
        let ahead = shard(1_001, &[900, 1_600, 3_999]);
        let merged = behind.clone().merge(ahead.clone());
        assert_eq!((merged.now, merged.from), (at(999), at(0)));
        assert_eq!((merged.overdue, merged.buckets.as_slice()), (2, &[0, 2, 1][..]));
        assert_eq!((merged.later, merged.pending()), (2, 7));
        assert_eq!(ahead.merge(behind), merged);
    }

    #[test]
    fn requests_past_their_limits_are_refused_by_name() {
        for (bucket_ms, count, field) in [
            (999, 1, "bucket"),
            (BUCKET_MAX.ms() + 1, 1, "bucket"),
            (1_000, 0, "count"),
            (1_000, BUCKETS_MAX + 1, "count"),
        ] {
            let error = request(bucket_ms, count).check().expect_err("it is past a limit");
            assert!(error.to_string().contains(field), "{error}");
        }
        request(1_000, BUCKETS_MAX).check().expect("the limits themselves are allowed");
        request(BUCKET_MAX.ms(), 1).check().expect("the limits themselves are allowed");
    }
}
