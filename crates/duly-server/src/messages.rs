//! Converts values of the store and the node into messages of the public model.
//!
//! Both HTTP and gRPC respond with these messages. `duly-api` defines the form of each value.

use std::{sync::Arc, time};

use duly_api::{
    Bucket, CancelResponse, Duration, FallbackState, Firing, Lane, Namespace, NamespaceForecast,
    NamespaceStats, OperationResult, PushLane, RepairNamespaceResponse, Time, Timer, Totals,
    Unchanged,
    cluster::{BackupMade, RepairedShard},
    moved::{ExportedNamespace, ImportResult},
    timer::CallEffect,
};
use duly_core::{
    Millis, access::Action, destination::LaneKey, limits::Limits, metric_names::OUTCOMES,
    schedule::IfExists, shard::ShardId,
};
use duly_node::{FallbackLoad, LaneLoad};
use duly_store::{BackupReport, Forecast, Outcome, Repaired, Stats, TimerView, namespaces};

use crate::{
    auth::Caller,
    problem::{
        Problem,
        refusal_texts::{OperationKind, SentOperation},
    },
    telemetry,
};

/// Returns a namespace as a response shows it.
pub(crate) fn namespace(namespace: &namespaces::Namespace) -> Namespace {
    Namespace {
        paused: namespace.paused,
        resumes_at: namespace.resumes_at.map(Time::from),
        created_at: Some(namespace.created_at.into()),
        updated_at: Some(namespace.updated_at.into()),
        ..Namespace::new(namespace.name.as_str(), &namespace.settings)
    }
}

/// Returns a namespace in the form from which another server creates it.
pub(crate) fn exported(found: &namespaces::Namespace) -> ExportedNamespace {
    let shown = namespace(found);
    ExportedNamespace {
        name: shown.name,
        paused: shown.paused,
        resumes_at: shown.resumes_at,
        settings: duly_api::NamespaceSettings::exported(&found.settings),
        signing_secret_fingerprints: shown.signing_secret_fingerprints,
    }
}

/// Returns the result of a repair of a namespace.
pub(crate) fn repaired(repaired: &namespaces::Repaired) -> RepairNamespaceResponse {
    RepairNamespaceResponse {
        namespace: Some(namespace(&repaired.namespace)),
        restored: repaired.restored,
        pending_lost: repaired.pending_lost,
        dead_lost: repaired.dead_lost,
    }
}

/// Returns the result of a repair of a shard.
pub(crate) fn repaired_shard(shard: ShardId, repaired: Repaired) -> RepairedShard {
    let (outcome, behind_ms, namespaces) = match repaired {
        Repaired::Nothing => ("nothing", None, None),
        Repaired::Confirmed { behind } => ("confirmed", Some(behind.ms()), None),
        Repaired::Restored { namespaces } => ("restored", None, Some(namespaces)),
    };
    RepairedShard { shard: shard.0, outcome: outcome.to_owned(), behind_ms, namespaces }
}

/// Returns a backup that was made.
pub(crate) fn backup(report: BackupReport) -> BackupMade {
    let BackupReport { path, files, bytes, lsn, .. } = report;
    BackupMade { path: path.display().to_string(), bytes, files, lsn }
}

/// Returns a firing that is leased to a consumer.
pub(crate) fn firing(firing: &duly_store::Firing) -> Firing {
    Firing {
        token: firing.token.to_string(),
        delivery_id: firing.delivery_id.to_string(),
        id: firing.id.as_str().to_owned(),
        occurrence: firing.occurrence,
        attempt: firing.attempt,
        due_at: Some(firing.due_at.into()),
        leased_until: firing.leased_until.map(Time::from),
        ..Firing::of_spec(&firing.spec)
    }
}

