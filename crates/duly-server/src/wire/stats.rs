//! Counts of a namespace in an answer.

use std::time::Duration;

use duly_core::{destination::LaneKey, limits::Limits};
use duly_node::{FallbackLoad, LaneLoad};
use duly_store::Stats;
use serde::Serialize;
use utoipa::ToSchema;

use super::TimeOut;

/// Counts of a namespace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsOut {
    /// Waiting for their due time.
    pub(super) scheduled: u64,
    /// Due and unclaimed.
    pub(super) due: u64,
    /// Under a lease.
    pub(super) in_flight: u64,
    /// Waiting for, or due for, another attempt.
    pub(super) retrying: u64,
    /// Dead letters.
    pub(super) dead: u64,
    /// Scheduled, due, in flight and retrying.
    pub(super) pending: u64,
    /// Estimated bytes of the pending timers.
    pub(super) pending_bytes: u64,
    /// Tombstones of ended timers.
    pub(super) retained: u64,
    /// Earliest due time still ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) next_due_at: Option<TimeOut>,
    /// Earliest due time of what is due and unclaimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) oldest_due_at: Option<TimeOut>,
    /// Whether claims are refused.
    pub(super) paused: bool,
    /// Whether no claim is granted because there are `max_dead` dead letters.
    pub(super) dead_letters_full: bool,
    /// Lanes with pending timers.
    pub(super) lanes: Vec<LaneOut>,
    /// What this node knows of the namespace's fallback; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fallback: Option<FallbackStateOut>,
    /// Monotonic totals; they survive a restart.
    pub(super) totals: TotalsOut,
}

/// Counts of one lane.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lane)]
pub struct LaneOut {
    /// `pull`, an HTTP origin, or `overflow`: the lane that timers share whose own destinations are
    /// at more origins than have lanes of their own. It has no breaker, so that is always `closed`.
    pub(super) lane: String,
    /// Due and unclaimed first attempts.
    pub(super) due: u64,
    /// Due and unclaimed retries.
    pub(super) retry_due: u64,
    /// Under a lease.
    pub(super) in_flight: u64,
    /// What this node knows of a push lane that it has served lately; absent for pull.
    #[serde(flatten)]
    pub(super) push: Option<PushOut>,
}

/// What a node knows of a push lane; of other lanes none of it is there.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PushLane)]
pub struct PushOut {
    /// What it is doing: `flowing`, `capped` (at `in_flight_max`), `throttled` (at
    /// `per_second_max`), `starved` (of workers), `shut` (its breaker is open).
    #[schema(required = false)]
    pub(super) state: &'static str,
    /// Attempts under way on this node, those not yet settled included.
    #[schema(required = false)]
    pub(super) attempts_in_flight: usize,
    /// Those of them that are not first attempts.
    #[schema(required = false)]
    pub(super) retries_in_flight: usize,
    /// Most that are in flight at once on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_flight_max: Option<usize>,
    /// Most attempts begun in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_second_max: Option<u32>,
    /// Due firings that the node knows of and has not claimed.
    #[schema(required = false)]
    pub(super) backlog: usize,
    /// `closed`, `open` (the receiver does not answer and is left alone), `half_open` (single
    /// attempts see whether it is back).
    #[schema(required = false)]
    pub(super) breaker: &'static str,
    /// Whether its firings go to the namespace's fallback now.
    #[schema(required = false)]
    pub(super) diverted: bool,
    /// Failures in a row that the breaker has counted.
    #[schema(required = false)]
    pub(super) failures_in_a_row: u32,
    /// Time until the next attempt past an open breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_probe_in_ms: Option<u64>,
}

impl PushOut {
    fn of(load: &LaneLoad) -> Self {
        Self {
            state: load.state.as_str(),
            attempts_in_flight: load.in_flight,
            retries_in_flight: load.retries_in_flight,
            in_flight_max: load.cap,
            per_second_max: load.per_second,
            backlog: load.backlog,
            breaker: load.breaker.as_str(),
            diverted: load.diverted,
            failures_in_a_row: load.failures,
            next_probe_in_ms: load.next_probe_in.map(ms),
        }
    }
}

/// What a node knows of the fallback of a namespace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FallbackState)]
pub struct FallbackStateOut {
    /// `closed`, `open` (it does not answer and is left alone: firings go to their own receivers, as
    /// without a fallback), `half_open` (single attempts see whether it is back).
    pub(super) breaker: &'static str,
    /// Failures in a row that the breaker has counted.
    pub(super) failures_in_a_row: u32,
    /// Time until the next attempt past an open breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_probe_in_ms: Option<u64>,
}

impl From<FallbackLoad> for FallbackStateOut {
    fn from(load: FallbackLoad) -> Self {
        Self {
            breaker: load.breaker.as_str(),
            failures_in_a_row: load.failures,
            next_probe_in_ms: load.next_probe_in.map(ms),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Monotonic totals of a namespace.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Totals)]
pub struct TotalsOut {
    /// Timers made or replaced.
    pub(super) scheduled: u64,
    /// Attempts claimed.
    pub(super) fired: u64,
    /// Firings confirmed.
    pub(super) delivered: u64,
    /// Attempts that ended without a confirmation.
    pub(super) failed: u64,
    /// Timers cancelled.
    pub(super) cancelled: u64,
    /// Changes by PATCH and fire.
    pub(super) rescheduled: u64,
    /// Firings given up.
    pub(super) dead: u64,
}

impl StatsOut {
    /// The counts, with what the node knows of its push lanes and of its fallback, if it has one.
    pub fn new(
        stats: Stats,
        loads: &[LaneLoad],
        fallback: Option<FallbackLoad>,
        limits: &Limits,
    ) -> Self {
        let push = |key: &LaneKey| loads.iter().find(|load| load.key == *key).map(PushOut::of);
        let totals = stats.totals;
        Self {
            scheduled: stats.scheduled,
            due: stats.due,
            in_flight: stats.in_flight,
            retrying: stats.retrying,
            dead: stats.dead,
            pending: stats.pending(),
            pending_bytes: stats.pending_bytes,
            retained: stats.retained,
            next_due_at: stats.next_due_at.map(TimeOut),
            oldest_due_at: stats.oldest_due_at.map(TimeOut),
            paused: stats.paused,
            dead_letters_full: stats.dead >= limits.max_dead,
            lanes: stats
                .lanes
                .into_iter()
                .map(|lane| LaneOut {
                    lane: lane.key.label().to_owned(),
                    due: lane.due,
                    retry_due: lane.retry_due,
                    in_flight: lane.in_flight,
                    push: push(&lane.key),
                })
                .collect(),
            fallback: fallback.map(FallbackStateOut::from),
            totals: TotalsOut {
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
}

#[cfg(test)]
mod tests {
    use duly_node::BreakerState;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fallback_that_is_left_alone_says_until_when() {
        let load = FallbackLoad {
            breaker: BreakerState::Open,
            failures: 10,
            next_probe_in: Some(Duration::from_millis(2_500)),
        };
        let out = serde_json::to_value(FallbackStateOut::from(load)).unwrap();
        let shown = json!({"breaker":"open","failures_in_a_row":10,"next_probe_in_ms":2_500});
        assert_eq!(out, shown);
    }
}
