//! Background work: reads, writes and removals of whole files, which would keep the engine from its
//! callers.
//!
//! ```text
//!   engine ── Work ──► background thread ── result ──► engine, in a later step
//! ```
//!
//! 1. A piece of work owns all that it needs and touches no state of the engine.
//! 2. The engine applies the result in a later step.
//! 3. Without threads (`open_inline`) the shell does each piece at once, so that a simulation is
//!    deterministic.

use std::time::{Duration, Instant};

use crate::disk::fresh::Throttle;

use super::Engine;

/// The engine's reaction to the result of a piece of work.
pub(crate) type Completion = Box<dyn FnOnce(&mut Engine) + Send>;

/// A piece of work.
pub(crate) type BackgroundWork = Box<dyn FnOnce() -> Completion + Send>;

/// Work that waits for the background thread.
#[derive(Default)]
pub(super) struct Outbox(Vec<BackgroundWork>);

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("len", &self.0.len()).finish()
    }
}

/// Speed at which background work may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as the disk allows: no caller waits.
    Unlimited,
    /// At most this many bytes per second, so that commits pass in between.
    BytesPerSecond(u64),
}

impl Pace {
    /// Returns a throttle for this pace.
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
    /// Hands over a piece of work. `then` receives its result.
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

    /// Sets the speed at which background work may write from now on.
    pub(crate) const fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Returns the work that was handed over since the last call; none if the store has ended.
    pub(crate) fn take_work(&mut self) -> Vec<BackgroundWork> {
        let work = std::mem::take(&mut self.outbox.0);
        if self.terminal_error.is_some() { Vec::new() } else { work }
    }
}
