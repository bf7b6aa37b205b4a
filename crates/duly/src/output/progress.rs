//! The progress of a long command: one line on stderr, which is overwritten in place.
//!
//! It is shown at a terminal only, and not with `--quiet`. It is drawn at most a few times per second.
//! Call [`Progress::clear`] before anything else is printed.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use super::{Printer, terminal::OutputStream, text};

/// Time between two updates.
const PAUSE: Duration = Duration::from_millis(100);
/// Length of the bar, in characters.
const BAR: u64 = 24;

/// The progress line.
pub(crate) struct Progress {
    is_shown: bool,
    width: usize,
    drawn_at: Option<Instant>,
    /// Number of characters on the line.
    drawn: usize,
}

impl Progress {
    /// Returns a progress line for a command with this printer.
    pub(crate) fn new(printer: Printer) -> Self {
        let screen = OutputStream::stderr();
        let is_shown = screen.is_terminal && !printer.is_quiet;
        let width = usize::from(screen.width.unwrap_or(80)).saturating_sub(1);
        Self { is_shown, width, drawn_at: None, drawn: 0 }
    }

    /// Shows the progress. `words` name the work.
    pub(crate) fn show(&mut self, done: u64, total: Option<u64>, words: &str) {
        let is_due = self.drawn_at.is_none_or(|at| at.elapsed() >= PAUSE);
        if self.is_shown && is_due {
            self.drawn_at = Some(Instant::now());
            self.draw(&line(done, total, words));
        }
    }

    /// Shows the progress in bytes of `what`.
    pub(crate) fn show_bytes(&mut self, what: &str, done: u64, total: u64) {
        let words = format!("{what}: {} of {}", text::bytes(done), text::bytes(total));
        self.show(done, Some(total), &words);
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if self.drawn > 0 {
            self.draw("");
            io::stderr().write_all(b"\r").ok();
        }
    }

    fn draw(&mut self, line: &str) {
        let line = text::preview(line, self.width.saturating_sub(1));
        let chars = line.chars().count();
        let rest = self.drawn.saturating_sub(chars);
        // An error is ignored: the progress is optional.
        write!(io::stderr(), "\r{line}{:rest$}", "").ok();
        self.drawn = chars;
    }
}

fn line(done: u64, total: Option<u64>, words: &str) -> String {
    let Some(total) = total.filter(|total| *total > 0) else {
        return words.to_owned();
    };
    let done = done.min(total);
    let share = |of: u64| u128::from(done) * u128::from(of) / u128::from(total);
    let filled = usize::try_from(share(BAR)).unwrap_or(0);
    let (full, empty) = ("#".repeat(filled), ".".repeat(BAR as usize - filled));
    format!("[{full}{empty}] {:>3}%  {words}", share(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_is_proportional_to_the_progress() {
        assert_eq!(line(0, Some(8), "x"), "[........................]   0%  x");
        assert_eq!(line(2, Some(8), "x"), "[######..................]  25%  x");
        assert_eq!(line(9, Some(8), "x"), "[########################] 100%  x");
        assert_eq!(line(u64::MAX, Some(u64::MAX), "x"), "[########################] 100%  x");
        for total in [None, Some(0)] {
            assert_eq!(line(2, total, "2 timers"), "2 timers");
        }
    }
}
