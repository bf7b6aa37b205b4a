//! Log of torture runs: one line per run, and the total over all runs.
//!
//! A line consists of `name=value` words, so people, `grep` and [`Total::add`] can read it. Lines
//! are only appended. An unreadable line is counted, not silently skipped.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Result of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line {
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
    /// End of the run.
    pub verdict: End,
}

/// End of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum End {
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

impl End {
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

impl fmt::Display for Line {
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

impl Line {
    /// Returns the line of a run that could not continue, for example because the server ended by
    /// itself.
    pub fn broken_off(seed: u64) -> Self {
        Self { seed, verdict: End::Failed, ..Self::default() }
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
            verdict: End::ALL.into_iter().find(|end| end.word() == verdict)?,
        })
    }

    /// Appends the line to a file; creates the file if it is missing.
    pub fn append(&self, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(format!("{self}\n").as_bytes())
    }
}

/// Total over the lines of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    runs: u64,
    of: Line,
    clean: u64,
    clean_so_far: u64,
    counted: u64,
    failed: u64,
    unreadable: u64,
}

impl Total {
    /// Returns the total over all lines of a text.
    pub fn of(text: &str) -> Self {
        let mut total = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match Line::parse(line) {
                Some(line) => total.add(&line),
                None => total.unreadable += 1,
            }
        }
        total
    }

    /// Adds one more run.
    pub fn add(&mut self, line: &Line) {
        self.runs += 1;
        self.of.seconds += line.seconds;
        self.of.kills += line.kills;
        self.of.stops += line.stops;
        self.of.clock_steps += line.clock_steps;
        self.of.operations += line.operations;
        self.of.firings += line.firings;
        match line.verdict {
            End::Clean => self.clean += 1,
            End::CleanSoFar => self.clean_so_far += 1,
            End::Counted => self.counted += 1,
            End::Failed => self.failed += 1,
        }
    }

    /// Returns `true` if there is at least one run, and none with a failure or an unreadable line.
    pub const fn is_clean(&self) -> bool {
        self.runs > 0 && self.failed == 0 && self.unreadable == 0
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { seconds, kills, stops, clock_steps, operations, firings, .. } = self.of;
        writeln!(
            f,
            "{} runs, {} h {:02} min {:02} s: {} clean, {} clean so far, {} failed",
            self.runs,
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            self.clean,
            self.clean_so_far,
            self.failed
        )?;
        writeln!(
            f,
            "{kills} kills, {stops} stops, {clock_steps} clock steps, {operations} operations, \
             {firings} firings"
        )?;
        if self.counted > 0 {
            writeln!(f, "{} counted and not judged", self.counted)?;
        }
        if self.unreadable > 0 {
            writeln!(f, "{} lines are none of a run", self.unreadable)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: u64, verdict: End) -> Line {
        Line {
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
        for verdict in End::ALL {
            let text = line(60, verdict).to_string();
            assert_eq!(Line::parse(&text), Some(line(60, verdict)));
            assert_eq!(Line::parse(&text[..text.len() - 1]), None, "{text}");
        }
        assert_eq!(Line::parse("nothing"), None);
    }

    #[test]
    fn totals_sum_lines_and_one_failure_fails_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        line(3_000, End::Clean).append(&file).unwrap();
        line(661, End::CleanSoFar).append(&file).unwrap();
        let read = || std::fs::read_to_string(&file).unwrap();
        let total = Total::of(&read());
        assert!(total.is_clean());
        assert_eq!(
            total.to_string(),
            "2 runs, 1 h 01 min 01 s: 1 clean, 1 clean so far, 0 failed\n\
             4 kills, 6 stops, 8 clock steps, 100 operations, 120 firings\n"
        );
        line(1, End::Failed).append(&file).unwrap();
        assert!(!Total::of(&read()).is_clean());
        assert!(!Total::of("").is_clean());
        let unreadable = Total::of(&format!("{}\nsomething else\n", line(1, End::Clean)));
        assert!(!unreadable.is_clean());
        assert!(unreadable.to_string().ends_with("1 lines are none of a run\n"));
    }
}
