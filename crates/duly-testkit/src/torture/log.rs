//! One line for each run, and their sum: how long the server has been tortured in all.
//!
//! A line is words of `name=value`, so that it can be read by a person, by `grep` and by
//! [`Total::add`]. Lines are only ever appended; a line that is none is counted, not skipped over
//! in silence.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// What a run comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line {
    /// Where its random choices started.
    pub seed: u64,
    /// Seconds under load.
    pub seconds: u64,
    /// Times the server was killed with -9.
    pub kills: u64,
    /// Times somebody stood still: the server, the webhook receiver or a consumer.
    pub stops: u64,
    /// Steps of the clock; those that were made beside the run, in process.
    pub clock_steps: u64,
    /// Callers' operations.
    pub operations: u64,
    /// Firings that reached a receiver or a consumer.
    pub firings: u64,
    /// Its end.
    pub verdict: End,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum End {
    /// Nothing to object to.
    Clean,
    /// Nothing to object to so far: it was broken off before the end that shows a loss.
    #[default]
    CleanSoFar,
    /// What was found was counted and not judged, as something may be lost there.
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
    /// Of a run that could not go on, as when the server ended by itself.
    pub fn broken_off(seed: u64) -> Self {
        Self { seed, verdict: End::Failed, ..Self::default() }
    }

    /// Reads a line back; `None` where it is none, or not whole.
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

    /// Appends it to a file, which is made where there is none.
    pub fn append(&self, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(format!("{self}\n").as_bytes())
    }
}

/// What the lines of a file come to.
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
    /// Of all lines of a text.
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

    /// Adds one more.
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

    /// Whether there is a run, and nothing to object to in any.
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
    fn a_line_is_read_back_as_it_was_written_and_half_a_line_is_none() {
        for verdict in End::ALL {
            let text = line(60, verdict).to_string();
            assert_eq!(Line::parse(&text), Some(line(60, verdict)));
            assert_eq!(Line::parse(&text[..text.len() - 1]), None, "{text}");
        }
        assert_eq!(Line::parse("nothing"), None);
    }

    #[test]
    fn lines_of_a_file_add_up_and_one_failure_is_not_outweighed() {
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
