//! A forecast in an answer.

use duly_core::Millis;
use duly_store::Forecast;
use serde::Serialize;
use utoipa::ToSchema;

use super::{DurationOut, TimeOut};

/// How many pending timers become claimable when.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Forecast)]
pub struct ForecastOut {
    /// The moment that it is seen from.
    #[schema(value_type = String, format = DateTime)]
    pub(super) now: TimeOut,
    /// Length of a bucket.
    #[schema(value_type = String, examples("1m"))]
    pub(super) bucket: DurationOut,
    /// Due already: claimable at `now`.
    pub(super) overdue: u64,
    /// Under a lease.
    pub(super) in_flight: u64,
    /// The buckets, one after the other; the first is the one that `now` lies in.
    pub(super) buckets: Vec<BucketOut>,
    /// Due when the last bucket ends, or after it.
    pub(super) later: u64,
    /// The sum of all.
    pub(super) pending: u64,
}

/// One bucket of a forecast.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Bucket)]
pub struct BucketOut {
    /// Where it begins: a multiple of its length since 1970-01-01T00:00:00Z.
    #[schema(value_type = String, format = DateTime)]
    pub(super) from: TimeOut,
    /// Timers that become claimable in it.
    pub(super) due: u64,
}

impl ForecastOut {
    /// The sum over the shards, seen from the first bucket of the one that is furthest behind;
    /// `None` of no shards.
    pub fn sum(shards: &[Forecast]) -> Option<Self> {
        let first = shards.iter().min_by_key(|forecast| forecast.from)?;
        let bucket = first.bucket;
        let mut due = vec![0_u64; first.buckets.len()];
        let mut later = 0;
        for shard in shards {
            // A shard's clock may have gone on to a later bucket.
            let ahead = shard.from.saturating_since(first.from).ms() / bucket.ms().max(1);
            let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
            later += shard.later;
            for (number, count) in shard.buckets.iter().enumerate() {
                match due.get_mut(number.saturating_add(ahead)) {
                    Some(sum) => *sum += count,
                    None => later += count,
                }
            }
        }
        let total = |count: fn(&Forecast) -> u64| shards.iter().map(count).sum();
        let buckets = (0_u64..).zip(due).map(|(number, due)| {
            let after = Millis::from_ms(bucket.ms().saturating_mul(number));
            BucketOut { from: TimeOut(first.from.saturating_add(after)), due }
        });
        Some(Self {
            now: TimeOut(first.now),
            bucket: bucket.into(),
            overdue: total(|forecast| forecast.overdue),
            in_flight: total(|forecast| forecast.in_flight),
            buckets: buckets.collect(),
            later,
            pending: total(Forecast::pending),
        })
    }
}

#[cfg(test)]
mod tests {
    use duly_core::{NamespaceName, Timestamp};
    use duly_store::ForecastRequest;
    use serde_json::json;

    use super::*;

    fn shard(now_ms: u64, times: &[u64]) -> Forecast {
        let namespace = NamespaceName::new("n").unwrap();
        let request = ForecastRequest { namespace, bucket: Millis::from_secs(1), count: 3 };
        let now = Timestamp::from_unix_ms(now_ms).unwrap();
        let mut forecast = Forecast::new(&request, now);
        times.iter().for_each(|at_ms| forecast.count(*at_ms));
        forecast
    }

    #[test]
    fn shards_whose_clocks_differ_are_laid_side_by_side() {
        let shards = [shard(999, &[500, 1_500, 2_500, 3_500]), shard(1_001, &[900, 1_600, 3_999])];
        let sum = ForecastOut::sum(&shards).map(|sum| serde_json::to_value(sum).unwrap());
        let begin = |second| format!("1970-01-01T00:00:0{second}.000Z");
        let expected = json!({
            "now": "1970-01-01T00:00:00.999Z",
            "bucket": "1s",
            "overdue": 2,
            "in_flight": 0,
            "buckets": [
                {"from": begin(0), "due": 0},
                {"from": begin(1), "due": 2},
                {"from": begin(2), "due": 1},
            ],
            "later": 2,
            "pending": 7,
        });
        assert_eq!(sum, Some(expected));
        assert!(ForecastOut::sum(&[]).is_none());
    }
}
