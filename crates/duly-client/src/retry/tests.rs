use std::{cell::RefCell, collections::VecDeque};

use super::*;
use crate::error::Refusal;

fn unknown() -> Error {
    Error::no_response(Duration::from_secs(1))
}

fn not_done() -> Error {
    Error::Unreachable { server: "s".into(), reason: "r".into() }
}

fn refused(code: Code) -> Error {
    Error::Refused(Box::new(Refusal::new(code, "no")))
}

/// Makes a call with these results, one after the other. Returns the final result and the number of
/// tries.
async fn tried(safety: Safety, answers: Vec<Result<u8, Error>>) -> (Result<u8, Error>, usize) {
    let answers = RefCell::new(VecDeque::from(answers));
    let all = answers.borrow().len();
    let deadline = Instant::now() + Duration::from_secs(60);
    let answer = repeat(Retries::default(), safety, deadline, || {
        let answer = answers.borrow_mut().pop_front().expect("no more tries than answers");
        async { answer }
    });
    let answer = answer.await;
    (answer, all - answers.borrow().len())
}

#[tokio::test(start_paused = true)]
async fn calls_not_carried_out_are_always_repeated() {
    let mut wait = Refusal::new(Code::ResourceExhausted, "full");
    wait.problem.retry_after_ms = Some(3_000);
    for safety in [Safety::Reading, Safety::Repeatable, Safety::Guarded, Safety::Once] {
        let busy = refused(Code::Unavailable);
        let full = Error::Refused(Box::new(wait.clone()));
        let began = Instant::now();
        let answers = vec![Err(not_done()), Err(busy), Err(full), Ok(7)];
        assert_eq!(tried(safety, answers).await, (Ok(7), 4));
        assert!(began.elapsed() >= Duration::from_secs(3), "it waits as long as it is told");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_unknown_outcome_are_repeated_only_if_safe() {
    for (safety, tries) in [(Safety::Repeatable, 2), (Safety::Guarded, 2), (Safety::Once, 1)] {
        let (answer, tried) = tried(safety, vec![Err(unknown()), Ok(7)]).await;
        assert_eq!((answer.is_ok(), tried), (tries == 2, tries), "{safety:?}");
    }
    let (answer, _) = tried(Safety::Once, vec![Err(unknown())]).await;
    assert_eq!(answer.unwrap_err().retry(), RetryAdvice::AfterRead);
}

#[tokio::test(start_paused = true)]
async fn read_without_a_response_is_never_unknown() {
    for answers in [vec![Err(unknown())], vec![Err(unknown()), Err(not_done())]] {
        let mut answers = answers.into_iter();
        let retries =
            Retries { tries_max: u32::try_from(answers.len()).unwrap(), ..Retries::default() };
        let deadline = Instant::now() + Duration::from_secs(60);
        let answer: Result<(), _> = repeat(retries, Safety::Reading, deadline, || {
            let answer = answers.next().unwrap();
            async { answer.map(|_: u32| ()) }
        })
        .await;
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::NoResponse { .. }) && error.is_not_done(), "{error}");
        assert!(!error.to_string().contains("unknown"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_calls_are_not_repeated() {
    for code in
        [Code::InvalidArgument, Code::AlreadyExists, Code::Finished, Code::ResourceExhausted]
    {
        let (answer, tries) = tried(Safety::Repeatable, vec![Err(refused(code))]).await;
        assert_eq!((answer.unwrap_err().code(), tries), (code, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn refused_guarded_repetition_is_an_unknown_outcome() {
    let answers = || vec![Err(unknown()), Err(refused(Code::RevisionMismatch))];
    let (answer, _) = tried(Safety::Guarded, answers()).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Unknown { retry: RetryAdvice::AfterRead, .. }), "{error}");
    // A repetition with the same result as the first time decides.
    let (answer, _) = tried(Safety::Repeatable, answers()).await;
    assert_eq!(answer.unwrap_err().code(), Code::RevisionMismatch);
    // An invalid field was invalid the first time too.
    let answers = vec![Err(unknown()), Err(refused(Code::InvalidArgument))];
    assert_eq!(tried(Safety::Guarded, answers).await.0.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn later_failures_keep_an_unknown_outcome_unknown() {
    let retries = Retries { tries_max: 2, ..Retries::default() };
    let deadline = Instant::now() + Duration::from_secs(60);
    let answers = RefCell::new(VecDeque::from([unknown(), not_done()]));
    let answer: Result<(), _> = repeat(retries, Safety::Repeatable, deadline, || {
        let error = answers.borrow_mut().pop_front().expect("two tries");
        async { Err(error) }
    })
    .await;
    let error = answer.unwrap_err();
    assert!(!error.is_not_done(), "{error}");
    assert_eq!(
        error.retry(),
        RetryAdvice::After(Duration::ZERO),
        "it may be repeated by hand, too"
    );
}

#[tokio::test(start_paused = true)]
async fn call_fails_after_its_time_or_its_tries() {
    let began = Instant::now();
    let deadline = began + Duration::from_secs(10);
    let answer: Result<(), _> =
        repeat(Retries::default(), Safety::Repeatable, deadline, || async { Err(not_done()) })
            .await;
    assert_eq!(answer.unwrap_err(), not_done());
    assert!(Instant::now() <= deadline, "it does not wait for a try that would come too late");
    let tries = RefCell::new(0);
    let answer: Result<(), _> = repeat(Retries::none(), Safety::Repeatable, deadline, || async {
        *tries.borrow_mut() += 1;
        Err(not_done())
    })
    .await;
    assert!(answer.is_err());
    assert_eq!(*tries.borrow(), 1);
}

#[test]
fn waits_double_to_the_maximum_with_jitter_of_at_most_half() {
    let retries = Retries::default();
    let (ms, longest) = (Duration::from_millis, retries.longest_wait);
    for (tries, whole) in [(1, ms(50)), (2, ms(100)), (3, ms(200)), (7, longest), (4_000, longest)]
    {
        assert_eq!(retries.wait_after(tries, 0.0), whole);
        assert_eq!(retries.wait_after(tries, 1.0), whole / 2);
    }
}
