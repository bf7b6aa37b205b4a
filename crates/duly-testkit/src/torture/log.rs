//! Log of torture runs: one line per run, and the total over all runs.
//!
//! A line consists of `name=value` words, so people, `grep` and [`RunTotals::add`] can read it. Lines
//! are only appended. An unreadable line is counted, not silently skipped.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLine {
    /// Seed of its random choices.
    pub seed: u64,
    /// Seconds under load.
    pub seconds: u64,
    /// Kills of the server with -9.
    pub kills: u64,
    /// Stops of the server, the webhook receiver or a consumer.
    pub stops: u64,
    /// Steps of the clock that another process made during the run.
    pub clock_steps: u64,
    /// Operations of callers.
    pub operations: u64,
    /// Deliveries to receivers and consumers.
    pub firings: u64,
    /// Verdict of the run.
    pub verdict: RunVerdict,
}

/// Verdict of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunVerdict {
    /// No findings.
    Clean,
    /// No findings so far: the run ended early, so a loss would not be visible.
    #[default]
    CleanSoFar,
    /// Findings were counted but not judged, because the setup allows losses.
    Counted,
    /// A promise was broken.
    Failed,
}

impl RunVerdict {
    const ALL: [Self; 4] = [Self::Clean, Self::CleanSoFar, Self::Counted, Self::Failed];

    const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::CleanSoFar => "clean_so_far",
            Self::Counted => "counted",
            Self::Failed => "FAILED",
        }
    }
}

impl fmt::Display for RunLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, seconds, kills, stops, clock_steps, operations, firings, verdict } = self;
        let verdict = verdict.word();
        write!(
            f,
            "torture seed={seed} seconds={seconds} kills={kills} stops={stops} \
             clock_steps={clock_steps} operations={operations} firings={firings} verdict={verdict}"
        )
    }
}

impl RunLine {
    /// Returns the line of a run that could not continue, for example because the server ended by
    /// itself.
    pub fn failed_early(seed: u64) -> Self {
        Self { seed, verdict: RunVerdict::Failed, ..Self::default() }
    }

    /// Parses a line; `None` if it is not a complete line of a run.
    pub fn parse(text: &str) -> Option<Self> {
        let words = text.strip_prefix("torture ")?;
        let value = |name: &str| {
            words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name: &str| value(name)?.parse::<u64>().ok();
        let verdict = value("verdict")?;
        Some(Self {
            seed: number("seed")?,
            seconds: number("seconds")?,
            kills: number("kills")?,
            stops: number("stops")?,
            clock_steps: number("clock_steps")?,
            operations: number("operations")?,
            firings: number("firings")?,
            verdict: RunVerdict::ALL.into_iter().find(|known| known.word() == verdict)?,
        })
    }

    /// Appends the line to a file; creates the file if it is missing.
    pub fn append(&self, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(format!("{self}\n").as_bytes())
    }
}

/// Totals over the lines of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTotals {
    runs: u64,
    sum: RunLine,
    /// Runs with each verdict, in the order of [`RunVerdict::ALL`].
    verdicts: [u64; RunVerdict::ALL.len()],
    unreadable: u64,
}

impl RunTotals {
    /// Returns the total over all lines of a text.
    pub fn of(text: &str) -> Self {
        let mut total = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match RunLine::parse(line) {
                Some(line) => total.add(&line),
                None => total.unreadable += 1,
            }
        }
        total
    }

    /// Adds one more run.
    pub fn add(&mut self, line: &RunLine) {
        self.runs += 1;
        self.sum.seconds += line.seconds;
        self.sum.kills += line.kills;
        self.sum.stops += line.stops;
        self.sum.clock_steps += line.clock_steps;
        self.sum.operations += line.operations;
        self.sum.firings += line.firings;
        self.verdicts[line.verdict as usize] += 1;
    }

    /// Returns `true` if there is at least one run, and none with a failure or an unreadable line.
    pub const fn is_clean(&self) -> bool {
        self.runs > 0 && self.verdicts[RunVerdict::Failed as usize] == 0 && self.unreadable == 0
    }
}

impl fmt::Display for RunTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunLine { seconds, kills, stops, clock_steps, operations, firings, .. } = self.sum;
        let [clean, clean_so_far, counted, failed] = self.verdicts;
        writeln!(
            f,
            "{} runs, {} h {:02} min {:02} s: {clean} clean, {clean_so_far} clean so far, {failed} failed",
            self.runs,
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
        )?;
        writeln!(
            f,
            "{kills} kills, {stops} stops, {clock_steps} clock steps, {operations} operations, \
             {firings} firings"
        )?;
        if counted > 0 {
            writeln!(f, "{counted} counted and not judged")?;
        }
        if self.unreadable > 0 {
            writeln!(f, "{} lines are unreadable", self.unreadable)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: u64, verdict: RunVerdict) -> RunLine {
        RunLine {
            seed: 7,
            seconds,
            kills: 2,
            stops: 3,
            clock_steps: 4,
            operations: 50,
            firings: 60,
            verdict,
        }
    }

    #[test]
    fn log_lines_round_trip_and_partial_lines_are_rejected() {
        for verdict in RunVerdict::ALL {
            let text = line(60, verdict).to_string();
            assert_eq!(RunLine::parse(&text), Some(line(60, verdict)));
            assert_eq!(RunLine::parse(&text[..text.len() - 1]), None, "{text}");
        }
        assert_eq!(RunLine::parse("nothing"), None);
    }

    #[test]
    fn totals_sum_lines_and_one_failure_fails_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        line(3_000, RunVerdict::Clean).append(&file).unwrap();
        line(661, RunVerdict::CleanSoFar).append(&file).unwrap();
        let read = || std::fs::read_to_string(&file).unwrap();
        let total = RunTotals::of(&read());
        assert!(total.is_clean());
        assert_eq!(
            total.to_string(),
            "2 runs, 1 h 01 min 01 s: 1 clean, 1 clean so far, 0 failed\n\
             4 kills, 6 stops, 8 clock steps, 100 operations, 120 firings\n"
        );
        line(1, RunVerdict::Failed).append(&file).unwrap();
        assert!(!RunTotals::of(&read()).is_clean());
        assert!(!RunTotals::of("").is_clean());
        let unreadable =
            RunTotals::of(&format!("{}\nsomething else\n", line(1, RunVerdict::Clean)));
        assert!(!unreadable.is_clean());
        assert!(unreadable.to_string().ends_with("1 lines are unreadable\n"));
    }
}
