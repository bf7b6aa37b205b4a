//! Output of a torture run: progress lines, and the report.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::finish::Finished;
use super::log::{RunLine, RunVerdict};
use super::world::{WELL_BEHAVED, World};
use super::{Options, Store};
use crate::checker::{self, Percentiles, Verdict};
use crate::history::{Answer, History, SettleAnswer, Stop, StoppedProcess, Via};

/// Time between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Highest p99 lateness on the lane of the well-behaved receiver, apart from kills and stops: other
/// receivers' faults must not affect it. The limit is high, because the machine may be busy.
const WELL_LATE_MAX: Duration = Duration::from_secs(5);

/// Report of a run.
#[derive(Debug)]
pub struct Report {
    command: String,
    line: RunLine,
    well: Percentiles,
    operations: BTreeMap<(&'static str, &'static str), usize>,
    fault_lines: Vec<String>,
    verdict: Verdict,
    finished: Finished,
    /// Folder of the evidence.
    pub(super) kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        history: &History,
        verdict: Verdict,
        mut finished: Finished,
    ) -> Self {
        let well = checker::untouched(history, WELL_BEHAVED);
        if Duration::from_micros(well.p99_us) > WELL_LATE_MAX {
            finished.complaints.push(format!("the well-behaved receiver was not served: {well}"));
        }
        // Without replicas there is no failover, so a failover can lose nothing.
        let may_lose = options.store == Store::RedisCluster
            && options.min_replicas == 0
            && options.replicas > 0;
        let is_clean = (verdict.is_clean() || may_lose) && finished.complaints.is_empty();
        let (own, stops): (Vec<&Stop>, Vec<&Stop>) =
            history.stops.iter().partition(|stop| stop.who == StoppedProcess::Run);
        // There is no load while the run itself is stopped.
        let own_us = own.iter().map(|stop| stop.to_us.saturating_sub(stop.from_us)).sum();
        let line = RunLine {
            seed: options.seed,
            seconds: finished.loaded.saturating_sub(Duration::from_micros(own_us)).as_secs(),
            kills: history.crashes.len() as u64,
            stops: stops.len() as u64,
            clock_steps: options.clock_steps,
            operations: history.operations.len() as u64,
            firings: history.deliveries.len() as u64,
            verdict: match finished.drained {
                _ if !is_clean => RunVerdict::Failed,
                _ if may_lose => RunVerdict::Counted,
                true => RunVerdict::Clean,
                false => RunVerdict::CleanSoFar,
            },
        };
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
        let (command, fault_lines, kept) = (command(options), Vec::new(), None);
        Self { command, line, well, operations, fault_lines, verdict, finished, kept }
    }

    /// Adds lines about the faults of a run, and the numbers of processes that the faults killed
    /// and stopped. The history of such a run has no kills, and counts each fault as a stop.
    pub(super) fn add_faults(&mut self, lines: Vec<String>, kills: usize, stops: usize) {
        self.fault_lines.extend(lines);
        self.line.kills = kills as u64;
        self.line.stops = stops as u64;
    }

    /// Returns the line of the run for the log.
    pub const fn line(&self) -> RunLine {
        self.line
    }

    /// Returns `true` if no promise was broken.
    pub fn is_clean(&self) -> bool {
        self.line.verdict != RunVerdict::Failed
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunLine { kills, stops, .. } = self.line;
        writeln!(f, "torture: {kills} kills and {stops} stops in {:.0?}", self.finished.took)?;
        for line in &self.fault_lines {
            writeln!(f, "  {line}")?;
        }
        for ((name, outcome), count) in &self.operations {
            writeln!(f, "  {name:<11}{outcome:<35}{count:>10}")?;
        }
        write!(f, "{}", self.verdict)?;
        writeln!(f, "  lateness, unchanged timers  {}", self.well)?;
        for complaint in &self.finished.complaints {
            writeln!(f, "  ! {complaint}")?;
        }
        for skipped in &self.finished.skipped {
            writeln!(f, "  SKIPPED {skipped}")?;
        }
        if !self.finished.drained {
            writeln!(
                f,
                "  ended early: nothing was drained or read back, so a loss would not be visible"
            )?;
        }
        if let Some(kept) = &self.kept {
            let history = kept.join("history.json");
            writeln!(f, "  kept: {}", kept.display())?;
            writeln!(f, "  judge again: duly-torture --judge {}", history.display())?;
        }
        f.write_str("verdict: ")?;
        match self.line.verdict {
            RunVerdict::Clean => writeln!(f, "clean"),
            RunVerdict::CleanSoFar => writeln!(f, "clean so far"),
            RunVerdict::Counted => {
                writeln!(f, "none; failover is asynchronous, so findings are only counted")
            }
            RunVerdict::Failed => writeln!(f, "FAILED; repeat with\n  {}", self.command),
        }
    }
}

/// Prints a line every few seconds until it is aborted.
pub(super) async fn progress(world: Arc<World>) {
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.tick().await;
    let mut passed = Duration::ZERO;
    loop {
        ticks.tick().await;
        passed += PROGRESS_INTERVAL;
        let (seconds, phase) = (passed.as_secs(), world.phase());
        println!("{seconds:>5} s  {phase:?}: {}", world.recorder.counts());
    }
}
