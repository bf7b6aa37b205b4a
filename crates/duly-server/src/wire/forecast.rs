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

impl From<Forecast> for ForecastOut {
    fn from(forecast: Forecast) -> Self {
        let pending = forecast.pending();
        let (from, bucket) = (forecast.from, forecast.bucket);
        let buckets = (0_u64..).zip(forecast.buckets).map(|(number, due)| {
            let after = Millis::from_ms(bucket.ms().saturating_mul(number));
            BucketOut { from: TimeOut(from.saturating_add(after)), due }
        });
        Self {
            now: TimeOut(forecast.now),
            bucket: bucket.into(),
            overdue: forecast.overdue,
            in_flight: forecast.in_flight,
            buckets: buckets.collect(),
            later: forecast.later,
            pending,
        }
    }
}
