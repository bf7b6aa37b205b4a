//! Says on standard error how far long work is, a few times a minute.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long nothing is said.
const QUIET: Duration = Duration::from_secs(5);

/// Work of a known size that takes its time; told of by several threads.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    total: usize,
    said_at: Mutex<Instant>,
}

impl Progress {
    /// Of `total` items; `what` is done to them ("scheduled").
    pub(super) fn new(what: &'static str, total: usize) -> Self {
        Self { what, total, said_at: Mutex::new(Instant::now()) }
    }

    /// So many are done.
    pub(super) fn at(&self, done: usize) {
        // One that speaks is enough: the others go on.
        let Ok(mut said_at) = self.said_at.try_lock() else { return };
        if said_at.elapsed() >= QUIET {
            *said_at = Instant::now();
            let percent = done.saturating_mul(100) / self.total.max(1);
            eprintln!("  {}: {done} of {} ({percent} %)", self.what, self.total);
        }
    }
}

/// Says that a part begins.
pub(super) fn part(what: &str) {
    eprintln!("  {what}");
}
