//! What a torture run prints: a line now and then, and the report.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Options;
use super::finish::Finished;
use super::world::World;
use crate::checker::Verdict;
use crate::history::{Answer, History, SettleAnswer, Via};

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

/// The end of a run.
#[derive(Debug)]
pub struct Report {
    command: String,
    took: Duration,
    kills: usize,
    drained: bool,
    operations: BTreeMap<(&'static str, &'static str), usize>,
    /// What the judge says.
    pub verdict: Verdict,
    /// Anything else that must not be.
    pub complaints: Vec<String>,
    /// Where the evidence is.
    pub kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        history: &History,
        verdict: Verdict,
        finished: Finished,
        took: Duration,
    ) -> Self {
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
            command: format!(
                "cargo xtask torture --minutes {} --seed {} --kills-per-minute {} --rate {}",
                options.minutes, options.seed, options.kills_per_minute, options.rate
            ),
            took,
            kills: history.crashes.len(),
            drained: finished.drained,
            operations,
            verdict,
            complaints: finished.complaints,
            kept: None,
        }
    }

    /// Whether nothing happened that must not.
    pub fn is_clean(&self) -> bool {
        self.verdict.is_clean() && self.complaints.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "torture: {} kills in {:.0?}", self.kills, self.took)?;
        for ((name, outcome), count) in &self.operations {
            writeln!(f, "  {name:<11}{outcome:<35}{count:>10}")?;
        }
        write!(f, "{}", self.verdict)?;
        for complaint in &self.complaints {
            writeln!(f, "  ! {complaint}")?;
        }
        if !self.drained {
            writeln!(f, "  broken off: nothing was drained or read back, so a loss is not seen")?;
        }
        if let Some(kept) = &self.kept {
            let history = kept.join("history.json");
            writeln!(f, "  kept: {}", kept.display())?;
            writeln!(f, "  judge again: duly-torture --judge {}", history.display())?;
        }
        if self.is_clean() && !self.drained {
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
            "{:>5} s  {:?}: {} operations, {} deliveries, {} settlements, {} kills",
            passed.as_secs(),
            world.phase(),
            sizes.operations,
            sizes.deliveries,
            sizes.settles,
            sizes.crashes
        );
    }
}
