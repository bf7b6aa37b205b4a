//! Lateness of the firings of each part of the run: one row per firing, and per tenth of a second.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::super::floor;

/// A measured part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Load beside the quiet lanes.
    pub(super) name: &'static str,
    /// Start, Unix µs.
    pub(super) begin_us: u64,
    /// End, Unix µs.
    pub(super) end_us: u64,
}

/// A source of lateness figures.
#[derive(Debug)]
pub(super) struct Source {
    /// Name of a quiet lane, or of the baseline.
    pub(super) name: &'static str,
    /// Due time (Unix µs) and lateness (µs) of each firing.
    pub(super) late_us: Vec<(u64, u64)>,
}

/// Length of an interval.
const INTERVAL_US: u64 = 100_000;

impl Stretch {
    /// Returns the firings of a source that were due in this part: time since its start, and
    /// lateness (both µs).
    pub(super) fn of(self, source: &Source) -> impl Iterator<Item = (u64, u64)> {
        let within = source
            .late_us
            .iter()
            .filter(move |(due_us, _)| *due_us >= self.begin_us && *due_us < self.end_us);
        within.map(move |(due_us, late_us)| (due_us - self.begin_us, *late_us))
    }

    /// Returns the length of the part.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) fn seconds(self) -> f64 {
        self.end_us.saturating_sub(self.begin_us) as f64 / 1e6
    }

    /// Returns the highest lateness of the firings due in each tenth of a second: seconds since the
    /// start, ms.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) fn worst_by_interval(self, source: &Source) -> Vec<(f64, f64)> {
        let mut worst = std::collections::BTreeMap::new();
        for (since_us, late_us) in self.of(source) {
            let most = worst.entry(since_us / INTERVAL_US).or_insert(late_us);
            *most = late_us.max(*most);
        }
        let seconds = |interval: u64| (interval * INTERVAL_US) as f64 / 1e6;
        worst.into_iter().map(|(at, late_us)| (seconds(at), floor::ms(late_us))).collect()
    }
}

/// Writes one line per firing of each part.
pub(super) fn write_csv(path: &Path, stretches: &[Stretch], sources: &[Source]) -> Result<()> {
    std::fs::write(path, csv(stretches, sources))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn csv(stretches: &[Stretch], sources: &[Source]) -> String {
    let mut text = "stretch,lane,seconds,late_ms\n".to_owned();
    for stretch in stretches {
        for source in sources {
            for (since_us, late_us) in stretch.of(source) {
                let (seconds, late_ms) = (since_us as f64 / 1e6, floor::ms(late_us));
                writeln!(text, "{},{},{seconds:.4},{late_ms:.3}", stretch.name, source.name)
                    .expect("a string takes all");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        let late_us =
            vec![(900_000, 1), (1_000_000, 2), (1_050_000, 7), (1_250_000, 5), (2_000_000, 9)];
        Source { name: "pull", late_us }
    }

    const STRETCH: Stretch = Stretch { name: "idle", begin_us: 1_000_000, end_us: 2_000_000 };

    #[test]
    fn a_phase_contains_only_firings_due_in_it() {
        let of: Vec<_> = STRETCH.of(&source()).collect();
        assert_eq!(of, [(0, 2), (50_000, 7), (250_000, 5)]);
        assert!((STRETCH.seconds() - 1.0).abs() < 1e-9);
        assert_eq!(
            csv(&[STRETCH], &[source()]),
            "stretch,lane,seconds,late_ms\nidle,pull,0.0000,0.002\nidle,pull,0.0500,0.007\n\
             idle,pull,0.2500,0.005\n"
        );
    }

    #[test]
    fn the_worst_of_each_tenth_of_a_second_is_drawn() {
        let worst = STRETCH.worst_by_interval(&source());
        assert_eq!(worst, [(0.0, 0.007), (0.2, 0.005)]);
    }
}
