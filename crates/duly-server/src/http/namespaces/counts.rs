//! Counts of a namespace: `GET /v1/namespaces/{namespace}/stats`, now, and
//! `GET /v1/namespaces/{namespace}/forecast`, by time.

use duly_api::{Duration, NamespaceForecast, NamespaceStats};
use http::{StatusCode, Uri};

use crate::{
    http::{
        path::NamespacePath,
        query::Query,
        response::{self, HandlerResult},
    },
    service::{Admitted, counts::forecast_request},
};

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
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
) -> HandlerResult {
    let (stats, reservation) = admitted.namespace_stats(name).await?;
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
    admitted: Admitted,
    NamespacePath(namespace): NamespacePath,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["bucket", "count"])?;
    let bucket = query.get("bucket").map(Duration::of_query);
    let request = forecast_request(namespace, bucket.as_ref(), query.integer("count")?)?;
    let (forecast, reservation) = admitted.namespace_forecast(request).await?;
    response::json_within(reservation, StatusCode::OK, &forecast)
}
