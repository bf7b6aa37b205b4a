//! What the engine says of itself while it is measured: bytes it appended to its journal, and how
//! long its syncs took.
//!
//! The engine reports through the `metrics` facade. This recorder is installed once for the whole
//! process and keeps just these two; everything else goes nowhere. A server installs a recorder
//! too, so the cost of reporting is part of what is measured.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use duly_core::metric_names;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::Mutex;

use crate::latency::Latencies;

/// The engine's own figures.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    committed_bytes: Arc<AtomicU64>,
    syncs: Arc<Syncs>,
}

#[derive(Debug)]
struct Syncs(Mutex<Latencies>);

static INSTALLED: OnceLock<Meter> = OnceLock::new();

impl Meter {
    /// The meter of this process.
    pub(crate) fn of_process() -> &'static Self {
        INSTALLED.get_or_init(|| {
            let meter = Self {
                committed_bytes: Arc::new(AtomicU64::new(0)),
                syncs: Arc::new(Syncs(Mutex::new(Latencies::new()))),
            };
            // Another recorder that came first stays; the two figures are then zero.
            metrics::set_global_recorder(meter.clone()).ok();
            meter
        })
    }

    /// Bytes appended to journals so far.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed_bytes.load(Ordering::Relaxed)
    }

    /// The syncs since this was last asked.
    pub(crate) fn take_syncs(&self) -> Latencies {
        std::mem::replace(&mut self.syncs.0.lock(), Latencies::new())
    }
}

impl HistogramFn for Syncs {
    fn record(&self, seconds: f64) {
        self.0.lock().record(Duration::from_secs_f64(seconds.max(0.0)));
    }
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == metric_names::COMMIT_BYTES_TOTAL {
            return Counter::from_arc(Arc::clone(&self.committed_bytes));
        }
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == metric_names::FSYNC_SECONDS {
            return Histogram::from_arc(Arc::clone(&self.syncs));
        }
        Histogram::noop()
    }
}
