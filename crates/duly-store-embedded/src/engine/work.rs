//! Work that would keep the engine from its callers: reading, writing and removing whole files.
//!
//! ```text
//!   engine ── Work ──► background thread ── what it came to ──► engine, in a later step
//! ```
//!
//! A piece of work owns all it needs and touches no state; what follows from it is done by the
//! engine again. Without threads (`open_inline`) the shell does each piece on the spot, so that a
//! simulation is deterministic.

use std::time::{Duration, Instant};

use crate::disk::fresh::Throttle;

use super::Engine;

/// What the engine does when a piece of work is done.
pub(crate) type Sequel = Box<dyn FnOnce(&mut Engine) + Send>;

/// A piece of work.
pub(crate) type Work = Box<dyn FnOnce() -> Sequel + Send>;

/// Work that waits to be fetched.
#[derive(Default)]
pub(super) struct Outbox(Vec<Work>);

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("len", &self.0.len()).finish()
    }
}

/// How fast background work may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as the disk takes it: nobody waits for anything else.
    Unlimited,
    /// So many bytes a second at most, so that commits pass in between.
    BytesPerSecond(u64),
}

impl Pace {
    /// A throttle that keeps to it.
    pub(crate) fn throttle(self) -> Throttle {
        let Self::BytesPerSecond(rate) = self else {
            return Box::new(|_| {});
        };
        let (began, mut written) = (Instant::now(), 0_u64);
        Box::new(move |bytes| {
            written += bytes;
            let allowed = Duration::from_nanos(
                u64::try_from(u128::from(written) * 1_000_000_000 / u128::from(rate.max(1)))
                    .unwrap_or(u64::MAX),
            );
            let ahead = allowed.saturating_sub(began.elapsed());
            if !ahead.is_zero() {
                std::thread::sleep(ahead);
            }
        })
    }
}

impl Engine {
    /// Hands a piece of work over; `then` takes what it came to.
    pub(super) fn in_background<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(&mut Self, T) + Send + 'static,
    ) {
        self.outbox.0.push(Box::new(move || {
            let done = work();
            Box::new(move |engine: &mut Self| then(engine, done))
        }));
    }

    /// How fast background work may write from now on.
    pub(crate) const fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Returns the work that was handed over since the last call; none of a store that has ended.
    pub(crate) fn take_work(&mut self) -> Vec<Work> {
        let work = std::mem::take(&mut self.outbox.0);
        if self.terminal_error.is_some() { Vec::new() } else { work }
    }
}
