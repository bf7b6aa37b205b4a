//! Output of a torture run: progress lines, and the report.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::finish::Finished;
use super::log::{self, Line};
use super::world::{WELL, World};
use super::{Options, Store};
use crate::checker::{self, Percentiles, Verdict};
use crate::history::{Answer, History, SettleAnswer, Via, Who};

/// Time between two progress lines.
const EVERY: Duration = Duration::from_secs(5);

/// Highest p99 lateness on the lane of the well-behaved receiver, apart from kills and stops: other
/// receivers' faults must not affect it. The limit is high, because the machine may be busy.
const WELL_LATE_MAX: Duration = Duration::from_secs(5);

/// Duration of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    /// Duration of the load.
    pub(super) loaded: Duration,
    /// Duration with drain and reads.
    pub(super) all: Duration,
}

/// Tells whether findings of the checker count as failures of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judged {
    Strictly,
    /// The setup allows losses: the findings are only counted.
    OnlyCounted,
}

/// Report of a run.
#[derive(Debug)]
pub struct Report {
    command: String,
    took: Took,
    line: Line,
    well: Percentiles,
    drained: bool,
    operations: BTreeMap<(&'static str, &'static str), usize>,
    judged: Judged,
    /// Further lines.
    told: Vec<String>,
    skipped: Vec<String>,
    /// Verdict of the checker.
    pub verdict: Verdict,
    /// Broken expectations outside the history.
    pub complaints: Vec<String>,
    /// Folder of the evidence.
    pub kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        history: &History,
        verdict: Verdict,
        mut finished: Finished,
        took: Took,
        judged: Judged,
    ) -> Self {
        let well = checker::untouched(history, WELL);
        if Duration::from_micros(well.p99_us) > WELL_LATE_MAX {
            finished.complaints.push(format!("the well-behaved receiver was not served: {well}"));
        }
        let mut line = Line {
            seed: options.seed,
            seconds: took.loaded.saturating_sub(own_stops(history)).as_secs(),
            kills: history.crashes.len() as u64,
            stops: history.stops.iter().filter(|stop| stop.who != Who::Run).count() as u64,
            clock_steps: options.clock_steps,
            operations: history.operations.len() as u64,
            firings: history.deliveries.len() as u64,
            verdict: log::End::CleanSoFar,
        };
        let is_clean = verdict.is_clean() || judged == Judged::OnlyCounted;
        if !is_clean || !finished.complaints.is_empty() {
            line.verdict = log::End::Failed;
        } else if judged == Judged::OnlyCounted {
            line.verdict = log::End::Counted;
        } else if finished.drained {
            line.verdict = log::End::Clean;
        }
        let mut operations = BTreeMap::new();
        for operation in &history.operations {
            let outcome = match operation.answer {
                Answer::Refused => "refused",
                Answer::InDoubt => "in doubt",
                Answer::Unchanged => "no change",
                _ => "done",
            };
            *operations.entry((operation.action.name(), outcome)).or_insert(0) += 1;
        }
        for settle in &history.settles {
            let outcome = match settle.answer {
                SettleAnswer::InDoubt => "in doubt",
                SettleAnswer::LeaseLost | SettleAnswer::InvalidToken => "refused",
                SettleAnswer::AlreadySettled => "no change",
                SettleAnswer::Ok | SettleAnswer::Dead => "done",
            };
            *operations.entry(("settle", outcome)).or_insert(0) += 1;
        }
        for delivery in &history.deliveries {
            let via = match delivery.via {
                Via::Pull { .. } => "pull",
                Via::Push { .. } => "webhook",
            };
            *operations.entry(("delivered", via)).or_insert(0) += 1;
        }
        Self {
            command: command(options),
            judged,
            told: Vec::new(),
            skipped: finished.skipped,
            took,
            line,
            well,
            drained: finished.drained,
            operations,
            verdict,
            complaints: finished.complaints,
            kept: None,
        }
    }

    /// Adds lines about the faults of a run, and the numbers of processes that the faults killed
    /// and stopped. The history of such a run has no kills, and counts each fault as a stop.
    pub(super) fn tell(&mut self, lines: Vec<String>, kills: usize, stops: usize) {
        self.told.extend(lines);
        self.line.kills = kills as u64;
        self.line.stops = stops as u64;
    }

    /// Returns the line of the run for the log.
    pub const fn line(&self) -> Line {
        self.line
    }

    /// Returns `true` if no promise was broken.
    pub fn is_clean(&self) -> bool {
        let is_right = self.verdict.is_clean() || self.judged == Judged::OnlyCounted;
        is_right && self.complaints.is_empty()
    }
}

