//! Counts of a namespace and its forecast. What is summed up how is decided in [`StatsOut`] and
//! [`ForecastOut`].

use duly_core::Millis;
use duly_proto::v1;

use super::{
    super::{
        ForecastOut, StatsOut, TimeOut,
        stats::{FallbackStateOut, LaneOut, PushOut},
    },
    time::{duration_out, time_out},
};

/// Counts in an answer.
pub(crate) fn stats_out(stats: StatsOut) -> v1::NamespaceStats {
    let time = |time: Option<TimeOut>| time.map(|time| time_out(time.0));
    let totals = stats.totals;
    v1::NamespaceStats {
        scheduled: stats.scheduled,
        due: stats.due,
        in_flight: stats.in_flight,
        retrying: stats.retrying,
        dead: stats.dead,
        pending: stats.pending,
        pending_bytes: stats.pending_bytes,
        retained: stats.retained,
        next_due_at: time(stats.next_due_at),
        oldest_due_at: time(stats.oldest_due_at),
        paused: stats.paused,
        dead_letters_full: stats.dead_letters_full,
        lanes: stats.lanes.into_iter().map(lane_out).collect(),
        totals: Some(v1::Totals {
            scheduled: totals.scheduled,
            fired: totals.fired,
            delivered: totals.delivered,
            failed: totals.failed,
            cancelled: totals.cancelled,
            rescheduled: totals.rescheduled,
            dead: totals.dead,
        }),
        fallback: stats.fallback.map(fallback_out),
    }
}

fn lane_out(lane: LaneOut) -> v1::Lane {
    v1::Lane {
        lane: lane.lane,
        due: lane.due,
        retry_due: lane.retry_due,
        in_flight: lane.in_flight,
        push: lane.push.map(push_out),
    }
}

fn push_out(push: PushOut) -> v1::PushLane {
    v1::PushLane {
        state: push.state.to_owned(),
        attempts_in_flight: push.attempts_in_flight as u64,
        retries_in_flight: push.retries_in_flight as u64,
        in_flight_max: push.in_flight_max.map(|max| max as u64),
        per_second_max: push.per_second_max,
        backlog: push.backlog as u64,
        breaker: push.breaker.to_owned(),
        diverted: push.diverted,
        failures_in_a_row: push.failures_in_a_row,
        next_probe_in: push.next_probe_in_ms.map(|ms| duration_out(Millis::from_ms(ms))),
    }
}

fn fallback_out(fallback: FallbackStateOut) -> v1::FallbackState {
    v1::FallbackState {
        breaker: fallback.breaker.to_owned(),
        failures_in_a_row: fallback.failures_in_a_row,
        next_probe_in: fallback.next_probe_in_ms.map(|ms| duration_out(Millis::from_ms(ms))),
    }
}

/// A forecast in an answer.
pub(crate) fn forecast_out(forecast: ForecastOut) -> v1::NamespaceForecast {
    let buckets = forecast.buckets.into_iter();
    v1::NamespaceForecast {
        now: Some(time_out(forecast.now.0)),
        bucket: Some(duration_out(forecast.bucket.0)),
        overdue: forecast.overdue,
        in_flight: forecast.in_flight,
        buckets: buckets
            .map(|bucket| v1::Bucket { from: Some(time_out(bucket.from.0)), due: bucket.due })
            .collect(),
        later: forecast.later,
        pending: forecast.pending,
    }
}
