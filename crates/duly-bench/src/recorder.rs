//! Recorder of a measurement: a histogram, and the number of timers in each second.

use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::time::Instant;

use duly_checker::{Percentiles, histogram};

/// Most seconds that are counted separately; later timers count in the last one.
const SECONDS_MAX: usize = 7_200;

/// Latencies or lateness of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Mutex<Instant>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    histogram: Histogram<u64>,
    by_second: Vec<u64>,
    last: Option<Duration>,
}

impl Default for Recorder {
    fn default() -> Self {
        let inner = Inner { histogram: histogram(), by_second: Vec::new(), last: None };
        Self { began: Mutex::new(Instant::now()), inner: Mutex::new(inner) }
    }
}

impl Recorder {
    /// Sets the time from which the seconds count.
    pub(crate) fn begin(&self, at: Instant) {
        *self.began.lock() = at;
    }

    /// Records `count` timers that are done now, each with this time.
    pub(crate) fn record(&self, micros: u64, count: u64) {
        let since = self.began.lock().elapsed();
        let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX).min(SECONDS_MAX - 1);
        let mut inner = self.inner.lock();
        inner.histogram.saturating_record_n(micros.max(1), count);
        if inner.by_second.len() <= second {
            inner.by_second.resize(second + 1, 0);
        }
        inner.by_second[second] += count;
        inner.last = Some(since);
    }

    /// Records the wait of `count` operations that were never sent: latency without throughput.
    pub(crate) fn charge(&self, micros: u64, count: u64) {
        self.inner.lock().histogram.saturating_record_n(micros.max(1), count);
    }

    /// Returns the number of recorded times.
    pub(crate) fn count(&self) -> u64 {
        self.inner.lock().histogram.len()
    }

    /// Returns the percentiles of all times.
    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles::of_histogram(&self.inner.lock().histogram)
    }

    /// Returns the time from the start to the last record.
    pub(crate) fn lasted(&self) -> Duration {
        self.inner.lock().last.unwrap_or_default()
    }

    /// Returns the timers of each second.
    pub(crate) fn by_second(&self) -> Vec<u64> {
        self.inner.lock().by_second.clone()
    }

    /// Returns the distribution: (share of the times that are not longer, time in ms). The longest
    /// of `n` times has the share n / (n + 1), so an axis of nines can show it.
    #[expect(clippy::cast_precision_loss, reason = "for a picture")]
    pub(crate) fn distribution(&self) -> Vec<(f64, f64)> {
        let inner = self.inner.lock();
        let all = inner.histogram.len() as f64;
        let steps = inner.histogram.iter_quantiles(4);
        steps
            .map(|step| {
                let share = step.quantile_iterated_to().min(all / (all + 1.0));
                (share, step.value_iterated_to() as f64 / 1_000.0)
            })
            .take(400)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_ends_below_100_percent() {
        let recorder = Recorder::default();
        assert!(recorder.distribution().is_empty());
        (0..99).for_each(|_| recorder.record(1_000, 1));
        recorder.record(50_000, 1);
        let points = recorder.distribution();
        let (share, ms) = points[points.len() - 1];
        assert!((share - 100.0 / 101.0).abs() < 1e-9 && (50.0..50.1).contains(&ms), "{points:?}");
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{points:?}");
    }
}
