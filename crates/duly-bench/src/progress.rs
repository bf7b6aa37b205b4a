//! Progress of long work, printed on standard error a few times a minute.

use std::time::{Duration, Instant};

/// Shortest time between two lines.
const QUIET: Duration = Duration::from_secs(5);

/// Work of a known size.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    /// Time of the last line; `None` if nothing is printed.
    said_at: Option<Instant>,
}

impl Progress {
    /// Creates the progress of `total` items; `what` names the work ("filled").
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, said_at: Some(Instant::now()) }
    }

    /// Creates a progress that prints nothing: for short work, or when another progress covers the
    /// work.
    pub(crate) const fn silent() -> Self {
        Self { what: "", total: 0, said_at: None }
    }

    /// Prints that `done` items are done, unless the last line is too recent.
    pub(crate) fn at(&mut self, done: u64) {
        if self.said_at.is_none_or(|at| at.elapsed() < QUIET) {
            return;
        }
        self.said_at = Some(Instant::now());
        let percent = done.saturating_mul(100) / self.total.max(1);
        eprintln!("  {}: {done} of {} ({percent} %)", self.what, self.total);
    }
}
