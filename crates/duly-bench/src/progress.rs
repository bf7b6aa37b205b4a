//! Says on standard error how far long work is, a few times a minute.

use std::time::{Duration, Instant};

/// How long nothing is said.
const QUIET: Duration = Duration::from_secs(5);

/// Work of a known size that takes its time.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    /// Absent when nothing is ever said.
    said_at: Option<Instant>,
}

impl Progress {
    /// Of `total` items; `what` is done to them ("filled").
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, said_at: Some(Instant::now()) }
    }

    /// Says nothing: of work that is short, or that another tells of.
    pub(crate) const fn silent() -> Self {
        Self { what: "", total: 0, said_at: None }
    }

    /// So many are done.
    pub(crate) fn at(&mut self, done: u64) {
        if self.said_at.is_none_or(|at| at.elapsed() < QUIET) {
            return;
        }
        self.said_at = Some(Instant::now());
        let percent = done.saturating_mul(100) / self.total.max(1);
        eprintln!("  {}: {done} of {} ({percent} %)", self.what, self.total);
    }
}