/// Returns the timer that an operation found, created or changed, as the store has it.
///
/// # Errors
/// The refusal; `path` is the operation's place in the request, in front of the field at fault.
pub(crate) fn view<'a>(
    sent: impl Into<SentOperation>,
    outcome: &'a Outcome,
    path: &str,
) -> Result<(&'a Arc<TimerView>, CallEffect), Problem> {
    match outcome {
        Outcome::Created(view) | Outcome::Changed(view) => Ok((view, CallEffect::Plain)),
        Outcome::Unchanged(view) => Ok((view, CallEffect::Unchanged(Unchanged::AlreadyDue))),
        Outcome::Existing(view) => {
            let is_kept = sent.into().if_exists == IfExists::Keep;
            let reason = if is_kept { Unchanged::Kept } else { Unchanged::SameRequest };
            Ok((view, CallEffect::Unchanged(reason)))
        }
        Outcome::Replaced(view) => Ok((view, CallEffect::Replaced)),
        other => Err(refused(sent, other, path)),
    }
}

/// Returns the timer of [`view`] as a response shows it.
///
/// # Errors
/// The errors of [`view`].
pub(crate) fn timer(
    caller: &Caller,
    sent: SentOperation,
    outcome: &Outcome,
    path: &str,
) -> Result<Timer, Problem> {
    view(sent, outcome, path).map(|(view, effect)| shown(caller, view, effect))
}

/// Returns a timer as the caller may read it: without payload and headers, unless it has the right to them.
pub(crate) fn shown(caller: &Caller, view: &TimerView, effect: CallEffect) -> Timer {
    match caller.permits(Action::Payload) {
        true => Timer::new(view, effect),
        false => Timer::summary(view, effect),
    }
}

/// Returns the response to a cancel.
///
/// # Errors
/// The errors of [`view`].
pub(crate) fn cancelled(outcome: &Outcome, path: &str) -> Result<CancelResponse, Problem> {
    match outcome {
        Outcome::Cancelled { attempts, maybe_delivered, already } => {
            Ok(CancelResponse::cancelled(*attempts, *maybe_delivered, *already))
        }
        Outcome::Stopped { attempts, maybe_delivered, already } => {
            Ok(CancelResponse::stopped(*attempts, *maybe_delivered, *already))
        }
        other => Err(refused(OperationKind::Cancel, other, path)),
    }
}

/// The outcome of an item, with what its caller sent; or its refusal before it reached the store.
pub(crate) type ItemOutcome = Result<(SentOperation, Outcome), Problem>;

/// Returns the result of one operation of a batch. `path` returns its place in the body, for a refusal.
pub(crate) fn result(
    caller: &Caller,
    item: ItemOutcome,
    path: impl FnOnce(OperationKind) -> String,
) -> OperationResult {
    let mut result = OperationResult::default();
    let shown = item.and_then(|(sent, outcome)| {
        let path = &path_for(sent.kind, &outcome, path);
        match sent.kind {
            OperationKind::Cancel => result.cancelled = Some(cancelled(&outcome, path)?),
            _ => result.timer = Some(Box::new(timer(caller, sent, &outcome, path)?)),
        }
        Ok(())
    });
    result.error = shown.err().map(Problem::into_body);
    result
}

/// Returns the place of an item in the body where it is refused: most items are not, and need no text.
fn path_for(
    kind: OperationKind,
    outcome: &Outcome,
    path: impl FnOnce(OperationKind) -> String,
) -> String {
    if matches!(outcome, Outcome::Refused(_)) { path(kind) } else { String::new() }
}

/// Returns the result of one timer of an import. `path` is as for [`result`].
pub(crate) fn imported(
    item: ItemOutcome,
    path: impl FnOnce(OperationKind) -> String,
) -> ImportResult {
    let mut result = ImportResult::default();
    match item {
        Ok((_, Outcome::Created(_))) => result.imported = Some(true),
        Ok((_, Outcome::Existing(view))) => {
            (result.existing, result.state) = (Some(true), Some(view.state.as_str()));
        }
        Ok((sent, other)) => {
            let path = path_for(sent.kind, &other, path);
            result.error = Some(refused(sent, &other, &path).into_body());
        }
        Err(problem) => result.error = Some(problem.into_body()),
    }
    result
}

