//! Percentiles of times, from a histogram with three significant digits. All latency figures use
//! it.

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time that the histogram represents; longer ones count as this.
const MAX_US: u64 = 3_600_000_000;

/// Returns an empty histogram of microseconds. Its size is bounded.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_US, 3)
        .expect("one microsecond to an hour with three digits is a valid range")
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, PartialEq, Eq)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// 50 % of the values are at most this.
    pub p50_us: u64,
    /// 99 % of the values are at most this.
    pub p99_us: u64,
    /// 99.9 % of the values are at most this.
    pub p999_us: u64,
    /// Largest value.
    pub max_us: u64,
}

impl Percentiles {
    /// Returns the percentiles of these values.
    pub fn of(values_us: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = histogram();
        for value in values_us {
            histogram.saturating_record(value.max(1));
        }
        Self::of_histogram(&histogram)
    }

    /// Returns the percentiles of a histogram.
    pub fn of_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2} ms  of {}",
            ms(self.p50_us),
            ms(self.p99_us),
            ms(self.p999_us),
            ms(self.max_us),
            self.count
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}
