//! Fairness between namespaces with the same load. Pure arithmetic.

use crate::{clock::seconds_since, table::Table};

/// Differences between the namespaces. Times count from the first due time of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fairness {
    /// Time until the first namespace had received its last firing.
    pub(crate) first_s: f64,
    /// Time until half of the namespaces had.
    pub p50_s: f64,
    /// Time until 99 % of them had.
    pub p99_s: f64,
    /// Time until all had.
    pub(crate) last_s: f64,
    /// Jain's index of these times.
    pub(crate) jain_of_lasts: f64,
    /// Fewest firings that one namespace had received when half of all firings were received.
    pub(crate) half_least: f64,
    /// Most firings that one namespace had received at that time.
    pub(crate) half_most: f64,
    /// Jain's index of the numbers of firings at that time.
    pub(crate) jain_at_half: f64,
}

impl Fairness {
    /// Returns the fairness of receive times (Unix µs). The first `each` times belong to the first
    /// namespace, and so on.
    pub(crate) fn of(times_us: &[u64], each: usize, begin_ms: u64) -> Self {
        let mut sorted = times_us.to_vec();
        sorted.sort_unstable();
        let half_us = sorted.get(sorted.len().div_ceil(2).saturating_sub(1)).copied().unwrap_or(0);
        let mut lasts = Vec::new();
        let mut at_half = Vec::new();
        for own in times_us.chunks(each.max(1)) {
            let last_us = own.iter().copied().max().unwrap_or(0);
            lasts.push(seconds_since(begin_ms, last_us));
            let count = own.iter().filter(|at_us| **at_us <= half_us).count();
            at_half.push(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
        }
        lasts.sort_unstable_by(f64::total_cmp);
        let at = |hundredths: usize| {
            let place = (lasts.len() * hundredths).div_ceil(100).saturating_sub(1);
            lasts.get(place).copied().unwrap_or(f64::NAN)
        };
        Self {
            first_s: at(0),
            p50_s: at(50),
            p99_s: at(99),
            last_s: at(100),
            jain_of_lasts: jain(&lasts),
            half_least: at_half.iter().copied().fold(f64::INFINITY, f64::min),
            half_most: at_half.iter().copied().fold(0.0, f64::max),
            jain_at_half: jain(&at_half),
        }
    }

    /// Adds the fairness to the table, beside `ideal`: that of the due times.
    pub(crate) fn add_into(&self, ideal: &Self, table: &mut Table) {
        for (name, seconds) in [
            ("a namespace's last out: first", self.first_s),
            ("a namespace's last out: p50", self.p50_s),
            ("a namespace's last out: p99", self.p99_s),
            ("a namespace's last out: last", self.last_s),
        ] {
            table.add(name, "s", seconds);
        }
        table.add("a namespace's last out: Jain's (1 is fair)", "", self.jain_of_lasts);
        table.add("the same, if all came when due", "", ideal.jain_of_lasts);
        table.add("when half is out, of a namespace: fewest", "", self.half_least);
        table.add("when half is out, of a namespace: most", "", self.half_most);
        table.add("when half is out: Jain's index (1 is fair)", "", self.jain_at_half);
        table.add("the same then, if all came when due", "", ideal.jain_at_half);
    }
}

/// Returns Jain's fairness index (Jain, Chiu and Hawe, 1984): 1 if all values are equal, 1/n if one
/// value is everything.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    sum * sum / (values.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_index_of_equal_shares_and_of_one_winner() {
        assert!(close(jain(&[2.0, 2.0, 2.0, 2.0]), 1.0));
        assert!(close(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25));
        assert!(close(jain(&[1.0, 3.0]), 0.8));
    }

    #[test]
    fn round_robin_is_fair_and_sequential_is_not() {
        // Two namespaces, two timers each; in turn: a b a b.
        let fair = Fairness::of(&[1_000_000, 3_000_000, 2_000_000, 4_000_000], 2, 0);
        assert!(close(fair.first_s, 3.0) && close(fair.last_s, 4.0), "{fair:?}");
        assert!(close(fair.half_least, 1.0) && close(fair.half_most, 1.0), "{fair:?}");
        assert!(close(fair.jain_at_half, 1.0), "{fair:?}");
        // a a b b.
        let unfair = Fairness::of(&[1_000_000, 2_000_000, 3_000_000, 4_000_000], 2, 0);
        assert!(close(unfair.first_s, 2.0) && close(unfair.p50_s, 2.0), "{unfair:?}");
        assert!(close(unfair.half_least, 0.0) && close(unfair.half_most, 2.0), "{unfair:?}");
        assert!(close(unfair.jain_at_half, 0.5), "{unfair:?}");
        assert!(unfair.jain_of_lasts < fair.jain_of_lasts);
    }
}
