//! Handlers of firings, and their failures.

use std::{fmt::Display, future::Future, time::Duration};

use duly_api::{Firing, RetryVerdict, Settlement};

/// Longest reason that is sent, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// Handles firings. Every `Fn(Firing)` is a handler if its future returns `Result<(), impl
/// Into<Failure>>`.
///
/// Up to `concurrency` calls run at once, each in a task of its own. A call is dropped before its end
/// only when a stop takes too long.
pub trait Handler: Send + Sync + 'static {
    /// Handles one firing.
    fn handle(&self, firing: Firing) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<F, Fut, E> Handler for F
where
    F: Fn(Firing) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Into<Failure>,
{
    async fn handle(&self, firing: Firing) -> Result<(), Failure> {
        self(firing).await.map_err(Into::into)
    }
}

/// The verdict on a firing that was not handled. The operator `?` turns every error into a
/// [`Failure::retry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The firing is retried.
    Retry {
        /// Wait before the next attempt, exact; the retry policy decides if absent.
        after: Option<Duration>,
        /// The reason, for people.
        reason: String,
    },
    /// The firing cannot be handled yet, and is put off: the attempt does not count for the retry policy.
    Snooze {
        /// Wait before the next attempt, exact.
        after: Duration,
    },
    /// The firing becomes a dead letter.
    Dead {
        /// The reason, for people.
        reason: String,
    },
}

impl Failure {
    /// Returns the verdict to retry, by the retry policy of the timer.
    pub fn retry(reason: impl Display) -> Self {
        Self::Retry { after: None, reason: reason.to_string() }
    }

    /// Returns the verdict to retry after exactly this wait.
    pub fn retry_after(after: Duration, reason: impl Display) -> Self {
        Self::Retry { after: Some(after), reason: reason.to_string() }
    }

    /// Returns the verdict to put the firing off by exactly this time: for when it cannot be handled yet. The
    /// attempt does not count, so only the timer's `expire_after` bounds the number of times.
    pub const fn snooze(after: Duration) -> Self {
        Self::Snooze { after }
    }

    /// Returns the verdict to dead-letter the firing: for when another attempt would fail as well.
    pub fn dead(reason: impl Display) -> Self {
        Self::Dead { reason: reason.to_string() }
    }

    pub(super) fn into_settlement(self, token: String) -> Settlement {
        match self {
            Self::Retry { after, reason } => {
                let (after, reason) = (after.map(Into::into), Some(cut(reason)));
                Settlement::retry(token, RetryVerdict { after, reason })
            }
            Self::Snooze { after } => Settlement::snooze(token, after),
            Self::Dead { reason } => Settlement::dead(token, cut(reason)),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let reason = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self::retry(reason)
    }
}

/// Shortens a reason at a character boundary.
fn cut(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_retry_with_all_its_causes() {
        let inner = std::io::Error::other("no route");
        let outer = std::io::Error::other(inner);
        let Failure::Retry { after: None, reason } = Failure::from(outer) else { panic!() };
        assert!(reason.contains("no route"), "{reason}");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = format!("{}é", "x".repeat(REASON_BYTES_MAX - 1));
        assert_eq!(cut(long).len(), REASON_BYTES_MAX - 1);
        assert_eq!(cut("short".into()), "short");
    }
}
