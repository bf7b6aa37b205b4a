//! Counts of a namespace: `GET /v1/namespaces/{namespace}/stats`, now, and
//! `GET /v1/namespaces/{namespace}/forecast`, by time.

use axum::extract::State;
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
use http::{StatusCode, Uri};

use crate::{
    http::{
        App, Problem,
        budget::Reservation,
        path::NamespacePath,
        query::Query,
        response::{self, HandlerResult},
    },
    messages,
};

/// Memory of the counts of one shard: a namespace has at most a few hundred lanes.
const STATS_BYTES: usize = 64 * 1024;
/// Memory of one bucket of the response, and of its text.
const BUCKET_BYTES: usize = 128;
/// Memory of the rest of a response.
const FIXED_BYTES: usize = 2 * 1024;

/// Counts of a namespace.
///
/// While shards are unavailable, the counts are those of the others, and `unavailable_shards` names the
/// missing ones.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/stats",
    tag = "namespaces",
    responses((status = 200, description = "The counts.", body = NamespaceStats))
)]
pub(crate) async fn namespace_stats(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
) -> HandlerResult {
    let (stats, reservation) = app.namespace_stats(name).await?;
    response::json_within(reservation, StatusCode::OK, &stats)
}

/// Number of pending timers that become claimable in each bucket of time.
///
/// Each timer is counted once: overdue, in flight, in the bucket of its due time or next attempt, or
/// later. Buckets begin at multiples of their length; the first bucket contains the current time. The
/// counts are not a consistent snapshot: a timer that changes during the count may be counted as it was,
/// as it is, or not at all; every other timer is counted exactly once. While shards are unavailable, the counts are those of the
/// others, and `unavailable_shards` names the missing ones.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/forecast",
    tag = "namespaces",
    params(
        ("bucket" = Option<Duration>, Query, description = "Length of a bucket, 1s to 366d, default 1m"),
        ("count" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "How many buckets, 1 to 1000, default 60")
    ),
    responses((status = 200, description = "The forecast.", body = NamespaceForecast))
)]
pub(crate) async fn namespace_forecast(
    State(app): State<App>,
    NamespacePath(namespace): NamespacePath,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["bucket", "count"])?;
    let bucket = query.get("bucket").map(Duration::of_query);
    let request = forecast_request(namespace, bucket.as_ref(), query.integer("count")?)?;
    let (forecast, reservation) = app.namespace_forecast(request).await?;
    response::json_within(reservation, StatusCode::OK, &forecast)
}

impl App {
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
