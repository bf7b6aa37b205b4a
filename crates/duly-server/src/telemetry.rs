//! Metrics and logs of a running server. The names of metrics are in [`duly_core::metric_names`].
//!
//! A process has one recorder. The first server that starts installs it; later servers (in tests) use
//! the same one. Gauges of the store are read at each scrape.

mod line_limit;
pub mod logging;
pub(crate) mod traces;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use duly_core::{
    Millis, NamespaceName, Timestamp,
    access::{TenantLimit, TenantLimits, TenantName},
    metric_names::{self as names, ALL, Kind, Metric, OPERATIONS, OUTCOMES},
};
use duly_store::{Health, Outcome, Refusal, Stats, query::ShardFault};
use http::StatusCode;
use metrics::{
    Counter, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::RwLock;

use crate::problem::refusal_texts::OperationKind;

/// Label of a request that matches no route.
pub const UNMATCHED: &str = "unmatched";

/// Bounds of histograms, in seconds: 100 µs to 10 s.
const BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// The same for a histogram that each namespace has.
const FEW_BUCKETS: [f64; 3] = [0.1, 1.0, 10.0];

/// Renders the metrics of this process.
#[derive(Debug, Clone)]
pub struct Metrics(PrometheusHandle);

impl Metrics {
    /// Installs the recorder, or returns the installed one.
    pub fn install() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| {
            let by_namespace = Matcher::Full(names::NAMESPACE_LATENESS_SECONDS.to_owned());
            let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).unwrap_or_default();
            let builder = builder.set_buckets_for_metric(by_namespace, &FEW_BUCKETS);
            let recorder = builder.unwrap_or_default().build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another metrics recorder is installed; /metrics stays empty");
            }
            describe();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            gauge!(names::START_TIME_SECONDS).set(now.as_secs_f64());
            handle
        });
        Self(handle.clone())
    }

    /// Returns the metrics in the text format of Prometheus, with the current gauges of the store if one is
    /// open.
    pub fn render(&self, health: Option<&Health>, is_ready: bool) -> String {
        if let Some(health) = health {
            refresh(health);
        }
        set(names::READY, is_ready.into());
        if let Some(bytes) = resident_bytes() {
            set(names::RESIDENT_BYTES, bytes);
        }
        self.0.render()
    }

    /// Moves gathered histogram values into their buckets. Called every few seconds, so that memory is
    /// bounded also without scrapes.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn describe() {
    for metric in ALL {
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, metric.help),
        }
        begin_at_zero(metric);
    }
}

/// Starts counters with known labels at 0.
///
/// For Prometheus, a counter that appears with its first count has never grown. An alert on its growth
/// would miss the first event.
fn begin_at_zero(metric: &'static Metric) {
    match metric.labels {
        _ if metric.kind != Kind::Counter => {}
        [] => counter!(metric.name).increment(0),
        [label] => {
            for value in label.values {
                counter!(metric.name, label.name => *value).increment(0);
            }
        }
        [first, second] => {
            for a in first.values {
                for b in second.values {
                    counter!(metric.name, first.name => *a, second.name => *b).increment(0);
                }
            }
        }
        _ => {}
    }
}

#[expect(clippy::cast_precision_loss)]
fn set(name: &'static str, value: u64) {
    gauge!(name).set(value as f64);
}

/// Sets the time until which an administrator can log in; [`Timestamp::MAX`] for no end.
pub(crate) fn set_admin_key_end(end: Timestamp) {
    // Zero stands for no end.
    let seconds = if end == Timestamp::MAX { 0 } else { (end.unix_ms() / 1_000).max(1) };
    set(names::ADMIN_KEY_EXPIRY, seconds);
}