/// Returns the command that repeats a run.
fn command(options: &Options) -> String {
    let Options { minutes, seed, stops_per_minute, .. } = options;
    let mut command = format!("cargo xtask torture --minutes {minutes} --seed {seed}");
    match options.store {
        Store::Embedded => {
            command += &format!(" --kills-per-minute {}", options.kills_per_minute);
        }
        Store::RedisCluster => {
            command += " --store redis-cluster";
            if options.min_replicas != 1 {
                command += &format!(" --min-replicas {}", options.min_replicas);
            }
            if options.replicas != 1 {
                command += &format!(" --replicas {}", options.replicas);
            }
            if let Some(away) = options.master_away {
                command += &format!(" --master-away {away}");
            }
            if !options.faults.is_empty() {
                let faults: Vec<_> = options.faults.iter().map(ToString::to_string).collect();
                command += &format!(" --faults {}", faults.join(","));
            }
        }
    }
    command += &format!(" --stops-per-minute {stops_per_minute}");
    if let Some(rate) = options.rate {
        command += &format!(" --rate {rate}");
    }
    command
}

/// Returns the total duration of stops of the run itself: there was no load meanwhile.
fn own_stops(history: &History) -> Duration {
    let own = history.stops.iter().filter(|stop| stop.who == Who::Run);
    Duration::from_micros(own.map(|stop| stop.to_us.saturating_sub(stop.from_us)).sum())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { kills, stops, .. } = self.line;
        writeln!(f, "torture: {kills} kills and {stops} stops in {:.0?}", self.took.all)?;
        for line in &self.told {
            writeln!(f, "  {line}")?;
        }
        for ((name, outcome), count) in &self.operations {
            writeln!(f, "  {name:<11}{outcome:<35}{count:>10}")?;
        }
        write!(f, "{}", self.verdict)?;
        writeln!(f, "  lateness, left alone  {}", self.well)?;
        for complaint in &self.complaints {
            writeln!(f, "  ! {complaint}")?;
        }
        for skipped in &self.skipped {
            writeln!(f, "  SKIPPED {skipped}")?;
        }
        if !self.drained {
            writeln!(f, "  broken off: nothing was drained or read back, so a loss is not seen")?;
        }
        if let Some(kept) = &self.kept {
            let history = kept.join("history.json");
            writeln!(f, "  kept: {}", kept.display())?;
            writeln!(f, "  judge again: duly-torture --judge {}", history.display())?;
        }
        if self.is_clean() && self.judged == Judged::OnlyCounted {
            writeln!(
                f,
                "verdict: none; failover is asynchronous, so what was found is only counted"
            )
        } else if self.is_clean() && !self.drained {
            writeln!(f, "verdict: clean so far")
        } else if self.is_clean() {
            writeln!(f, "verdict: clean")
        } else {
            writeln!(f, "verdict: FAILED; repeat with\n  {}", self.command)
        }
    }
}

/// Prints a line every few seconds until it is aborted.
pub(super) async fn progress(world: Arc<World>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.tick().await;
    let mut passed = Duration::ZERO;
    loop {
        ticks.tick().await;
        passed += EVERY;
        let sizes = world.recorder.sizes();
        println!(
            "{:>5} s  {:?}: {} operations, {} deliveries, {} settlements, {} kills, {} stops",
            passed.as_secs(),
            world.phase(),
            sizes.operations,
            sizes.deliveries,
            sizes.settles,
            sizes.crashes,
            sizes.stops
        );
    }
}
