//! Repetition of calls.
//!
//! 1. A call that was certainly not carried out is repeated, whichever call it is. The reasons: there
//!    was no connection, the server was starting or stopping, or a limit was met whose refusal names a
//!    wait.
//! 2. A call whose response got lost may have been carried out. It is repeated only if a second time
//!    does no harm:
//!
//! | call | repeated when its response got lost? | because |
//! |---|---|---|
//! | `get`, `list`, `list_page`, `namespace`, `namespaces`, `stats`, `forecast`, `cluster`, `whoami` | yes | they change nothing |
//! | `schedule`, `debounce` | yes | they always have an id (the client creates one if you give none), and the same request again returns the existing timer, marked as [`existing`](crate::Timer::existing); with [`Restart`](crate::IfExists::Restart) its time starts again |
//! | `cancel`, `cancel_or_stop` | yes | for a timer that is already cancelled or stopped, the response has `already` |
//! | `reschedule` with `if_revision` | yes | the change increases the revision, so it is made at most once. If the repetition is refused, it is unknown whose change was made: [`Error::Unknown`] |
//! | `reschedule` without | no | another caller may have changed the timer in between, and the repetition would undo that; a `delay` would count from a later time |
//! | `fire` | no | in between the timer may have been delivered, or its id given to a new one, which would fire then |
//! | `settle` | yes | a token names one lease: the same verdict again is [`AlreadySettled`](crate::SettleOutcome::AlreadySettled), and no other lease can be meant |
//! | `lease` | no | firings whose response got lost stay leased until their lease ends; a repetition would lease more |
//! | `put_namespace`, `patch_namespace`, `pause`, `resume` | yes | they set a state of the namespace, not a difference |
//! | `delete_namespace`, `delete_namespace_and_timers` | no | another caller may have created the namespace again in between, and the new one would be deleted |
//! | `batch` of schedules and cancels, each with an id of its own | yes | each of them is repeatable, and none undoes another one |
//! | `batch` of anything else | no | it has reschedules or fires; or a cancel and a schedule name one id, and the repetition would cancel the timer that the first time created |
//! | `cancel_many` | only a dry run | other timers may fit by then, and the counts would lack those of the first time |
//! | `redrive` | no | a dead letter may have been dead-lettered again in between, and would be delivered once more |
//! | `purge` | no | a timer may have another dead letter by then, which would be purged |
//! | `forget` | no | the id may have been used and ended again in between, and that end would be forgotten |
//! | `dead_letter_overdue` | no | a dead letter may have been redriven in between, and would be dead-lettered again |
//!
//! A repetition is the same request, byte for byte. If two callers write the same id at the same time, the
//! last one counts, and a repetition can be the last one. So a schedule that is still being repeated can
//! follow another caller's cancel. A request that got its response is never sent again.
//!
//! `docs/reference/http.md` has the same model for every client.
//!
//! The wait between two tries doubles from [`Retries::first_wait`] to [`Retries::longest_wait`]. It is
//! shortened at random by up to a half, so that many clients do not return at once. It is never shorter than
//! the server asks for. A call fails when its time or its tries are used up.

use std::{future::Future, time::Duration};

use duly_core::Code;
use rand::Rng;
use tokio::time::{Instant, sleep};

use crate::error::{Error, Repetition, Result, RetryAdvice};

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

    /// Returns the wait after this many failed tries, from 1. `chance` is a random number from 0 to 1.
    pub(crate) fn wait_after(&self, tries: u32, chance: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        let wait = self.first_wait.saturating_mul(doubled).min(self.longest_wait);
        wait.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
    }

    /// Returns the wait after this many failed tries, randomized.
    pub(crate) fn some_wait_after(&self, tries: u32) -> Duration {
        self.wait_after(tries, rand::rng().random())
    }
}

/// The safety of repeating a call that may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safety {
    /// The call changes nothing, so its outcome does not matter.
    Reading,
    /// A second time does no harm, and its response is that of the first.
    Repeatable,
    /// The call is carried out at most once. A refusal of the repetition may be due to the first time.
    Guarded,
    /// A second time may do harm.
    Once,
}

/// Makes a call, and repeats it until it succeeds, must not be repeated, or is out of time or tries.
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
    // The last error after which it is unknown whether the call was carried out.
    let mut doubt: Option<Error> = None;
    loop {
        let error = match call().await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        tries += 1;
        let (may_repeat, wait) = match error.repetition() {
            Repetition::Never => (false, Duration::ZERO),
            Repetition::Safe(wait) => (true, wait),
            Repetition::Unknown(wait) => (safety != Safety::Once, wait),
        };
        if matches!(error.repetition(), Repetition::Unknown(_)) {
            doubt = Some(error.clone());
        }
        let wait = wait.max(retries.some_wait_after(tries));
        let in_time = Instant::now() + wait < deadline;
        if !may_repeat || tries >= retries.tries_max || !in_time {
            return Err(final_error(safety, error, doubt));
        }
        tracing::debug!(%error, tries, ?wait, "call failed, will retry");
        sleep(wait).await;
    }
}

/// Returns the final error of a call. A doubt from an earlier try remains.
fn final_error(safety: Safety, error: Error, doubt: Option<Error>) -> Error {
    let refused_by_state =
        matches!(error.retry(), RetryAdvice::AfterRead) || matches!(error.code(), Code::NotFound);
    let final_error = match (doubt, error.repetition()) {
        (Some(_), Repetition::Unknown(_)) | (None, _) => error,
        // The last response decides: the server has seen the repetition.
        (Some(_), Repetition::Never) if matches!(safety, Safety::Reading | Safety::Repeatable) => {
            error
        }
        (Some(doubt), Repetition::Never) if refused_by_state => match doubt {
            Error::Unknown { code, reason, retry } => {
                Error::Unknown { code, reason: format!("{reason}, then: {error}"), retry }
            }
            other => other,
        },
        (Some(_), Repetition::Never) => error,
        (Some(doubt), Repetition::Safe(_)) => doubt,
    };
    match final_error {
        Error::Unknown { code, reason, .. } if safety == Safety::Reading => {
            Error::NoResponse { code, reason }
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
mod page_tests;
#[cfg(test)]
mod tests;