fn refresh(health: &Health) {
    set(names::PENDING, health.pending);
    set(names::DUE, health.overdue);
    set(names::UNREADABLE, health.unreadable);
    set(names::IN_FLIGHT, health.in_flight);
    set(names::DEAD, health.dead);
    set(names::RETAINED, health.retained);
    set(names::NAMESPACES_PAUSED, health.namespaces_paused);
    set(names::NAMESPACES_DEAD_FULL, health.namespaces_dead_full);
    for fault in ShardFault::ALL {
        let count = health.unavailable_shards.iter().filter(|(_, own)| *own == fault).count();
        #[expect(clippy::cast_precision_loss)]
        gauge!(names::STORE_SHARDS_UNAVAILABLE, "reason" => fault.as_str()).set(count as f64);
    }
    counter!(names::STORE_ROLLBACKS_TOTAL).absolute(health.rollbacks);
    set(names::KEYS_ROLLED_BACK, u64::from(health.keys_rolled_back));
    set(names::NAMESPACES_TO_REPAIR, health.namespaces_to_repair);
    set(names::INDEX_BYTES, health.index_bytes);
    if let Some(bytes) = health.index_bytes_max {
        set(names::INDEX_BYTES_MAX, bytes);
    }
    set(names::CALENDAR_BYTES, health.calendar_bytes);
    set(names::DISK_BYTES, health.disk_bytes);
    if let Some(room) = health.disk_room {
        set(names::DISK_FREE_BYTES, room.free_bytes);
        set(names::DISK_RESERVE_BYTES, room.reserve_bytes);
        if let Some(inodes) = room.inodes {
            set(names::DISK_FREE_INODES, inodes.free);
            set(names::DISK_RESERVE_INODES, inodes.reserve);
        }
    }
    set(names::REWRITE_BACKLOG_BYTES, health.rewrite_backlog_bytes);
    set(names::REPLAY_BYTES, health.replay_bytes);
    let oldest_age = health.oldest_due_age.map_or(Duration::ZERO, duly_core::Millis::to_std);
    gauge!(names::OLDEST_DUE_SECONDS).set(oldest_age.as_secs_f64());
}

/// Returns the resident memory in bytes; `None` without procfs.
fn resident_bytes() -> Option<u64> {
    parse_resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Parses the line `VmRSS:      1234 kB`.
fn parse_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// Counts an operation. The recorder must be installed before the first call.
pub(crate) fn record_operation(kind: OperationKind, namespace: &NamespaceName, outcome: &Outcome) {
    static COUNTERS: OnceLock<Vec<Counter>> = OnceLock::new();
    let counters = COUNTERS.get_or_init(|| {
        let pairs = OPERATIONS.iter().flat_map(|k| OUTCOMES.iter().map(move |o| (*k, *o)));
        pairs
            .map(|(k, o)| counter!(names::OPERATIONS_TOTAL, "operation" => k, "outcome" => o))
            .collect()
    });
    if let Outcome::Refused(
        Refusal::Exhausted { limit, .. } | Refusal::QuotaExceeded { quota: limit, .. },
    ) = outcome
    {
        static LABELS: Labels = Labels::new();
        let (own, limit) = (LABELS.of(namespace.as_str()), limit.as_str());
        counter!(names::LIMIT_REFUSALS_TOTAL, "limit" => limit).increment(1);
        counter!(names::NAMESPACE_REFUSALS_TOTAL, "namespace" => own, "limit" => limit)
            .increment(1);
    }
    let index = kind as usize * OUTCOMES.len() + outcome_index(outcome);
    if let Some(counter) = counters.get(index) {
        counter.increment(1);
    }
}

/// Counts a refusal at a limit of a tenant.
pub(crate) fn record_tenant_refusal(tenant: &TenantName, limit: TenantLimit) {
    static LABELS: Labels = Labels::new();
    let tenant = LABELS.of(tenant.as_str());
    counter!(names::TENANT_REFUSALS_TOTAL, "tenant" => tenant, "limit" => limit.as_str())
        .increment(1);
}

/// Sets the gauges of a namespace.
#[expect(clippy::cast_precision_loss)]
pub(crate) fn set_namespace(name: &NamespaceName, stats: &Stats, now: Timestamp) {
    let set = |metric: &'static str, value: f64| {
        gauge!(metric, "namespace" => name.as_str().to_owned()).set(value);
    };
    set(names::NAMESPACE_PENDING, stats.pending() as f64);
    set(names::NAMESPACE_DEAD, stats.dead as f64);
    let oldest = stats.oldest_due_at.map_or(Millis::ZERO, |due_at| now.saturating_since(due_at));
    set(names::NAMESPACE_OLDEST_DUE_SECONDS, oldest.to_std().as_secs_f64());
}

