//! Recorder of two metrics of the engine: bytes appended to the journal, and the duration of syncs.
//!
//! The engine reports through the `metrics` facade. This recorder is installed once for the whole
//! process and drops all other metrics. A server installs a recorder too, so the cost of reporting
//! is part of the measurement.

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

/// The recorder, with the two metrics.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    committed_bytes: Arc<AtomicU64>,
    syncs: Arc<Syncs>,
}

#[derive(Debug)]
struct Syncs(Mutex<Latencies>);

static INSTALLED: OnceLock<Meter> = OnceLock::new();

impl Meter {
    /// Returns the recorder of this process, installed at the first call.
    pub(crate) fn of_process() -> &'static Self {
        INSTALLED.get_or_init(|| {
            let meter = Self {
                committed_bytes: Arc::new(AtomicU64::new(0)),
                syncs: Arc::new(Syncs(Mutex::new(Latencies::new()))),
            };
            // If another recorder is already installed, it stays, and the two metrics are zero.
            metrics::set_global_recorder(meter.clone()).ok();
            meter
        })
    }

    /// Returns the bytes appended to journals since the start of the process.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed_bytes.load(Ordering::Relaxed)
    }

    /// Returns the syncs since the last call.
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
