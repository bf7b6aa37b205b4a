//! Progress of long work, printed on standard error a few times a minute.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two lines.
const QUIET: Duration = Duration::from_secs(5);

/// Work of a known size; several threads may report its progress.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    total: usize,
    said_at: Mutex<Instant>,
}

impl Progress {
    /// Creates the progress of `total` items; `what` names the work ("scheduled").
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        Self { what, total, said_at: Mutex::new(Instant::now()) }
    }

    /// Prints that `done` items are done, unless the last line is too recent.
    pub(super) fn at(&self, done: usize) {
        // If another thread prints at the same time, this one continues.
        let Ok(mut said_at) = self.said_at.try_lock() else { return };
        if said_at.elapsed() >= QUIET {
            *said_at = Instant::now();
            let percent = done.saturating_mul(100) / self.total.max(1);
            eprintln!("  {}: {done} of {} ({percent} %)", self.what, self.total);
        }
    }
}

/// Prints that a part of the work begins.
pub(super) fn part(what: &str) {
    eprintln!("  {what}");
}
