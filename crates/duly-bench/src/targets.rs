//! Targets of the design, as a table: row, figure, and largest number of timers.
//!
//! A target for `n` timers holds for fewer timers too. The smallest target that covers the run
//! counts. A figure without such a target has no verdict.

use crate::report::{Report, Target, Verdict};

/// One target.
struct Asked {
    row: &'static str,
    figure: &'static str,
    /// Largest number of timers for which the target holds.
    timers_max: u64,
    bound: Bound,
    text: &'static str,
}

/// The bound of a figure.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

use Bound::{AtLeast, AtMost};

const ANY: u64 = u64::MAX;
const M: u64 = 1_000_000;

const fn asked(
    (row, figure): (&'static str, &'static str),
    timers_max: u64,
    bound: Bound,
    text: &'static str,
) -> Asked {
    Asked { row, figure, timers_max, bound, text }
}

/// All targets. Those of one figure are in order of `timers_max`.
const TARGETS: &[Asked] = &[
    asked(("ingest-serial", "per_second"), 5 * M, AtLeast(800e3), "≥ 800 k/s at 5 M"),
    asked(("ingest-serial", "per_second"), 20 * M, AtLeast(500e3), "≥ 500 k/s at 20 M"),
    asked(("ingest", "per_second"), 5 * M, AtLeast(800e3), "≥ 800 k/s at 5 M"),
    asked(("ingest", "per_second"), 20 * M, AtLeast(500e3), "≥ 500 k/s at 20 M"),
    asked(("ingest", "cpu"), 20 * M, AtMost(1.5), "≤ 1.5 µs each"),
    asked(("ingest-serial", "cpu"), 20 * M, AtMost(1.5), "≤ 1.5 µs each"),
    asked(("ingest-4x64", "per_second"), ANY, AtLeast(450e3), "≥ 450 k/s"),
    asked(("cancel", "per_second"), ANY, AtLeast(1e6), "≥ 1 M/s"),
    asked(("reschedule", "per_second"), ANY, AtLeast(300e3), "≥ 300 k/s warm"),
    asked(("existing", "per_second"), ANY, AtLeast(1e6), "≥ 1 M/s"),
    asked(("fire", "per_second"), ANY, AtLeast(300e3), "≥ 300 k/s warm"),
    asked(("fire-cold", "per_second"), 20 * M, AtLeast(200e3), "≥ 200 k/s cold at 20 M"),
    asked(("hot", "1 M in"), ANY, AtMost(3.5), "1 M ≤ 3.5 s with ack"),
    asked(("hot-claim", "1 M in"), ANY, AtMost(1.5), "1 M ≤ 1.5 s claim + read"),
    asked(("latency", "p99.9"), 20 * M, AtMost(10.0), "p99.9 ≤ 10 ms"),
    asked(("latency", "p99.99"), 20 * M, AtMost(50.0), "p99.99 ≤ 50 ms"),
    asked(("resident", "resident"), 10 * M, AtMost(40.0), "≤ 40 B at 10 M"),
    asked(("resident", "resident"), 100 * M, AtMost(36.0), "≤ 36 B at 100 M"),
    asked(("resident", "reopened after kill"), 10 * M, AtMost(40.0), "≤ 40 B at 10 M"),
    asked(("resident", "reopened after kill"), 100 * M, AtMost(36.0), "≤ 36 B at 100 M"),
    asked(("disk", "settled/logical"), ANY, AtMost(2.0), "≤ 2x logical after settling"),
    asked(("reclaim", "within limit after"), 10 * M, AtMost(120.0), "≤ 3x live + 1 GiB in 2 min"),
    asked(("killed", "open"), 5 * M, AtMost(1.0), "5 M ≤ 1 s"),
    asked(("killed", "open"), 100 * M, AtMost(10.0), "100 M ≤ 10 s warm"),
    asked(("killed", "first firing after"), 100 * M, AtMost(1_000.0), "≤ 1 s after the open"),
    asked(("killed-cold", "open"), 100 * M, AtMost(25.0), "100 M ≤ 25 s cold"),
    asked(("killed-cold", "first firing after"), 100 * M, AtMost(1_000.0), "≤ 1 s after the open"),
    asked(("idle", "of a core"), 10 * M, AtMost(1.0), "< 1 % of a core at 10 M"),
    asked(("lists", "p99"), 10 * M, AtMost(50.0), "page ≤ 50 ms at 10 M"),
    asked(("lists", "commit p99.9 ratio"), 10 * M, AtMost(1.2), "commit p99.9 ≤ 1.2x, paired"),
    asked(("webhooks", "per_second"), ANY, AtLeast(20e3), "≥ 20 k/s"),
];

/// Adds the targets for this number of timers, with verdicts, to the figures.
pub(crate) fn judge(report: &mut Report, timers: u64) {
    for row in &mut report.rows {
        for figure in &mut row.figures {
            let asked = TARGETS.iter().find(|asked| {
                asked.row == row.name && asked.figure == figure.name && timers <= asked.timers_max
            });
            figure.target = asked.map(|asked| Target {
                text: asked.text,
                verdict: asked.bound.verdict(figure.median),
            });
        }
    }
}

impl Bound {
    fn verdict(self, value: f64) -> Verdict {
        let met = match self {
            AtLeast(bound) => value >= bound,
            AtMost(bound) => value <= bound,
        };
        if met { Verdict::Met } else { Verdict::Missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn the_smallest_size_that_covers_the_run_decides() {
        let machine = Machine::of(std::path::Path::new("."));
        let mut report = Report::new(String::new(), machine);
        report.row("ingest", String::new(), 1).add("per_second", "/s", 600e3);
        for (timers, expected) in [
            (1, Some(Verdict::Missed)),
            (5 * M, Some(Verdict::Missed)),
            (5 * M + 1, Some(Verdict::Met)),
            (20 * M, Some(Verdict::Met)),
            (20 * M + 1, None),
        ] {
            judge(&mut report, timers);
            let target = report.rows[0].figures[0].target.as_ref();
            assert_eq!(target.map(|target| target.verdict), expected, "{timers}");
        }
        assert_eq!(AtMost(1.0).verdict(1.0), Verdict::Met);
        assert_eq!(AtMost(1.0).verdict(f64::INFINITY), Verdict::Missed);
        assert_eq!(AtMost(1.0).verdict(f64::NAN), Verdict::Missed);
    }

    #[test]
    fn targets_of_one_figure_stand_in_order() {
        for pair in TARGETS.windows(2) {
            let same = (pair[0].row, pair[0].figure) == (pair[1].row, pair[1].figure);
            assert!(!same || pair[0].timers_max < pair[1].timers_max, "{}", pair[0].text);
        }
    }
}
