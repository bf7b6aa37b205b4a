use super::*;
use crate::{
    RetryPolicy,
    retry::Exponential,
    schedule::{Change, Tags, When},
};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(ms).unwrap()
}

fn timer() -> Timer {
    let schedule = Schedule::new(TimerId::new("a").unwrap(), When::At(at(1_000)));
    Timer::new(schedule, at(10), Incarnation(7)).unwrap()
}

fn fail(timer: &mut Timer, attempt: u32, outcome: AttemptOutcome) -> AfterFailure {
    let policy = RetryPolicy::Exponential(Exponential {
        max_attempts: 3,
        jitter: 0.0,
        ..Exponential::default()
    });
    timer.attempt_failed(
        Attempt::new(attempt, at(2_000), outcome, "no"),
        Wait::Policy,
        &policy,
        1,
        at(5_000),
    )
}

#[test]
fn revision_counts_callers_changes_only() {
    let mut timer = timer();
    timer
        .change(
            Patch { tags: Change::Set(Tags::new(vec!["x".into()]).unwrap()), ..Patch::default() },
            at(20),
        )
        .unwrap();
    assert_eq!((timer.revision, timer.updated_at), (2, at(20)));
    fail(&mut timer, 1, AttemptOutcome::Failed);
    assert_eq!(timer.revision, 2);
    timer.fire_now(at(30));
    assert_eq!((timer.revision, timer.next_attempt_at), (3, Some(at(30))));
}

#[test]
fn p7_a_change_after_an_attempt_is_another_occurrence() {
    let mut timer = timer();
    let before = timer.delivery_id("n");
    timer.change(Patch { when: Some(When::At(at(9_000))), ..Patch::default() }, at(20)).unwrap();
    assert_eq!((timer.occurrence, timer.delivery_id("n")), (0, before));
    fail(&mut timer, 1, AttemptOutcome::TimedOut);
    assert!(timer.maybe_delivered);
    timer.change(Patch { tags: Change::Reset, ..Patch::default() }, at(20)).unwrap();
    assert_eq!((timer.occurrence, timer.attempts), (0, 1));
    timer.change(Patch { payload: Change::Reset, ..Patch::default() }, at(20)).unwrap();
    assert_eq!((timer.occurrence, timer.attempts, timer.next_attempt_at), (1, 0, None));
    assert_ne!(timer.delivery_id("n"), before);
}

#[test]
fn p3_spent_attempts_dead_letter_and_a_redrive_resets_them() {
    let mut timer = timer();
    assert_eq!(fail(&mut timer, 1, AttemptOutcome::Failed), AfterFailure::Retry(at(6_000)));
    assert_eq!(fail(&mut timer, 2, AttemptOutcome::Failed), AfterFailure::Retry(at(7_000)));
    assert_eq!(fail(&mut timer, 3, AttemptOutcome::Failed), AfterFailure::Dead);
    let id = timer.delivery_id("n");
    timer.mark_dead_letter(at(8_000), DeadLetterReason::AttemptsSpent);
    timer.redrive(at(9_000));
    assert_eq!((timer.claimable_at(), timer.delivery_id("n"), timer.attempts), (at(9_000), id, 3));
    assert_eq!(fail(&mut timer, 4, AttemptOutcome::Failed), AfterFailure::Retry(at(6_000)));
    assert_eq!(fail(&mut timer, 5, AttemptOutcome::Failed), AfterFailure::Retry(at(7_000)));
    assert_eq!(fail(&mut timer, 6, AttemptOutcome::Failed), AfterFailure::Dead);
    assert_eq!(timer.history.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn history_and_reasons_are_bounded() {
    let mut timer = timer();
    for n in 1..40 {
        let long = "é".repeat(REASON_BYTES_MAX);
        timer.attempt_concluded(Attempt::new(n, at(1), AttemptOutcome::Failed, &long));
    }
    assert_eq!(timer.history.len(), HISTORY_MAX);
    assert_eq!(timer.history[15].attempt, 39);
    assert!(timer.history[15].reason.len() <= REASON_BYTES_MAX);
}

#[test]
fn p2_a_retry_is_never_before_the_due_time() {
    let mut timer = timer();
    fail(&mut timer, 1, AttemptOutcome::Failed);
    timer.due_at = at(100_000);
    assert_eq!(timer.claimable_at(), at(100_000));
}

#[test]
fn the_words_of_a_receiver_are_told_from_the_reason() {
    for (reason, own) in [
        (
            "HTTP 503 (repeated if the retry policy allows): busy (very)",
            "HTTP 503 (repeated if the retry policy allows)",
        ),
        ("fallback: HTTP 410 (rejected for good): no", "fallback: HTTP 410 (rejected for good)"),
        ("HTTP 404 (not a confirmation)", "HTTP 404 (not a confirmation)"),
        // Of an older version.
        ("HTTP 503: busy (very)", "HTTP 503"),
        ("HTTP 503", "HTTP 503"),
        // Not a response.
        ("no connection: Connection refused", "no connection: Connection refused"),
        ("HTTP is not what I speak", "HTTP is not what I speak"),
        ("HTTP 1000 (x): y", "HTTP 1000 (x): y"),
        ("", ""),
    ] {
        assert_eq!(own_reason(reason), own);
    }
}
