//! Repetition of calls.
//!
//! A call that was surely not carried out (there was no connection, the server was starting or
//! stopping, a limit was met that names a wait) is repeated whatever it is. A call whose answer got
//! lost may have been carried out; it is repeated only where a second time does no harm:
//!
//! | call | repeated when its answer got lost? | because |
//! |---|---|---|
//! | `get`, `list`, `list_page`, `namespace`, `namespaces`, `stats`, `forecast`, `cluster` | yes | they change nothing |
//! | `schedule`, `debounce` | yes | they always have an id (the client makes one where you give none), and the same request again returns the timer that is there, marked as [`existing`](crate::Timer::existing) |
//! | `cancel` | yes | of a timer that is cancelled already it says so: `already` |
//! | `reschedule` with `if_revision` | yes | the revision goes up with the change, so it is made at most once. If the repetition is refused, it is not known whose change it was: [`Error::Unknown`] |
//! | `reschedule` without | no | in between another caller may have changed the timer, and the repetition would undo that; with a `delay` it would count from a later time |
//! | `fire` | no | in between the timer may have been delivered, or its id given to a new one, which would fire then |
//! | `settle` | yes | a token names one lease: the same verdict again is [`AlreadySettled`](crate::SettleOutcome::AlreadySettled), and no other lease can be meant |
//! | `lease` | no | firings whose answer got lost stay leased until their lease ends; a repetition would take more |
//! | `put_namespace`, `patch_namespace`, `pause`, `resume` | yes | they say how the namespace shall be, not how it shall change |
//! | `delete_namespace`, `delete_namespace_and_timers` | no | in between another caller may have created it again, and that one would be deleted |
//! | `batch` of schedules and cancels, each of another id | yes | each of them is repeatable, and none undoes another one |
//! | `batch` of anything else | no | by its reschedules and fires; and where a cancel and a schedule name one id, the repetition would cancel what the first time made |
//! | `cancel_many` | only a dry run | in between other timers may have come to fit, and the numbers would miss those of the first time |
//! | `redrive` | no | in between a letter may have been given up again, and would be sent once more |
//! | `purge` | no | in between a timer may have another dead letter, which would be dropped then |
//! | `dead_letter_overdue` | no | in between a letter may have been redriven, and would be given up again |
//!
//! A repetition is the same request, byte for byte. Where two callers write the same id at the same
//! time, the last one counts, and a repetition can be the last one: a schedule that is still being
//! repeated can follow the cancel of another caller. A request that got its response is never sent again.
//!
//! Between two tries lies a wait that doubles from [`Retries::first_wait`] to [`Retries::longest_wait`],
//! shortened by chance by up to a half so that many clients do not come back at once, and never
//! shorter than what the server asks for. A call is given up when its time or its tries are over.

use std::{future::Future, time::Duration};

use duly_core::Code;
use rand::Rng;
use tokio::time::{Instant, sleep};

use crate::error::{Again, Error, Result, RetryAdvice};

/// Settings of the repetition of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries in all, the first included, 1 to 1000; 1 repeats nothing. Default 100.
    pub tries_max: u32,
    /// Wait after the first try, up to 1 min; default 50 ms.
    pub first_wait: Duration,
    /// Longest wait, up to 10 min; default 2 s.
    pub longest_wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            tries_max: 100,
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_secs(2),
        }
    }
}

impl Retries {
    /// Returns settings that repeat nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { tries_max: 1, ..Self::default() }
    }

    /// Returns the wait after this many failed tries, from 1; `chance` is from 0 to 1.
    pub(crate) fn wait_after(&self, tries: u32, chance: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        let wait = self.first_wait.saturating_mul(doubled).min(self.longest_wait);
        wait.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
    }

    /// Returns the wait after this many failed tries, at random.
    pub(crate) fn some_wait_after(&self, tries: u32) -> Duration {
        self.wait_after(tries, rand::rng().random())
    }
}

/// The safety of repeating a call that may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safety {
    /// It changes nothing, so nothing about it is in doubt.
    Reading,
    /// A second time does no harm, and its answer is that of the first.
    Repeatable,
    /// It is carried out at most once; a refusal of the repetition may come from the first time.
    Guarded,
    /// A second time may do harm.
    Once,
}

/// Tries a call until it is answered, given up, or out of time.
pub(crate) async fn repeat<T, F, Fut>(
    retries: Retries,
    safety: Safety,
    deadline: Instant,
    mut call: F,
) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let mut tries = 0;
    // Why it is not known whether an earlier try was carried out.
    let mut doubt: Option<Error> = None;
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        tries += 1;
        let (may_repeat, wait) = match error.again() {
            Again::No => (false, Duration::ZERO),
            Again::NotDone(wait) => (true, wait),
            Again::Perhaps(wait) => (safety != Safety::Once, wait),
        };
        if matches!(error.again(), Again::Perhaps(_)) {
            doubt = Some(error.clone());
        }
        let wait = wait.max(retries.some_wait_after(tries));
        let in_time = Instant::now() + wait < deadline;
        if !may_repeat || tries >= retries.tries_max || !in_time {
            return Err(last_word(safety, error, doubt));
        }
        tracing::debug!(%error, tries, ?wait, "the call is repeated");
        sleep(wait).await;
    }
}

/// Returns the error of a call that is given up. A doubt that an earlier try left stays.
fn last_word(safety: Safety, error: Error, doubt: Option<Error>) -> Error {
    let refused_by_state =
        matches!(error.retry(), RetryAdvice::AfterRead) || matches!(error.code(), Code::NotFound);
    let doubtful = match (doubt, error.again()) {
        (Some(_), Again::Perhaps(_)) | (None, _) => error,
        // The server was asked again, and it has the last word.
        (Some(_), Again::No) if matches!(safety, Safety::Reading | Safety::Repeatable) => error,
        (Some(doubt), Again::No) if refused_by_state => match doubt {
            Error::Unknown { code, reason, retry } => {
                Error::Unknown { code, reason: format!("{reason}, then: {error}"), retry }
            }
            other => other,
        },
        (Some(_), Again::No) => error,
        (Some(doubt), Again::NotDone(_)) => doubt,
    };
    match doubtful {
        Error::Unknown { code, reason, .. } if safety == Safety::Reading => {
            Error::NoAnswer { code, reason }
        }
        Error::Unknown { code, reason, retry: RetryAdvice::AfterRead }
            if safety == Safety::Repeatable =>
        {
            Error::Unknown { code, reason, retry: RetryAdvice::After(Duration::ZERO) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
