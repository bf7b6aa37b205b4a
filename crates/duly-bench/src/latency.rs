//! Latencies of calls, as percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A histogram of durations with three significant digits.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new(3).expect("three digits are allowed"))
    }

    pub(crate) fn record(&mut self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(nanoseconds).expect("a histogram that resizes takes any value");
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("a histogram that resizes takes any other");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the latency in milliseconds at the quantile `share` (0 to 1); 0 if nothing was
    /// recorded.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_everything_recorded() {
        let (mut all, mut slow) = (Latencies::new(), Latencies::new());
        for _ in 0..99 {
            all.record(Duration::from_millis(1));
        }
        slow.record(Duration::from_secs(10));
        all.add(&slow);
        assert_eq!(all.count(), 100);
        assert!((all.quantile_ms(0.5) - 1.0).abs() < 0.01, "{}", all.quantile_ms(0.5));
        assert!((all.quantile_ms(1.0) - 10_000.0).abs() < 20.0, "{}", all.quantile_ms(1.0));
        assert!(Latencies::new().quantile_ms(0.99).abs() < f64::EPSILON);
    }
}