/// Sets the use of the limits of a tenant, as parts of them; 0 for a limit that is not set.
#[expect(clippy::cast_precision_loss)]
pub(crate) fn set_tenant_use(
    name: &TenantName,
    limits: &TenantLimits,
    used: impl Fn(TenantLimit) -> Option<u64>,
) {
    static LABELS: Labels = Labels::new();
    let label = LABELS.of(name.as_str());
    for limit in TenantLimit::ALL.into_iter().filter(|_| label != OTHER) {
        let Some(used) = used(limit) else { continue };
        let ratio =
            limits[limit].filter(|_| used > 0).map_or(0.0, |max| used as f64 / max.max(1) as f64);
        gauge!(names::TENANT_USE_RATIO, "tenant" => label.clone(), "limit" => limit.as_str())
            .set(ratio);
    }
}

/// Label of names without one of their own.
const OTHER: &str = "other";

/// Names that have a label of their own: the first [`Labels::MAX`].
struct Labels(RwLock<BTreeSet<String>>);

impl Labels {
    const MAX: usize = 100;

    const fn new() -> Self {
        Self(RwLock::new(BTreeSet::new()))
    }

    /// Returns the label of a name.
    fn of(&self, name: &str) -> String {
        let has_own = self.0.read().contains(name) || {
            let mut names = self.0.write();
            names.contains(name) || names.len() < Self::MAX && names.insert(name.to_owned())
        };
        if has_own { name.to_owned() } else { OTHER.to_owned() }
    }
}

/// Returns the label of an outcome.
pub(crate) fn outcome(outcome: &Outcome) -> &'static str {
    OUTCOMES[outcome_index(outcome)]
}

/// Returns the index of an outcome in [`OUTCOMES`].
pub(crate) const fn outcome_index(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Created(_) => 0,
        Outcome::Existing(_) => 1,
        Outcome::Replaced(_) => 2,
        Outcome::Changed(_) => 3,
        Outcome::Unchanged(_) => 4,
        Outcome::Cancelled { .. } => 5,
        Outcome::Stopped { .. } => 6,
        Outcome::Purged => 7,
        Outcome::Refused(_) => 8,
        Outcome::Failed(_) => 9,
    }
}

/// Metrics of all requested routes. Handles are looked up once per route and status, not per request.
#[derive(Debug, Default)]
pub struct Routes(RwLock<HashMap<String, Arc<RouteMetrics>>>);

#[derive(Debug)]
struct RouteMetrics {
    seconds: Histogram,
    requests: RwLock<HashMap<StatusCode, Counter>>,
}

impl Routes {
    /// Counts a response.
    pub fn record(&self, route: &str, status: StatusCode, elapsed: Duration) {
        let metrics = self.of(route);
        metrics.seconds.record(elapsed.as_secs_f64());
        if let Some(requests) = metrics.requests.read().get(&status) {
            requests.increment(1);
            return;
        }
        let requests = counter!(
            names::HTTP_REQUESTS_TOTAL,
            "route" => route.to_owned(),
            "status" => status.as_str().to_owned()
        );
        requests.increment(1);
        metrics.requests.write().insert(status, requests);
    }

    fn of(&self, route: &str) -> Arc<RouteMetrics> {
        if let Some(known) = self.0.read().get(route) {
            return Arc::clone(known);
        }
        let made = Arc::new(RouteMetrics {
            seconds: histogram!(names::HTTP_SECONDS, "route" => route.to_owned()),
            requests: RwLock::default(),
        });
        Arc::clone(self.0.write().entry(route.to_owned()).or_insert(made))
    }
}

#[cfg(test)]
mod tests {
    use duly_store::Limit;

    use super::*;

    #[test]
    fn limits_are_those_of_the_table() {
        assert_eq!(names::LIMITS, Limit::ALL.map(Limit::as_str));
    }

    #[test]
    fn resident_memory_is_read_from_its_line() {
        let check = |status, expected| assert_eq!(parse_resident(status), expected, "{status:?}");
        check("Name:\tduly\nVmHWM:\t 9 kB\nVmRSS:\t    1234 kB\nThreads: 1\n", Some(1234 * 1024));
        check("Name:\tduly\n", None);
        check("VmRSS:\t12 MB\n", None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_takes_some() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