/// Returns the problem of an operation that was not carried out.
pub(crate) fn refused(sent: impl Into<SentOperation>, outcome: &Outcome, path: &str) -> Problem {
    match outcome {
        Outcome::Refused(refusal) => Problem::refused(refusal.clone(), sent, path),
        Outcome::Failed(failure) => failure.clone().into(),
        other => {
            // Only the kind is logged: a whole outcome holds payload and headers.
            tracing::error!(
                kind = OUTCOMES[telemetry::outcome_index(other)],
                "store call returned an outcome of the wrong kind; the code internal is returned"
            );
            Problem::fault("an outcome of the wrong kind")
        }
    }
}

/// Returns the counts of a namespace, with the state of its push lanes and of its fallback, if it has one.
pub(crate) fn stats(
    stats: Stats,
    loads: &[LaneLoad],
    fallback: Option<FallbackLoad>,
    limits: &Limits,
) -> NamespaceStats {
    let push = |key: &LaneKey| loads.iter().find(|load| load.key == *key).map(push_lane);
    let lanes = stats.lanes.iter().map(|lane| Lane {
        lane: lane.key.label().to_owned(),
        due: lane.due,
        retry_due: lane.retry_due,
        in_flight: lane.in_flight,
        push: push(&lane.key),
    });
    let totals = stats.totals;
    NamespaceStats {
        scheduled: stats.scheduled,
        due: stats.due,
        in_flight: stats.in_flight,
        retrying: stats.retrying,
        dead: stats.dead,
        pending: stats.pending(),
        pending_bytes: stats.pending_bytes,
        retained: stats.retained,
        next_due_at: stats.next_due_at.map(Time::from),
        oldest_due_at: stats.oldest_due_at.map(Time::from),
        paused: stats.paused,
        dead_letters_full: stats.dead >= limits.max_dead,
        lanes: lanes.collect(),
        fallback: fallback.map(|load| FallbackState {
            breaker: load.breaker.as_str().to_owned(),
            failures_in_a_row: load.failures,
            next_probe_in_ms: load.next_probe_in.map(ms),
        }),
        totals: Some(Totals {
            scheduled: totals.scheduled,
            fired: totals.fired,
            delivered: totals.delivered,
            failed: totals.failed,
            cancelled: totals.cancelled,
            rescheduled: totals.rescheduled,
            dead: totals.dead,
        }),
        unavailable_shards: Vec::new(),
    }
}

fn push_lane(load: &LaneLoad) -> PushLane {
    PushLane {
        state: load.state.as_str().to_owned(),
        attempts_in_flight: load.in_flight as u64,
        retries_in_flight: load.retries_in_flight as u64,
        in_flight_max: load.cap.map(|cap| cap as u64),
        per_second_max: load.per_second,
        backlog: load.backlog as u64,
        breaker: load.breaker.as_str().to_owned(),
        diverted: load.diverted,
        failures_in_a_row: load.failures,
        next_probe_in_ms: load.next_probe_in.map(ms),
    }
}

/// Returns whole milliseconds.
pub(crate) fn ms(time: time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a forecast.
pub(crate) fn forecast(forecast: Forecast) -> NamespaceForecast {
    let pending = forecast.pending();
    let (from, bucket) = (forecast.from, forecast.bucket);
    let buckets = (0_u64..).zip(forecast.buckets).map(|(number, due)| {
        let after = Millis::from_ms(bucket.ms().saturating_mul(number));
        Bucket { from: Some(from.saturating_add(after).into()), due }
    });
    NamespaceForecast {
        now: Some(forecast.now.into()),
        bucket: Some(Duration::from(bucket)),
        overdue: forecast.overdue,
        in_flight: forecast.in_flight,
        buckets: buckets.collect(),
        later: forecast.later,
        pending,
        unavailable_shards: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
