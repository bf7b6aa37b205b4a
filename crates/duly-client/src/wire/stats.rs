//! Counts of a namespace, now and in time to come.

use duly_proto::v1;

use super::time::{duration_from, time_from};
use crate::namespace::{Bucket, Forecast, Lane, Stats, Totals};

pub(crate) fn stats_in(stats: v1::NamespaceStats) -> Stats {
    let lanes = stats.lanes.into_iter().map(|lane| Lane {
        lane: lane.lane,
        due: lane.due,
        retry_due: lane.retry_due,
        in_flight: lane.in_flight,
        breaker: lane.push.map(|push| push.breaker),
    });
    let totals = stats.totals.unwrap_or_default();
    Stats {
        scheduled: stats.scheduled,
        due: stats.due,
        in_flight: stats.in_flight,
        retrying: stats.retrying,
        dead: stats.dead,
        pending: stats.pending,
        pending_bytes: stats.pending_bytes,
        retained: stats.retained,
        next_due_at: stats.next_due_at.and_then(time_from),
        oldest_due_at: stats.oldest_due_at.and_then(time_from),
        paused: stats.paused,
        dead_letters_full: stats.dead_letters_full,
        lanes: lanes.collect(),
        fallback_breaker: stats.fallback.map(|fallback| fallback.breaker),
        totals: Totals {
            scheduled: totals.scheduled,
            fired: totals.fired,
            delivered: totals.delivered,
            failed: totals.failed,
            cancelled: totals.cancelled,
            rescheduled: totals.rescheduled,
            dead: totals.dead,
        },
    }
}

pub(crate) fn forecast_in(forecast: v1::NamespaceForecast) -> Forecast {
    let bucket = |it: v1::Bucket| Bucket { from: it.from.and_then(time_from), due: it.due };
    Forecast {
        now: forecast.now.and_then(time_from),
        bucket: forecast.bucket.map(duration_from).unwrap_or_default(),
        overdue: forecast.overdue,
        in_flight: forecast.in_flight,
        buckets: forecast.buckets.into_iter().map(bucket).collect(),
        later: forecast.later,
        pending: forecast.pending,
    }
}
