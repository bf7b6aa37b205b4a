//! The differences between two polls: rates from counters, quantiles from histograms.
//!
//! A counter never falls while a server lives. If a counter has fallen, the server has restarted. Then
//! its current counts all belong to the time since the restart.

use serde::Serialize;

use super::scrape::{Metrics, Series};

/// The metrics of two polls.
pub(super) struct Comparison<'a> {
    before: &'a Metrics,
    now: &'a Metrics,
    /// `true`: the server has restarted between the polls.
    pub(super) has_restarted: bool,
}

/// The quantiles of a histogram over an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Quantiles {
    /// Number of values in the interval.
    pub(super) count: u64,
    /// Median.
    pub(super) p50_ms: f64,
    /// 99th percentile.
    pub(super) p99_ms: f64,
    /// Upper bound of the largest value; none if the last bucket is not bounded.
    pub(super) max_ms: Option<f64>,
}

impl<'a> Comparison<'a> {
    /// Returns the comparison of two polls.
    pub(super) fn new(before: &'a Metrics, now: &'a Metrics) -> Self {
        let has_fallen = |(key, series): (&String, &Series)| {
            never_falls(&series.name)
                && series.value > now.0.get(key).map_or(0.0, |series| series.value)
        };
        Self { before, now, has_restarted: before.0.iter().any(has_fallen) }
    }

    /// Returns the growth of the counters with this name and the wanted labels.
    pub(super) fn growth(&self, name: &str, wants: impl Fn(&Series) -> bool) -> f64 {
        let now = self.now.0.iter();
        let wanted = now.filter(|(_, series)| series.name == name && wants(series));
        wanted.map(|(key, series)| series.value - self.earlier(key)).sum()
    }

    /// Returns the quantiles of the histogram with this name, over all its labels; none if it has no new
    /// values.
    pub(super) fn quantiles(&self, name: &str) -> Option<Quantiles> {
        let bucket = format!("{name}_bucket");
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (key, series) in self.now.0.iter().filter(|(_, series)| series.name == bucket) {
            let Some(bound) = series.label("le").and_then(|le| le.parse::<f64>().ok()) else {
                continue;
            };
            let grown = series.value - self.earlier(key);
            match buckets.iter_mut().find(|(known, _)| known.total_cmp(&bound).is_eq()) {
                Some((_, sum)) => *sum += grown,
                None => buckets.push((bound, grown)),
            }
        }
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        of_buckets(&buckets)
    }

    fn earlier(&self, key: &str) -> f64 {
        let before = self.before.0.get(key).filter(|_| !self.has_restarted);
        before.map_or(0.0, |series| series.value)
    }
}

impl Metrics {
    /// Returns the sum of the series with this name and the wanted labels.
    pub(super) fn sum(&self, name: &str, wants: impl Fn(&Series) -> bool) -> f64 {
        let wanted = self.0.values().filter(|series| series.name == name && wants(series));
        wanted.map(|series| series.value).sum()
    }

    /// Returns the value of a gauge without labels.
    pub(super) fn gauge(&self, name: &str) -> Option<f64> {
        self.0.values().find(|series| series.name == name).map(|series| series.value)
    }
}

impl Series {
    /// Returns the value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(label, _)| label == name);
        label.map(|(_, value)| value.as_str())
    }
}

/// Returns `true` for the name of a series that never falls.
fn never_falls(name: &str) -> bool {
    ["_total", "_count", "_bucket"].iter().any(|end| name.ends_with(end))
}

/// Returns the quantiles of cumulative buckets, sorted by their bounds in seconds. Like Prometheus, it
/// interpolates linearly within a bucket. A value above the last bound counts as that bound.
fn of_buckets(buckets: &[(f64, f64)]) -> Option<Quantiles> {
    let count = buckets.last().map(|(_, count)| *count).filter(|count| *count >= 1.0)?;
    let at = |quantile: f64| {
        let rank = quantile * count;
        let index = buckets.iter().position(|(_, below)| *below >= rank).unwrap_or(0);
        let (low, below) = match index {
            0 => (0.0, 0.0),
            _ => buckets[index - 1],
        };
        let (high, upto) = buckets[index];
        let seconds = if high.is_finite() {
            low + (high - low) * ((rank - below) / (upto - below).max(f64::MIN_POSITIVE)).min(1.0)
        } else {
            low
        };
        seconds * 1_000.0
    };
    let max = buckets.iter().find(|(_, below)| *below >= count).map(|(bound, _)| *bound);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = count as u64;
    let max_ms = max.filter(|bound| bound.is_finite()).map(|bound| bound * 1_000.0);
    Some(Quantiles { count: whole, p50_ms: at(0.5), p99_ms: at(0.99), max_ms })
}

#[cfg(test)]
mod tests;
