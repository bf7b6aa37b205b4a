//! The wait for a limit of the server that passes by itself, such as a rate.
//!
//! A refusal with `resource_exhausted` or `unavailable` and a time changed nothing: the same call can succeed after
//! that time. Commands of many calls wait, so that they end whole.

use std::time::{Duration, Instant};

use duly_api::Problem;

use crate::{
    failure::Failure,
    output::{note, text},
};

/// Longest time without progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shortest wait: the server may say "at once".
const WAIT_MIN: Duration = Duration::from_millis(20);

/// The waits of a command.
#[derive(Default)]
pub(crate) struct Patience {
    /// Beginning of the time without progress.
    since: Option<Instant>,
    is_noted: bool,
}

impl Patience {
    /// Returns the time after which a refused call can succeed; none for another refusal.
    pub(crate) fn wait_of(problem: &Problem) -> Option<Duration> {
        let passes = matches!(&*problem.code, "resource_exhausted" | "unavailable");
        problem.retry_after_ms.filter(|_| passes).map(Duration::from_millis)
    }

    /// Notes that something was done.
    pub(crate) fn progress(&mut self) {
        self.since = None;
    }

    /// Waits as the server asks. Returns `false` at once if the time without progress would be too long.
    pub(crate) async fn wait(&mut self, problem: &Problem, wait: Duration, is_quiet: bool) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() + wait > PATIENCE {
            return false;
        }
        if !std::mem::replace(&mut self.is_noted, true) && !is_quiet {
            note(&format!("waiting for a limit of the server: {}", text::line(&problem.detail)));
        }
        tokio::time::sleep(wait.max(WAIT_MIN)).await;
        true
    }
}

/// Returns the problem of a refusal that passes by itself, and the wait.
pub(crate) fn passing(failure: &Failure) -> Option<(Problem, Duration)> {
    let Failure::Refused { problem, .. } = failure else { return None };
    let problem: Problem = serde_json::from_str(problem).ok()?;
    let wait = Patience::wait_of(&problem)?;
    Some((problem, wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: &str, retry_after_ms: Option<u64>) -> Problem {
        Problem { code: code.to_owned(), retry_after_ms, ..Problem::default() }
    }

    #[test]
    fn only_a_limit_with_a_time_passes() {
        for (code, after_ms, passes) in [
            ("resource_exhausted", Some(5), true),
            ("unavailable", Some(0), true),
            ("resource_exhausted", None, false),
            ("in_flight", Some(1_000), false),
            ("aborted", Some(0), false),
        ] {
            assert_eq!(Patience::wait_of(&problem(code, after_ms)).is_some(), passes, "{code}");
        }
    }

    #[tokio::test]
    async fn a_wait_without_progress_has_an_end() {
        let (mut patience, limit) = (Patience::default(), problem("resource_exhausted", Some(1)));
        assert!(patience.wait(&limit, Duration::from_millis(1), true).await);
        assert!(!patience.wait(&limit, PATIENCE, true).await);
        patience.progress();
        assert!(!patience.wait(&limit, 2 * PATIENCE, true).await, "a wait that is too long");
    }
}
