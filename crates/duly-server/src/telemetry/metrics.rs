//! The recorder behind `/metrics`.
//!
//! A process has one recorder. The first server that starts installs it; later servers (in tests) use
//! the same one. Gauges of the store are read at each scrape.

use std::{sync::OnceLock, time::Duration};

use duly_core::metric_names::{self as names, ALL, Kind, Metric};
use duly_store::{Health, query::ShardFault};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::process;

/// Bounds of every histogram, in seconds: 100 µs to 10 s.
const BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Readiness of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// The server can work.
    Ready,
    /// The server cannot work; `/readyz` says why.
    NotReady,
}

/// Renders the metrics of this process.
#[derive(Clone)]
pub struct Metrics(PrometheusHandle);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Installs the recorder, or returns the installed one.
    pub fn install() -> Self {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| {
            let recorder =
                PrometheusBuilder::new().set_buckets(&BUCKETS).unwrap_or_default().build_recorder();
            let handle = recorder.handle();
            if metrics::set_global_recorder(recorder).is_err() {
                tracing::warn!("another metrics recorder is installed; /metrics stays empty");
            }
            describe();
            handle
        });
        Self(handle.clone())
    }

    /// Returns the metrics in the text format of Prometheus, with the current gauges of the store if one is
    /// open.
    pub fn render(&self, health: Option<&Health>, readiness: Readiness) -> String {
        if let Some(health) = health {
            refresh(health);
        }
        gauge!(names::READY).set(if readiness == Readiness::Ready { 1.0 } else { 0.0 });
        if let Some(bytes) = process::resident_bytes() {
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
    gauge!(names::STORE_FAILED).set(0.0);
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
        _ => {}
    }
}

#[expect(clippy::cast_precision_loss)]
fn set(name: &'static str, value: u64) {
    gauge!(name).set(value as f64);
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
        gauge!(names::STORE_SHARDS_UNAVAILABLE, "reason" => fault.label()).set(count as f64);
    }
    counter!(names::STORE_ROLLBACKS_TOTAL).absolute(health.rollbacks);
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
