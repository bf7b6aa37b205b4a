//! Counts of a namespace: now, and by time.

use duly_api::{
    Duration, NamespaceForecast, NamespaceStats,
    number::within,
    stats::{BUCKET_DEFAULT, BUCKETS_DEFAULT},
};
use duly_core::{Invalid, NamespaceName};
use duly_store::{
    ForecastRequest,
    forecast::{BUCKET_MAX, BUCKET_MIN, BUCKETS_MAX},
};

use super::Admitted;
use crate::{memory::budget::Reservation, messages, problem::Problem};

/// Memory of the counts of one shard: a namespace has at most a few hundred lanes.
const STATS_BYTES: usize = 64 * 1024;
/// Memory of one bucket of the response, and of its text.
const BUCKET_BYTES: usize = 128;
/// Memory of the rest of a response.
const FIXED_BYTES: usize = 2 * 1024;

impl Admitted {
    /// Returns the counts of a namespace over all shards, with their memory reservation, which has the
    /// same size for the text.
    pub(crate) async fn namespace_stats(
        &self,
        name: NamespaceName,
    ) -> Result<(NamespaceStats, Reservation), Problem> {
        let shards = self.sharded().shards().len();
        let mut reservation = self.budget().reserve(shards * STATS_BYTES)?;
        let namespace = self.namespace(name.clone()).await?;
        let stats = self.sharded().stats(&name).await?;
        let stats = stats.ok_or_else(|| Problem::no_namespace(name.as_str()))?;
        let loads = self.node.lanes(&name);
        let settings = &namespace.settings;
        let fallback = settings.fallback.as_ref().map(|_| self.node.fallback(&name));
        let unavailable_shards = stats.unavailable_shards();
        let stats = messages::stats(stats.value, &loads, fallback, &settings.limits);
        let stats = NamespaceStats { unavailable_shards, ..stats };
        reservation.shrink_to(STATS_BYTES);
        Ok((stats, reservation))
    }

    /// Returns a forecast over all shards, with its memory reservation, which includes the text.
    pub(crate) async fn namespace_forecast(
        &self,
        request: ForecastRequest,
    ) -> Result<(NamespaceForecast, Reservation), Problem> {
        let counts = request.count * self.sharded().shards().len() * size_of::<u64>();
        let reservation =
            self.budget().reserve(FIXED_BYTES + counts + request.count * BUCKET_BYTES)?;
        let forecast = self.sharded().forecast(&request).await?;
        let forecast = forecast.ok_or_else(|| Problem::no_namespace(request.namespace.as_str()))?;
        let unavailable_shards = forecast.unavailable_shards();
        let forecast = messages::forecast(forecast.value);
        Ok((NamespaceForecast { unavailable_shards, ..forecast }, reservation))
    }
}

/// Checks the parameters.
pub(crate) fn forecast_request(
    namespace: NamespaceName,
    bucket: Option<&Duration>,
    count: Option<u32>,
) -> Result<ForecastRequest, Invalid> {
    let bucket = match bucket {
        Some(bucket) => bucket.check_within("bucket", BUCKET_MIN, BUCKET_MAX)?,
        None => BUCKET_DEFAULT,
    };
    let count = usize::try_from(count.unwrap_or(BUCKETS_DEFAULT)).unwrap_or(usize::MAX);
    Ok(ForecastRequest { namespace, bucket, count: within("count", count, 1, BUCKETS_MAX)? })
}
