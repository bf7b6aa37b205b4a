//! Operations go together when they wait anyway, and never else.

use std::{sync::Arc, time::Duration};

use duly_client::{Batching, Client, Code, Error, Retries, Schedule};
use futures::{future::join_all, poll};
use tokio::task::unconstrained;

use crate::{
    script::Script,
    server::{HOUR, NAMESPACE, Server, soon},
};

/// Schedules timers named by their numbers, all at once.
async fn schedule(client: &Client, numbers: std::ops::Range<usize>) -> Vec<Result<(), Error>> {
    let calls = numbers.map(async |number| {
        let schedule = Schedule::after(HOUR).id(number.to_string());
        client.schedule(NAMESPACE, schedule).await.map(drop)
    });
    // All of them are asked for at once, however many they are.
    unconstrained(join_all(calls)).await
}

fn all_well(results: &[Result<(), Error>]) -> bool {
    results.iter().all(Result::is_ok)
}

#[tokio::test]
async fn a_lone_operation_is_sent_at_once_and_what_comes_meanwhile_goes_together() {
    let script = Arc::new(Script::closed());
    let client = script.client(Batching::default()).await;
    let mut first = Box::pin(schedule(&client, 0..1));
    assert!(poll!(&mut first).is_pending());
    soon(async {
        tokio::select! {
            () = script.batch(1) => {}
            _ = &mut first => panic!("the gate is closed"),
        }
    })
    .await;
    let mut rest = Box::pin(schedule(&client, 1..1_001));
    assert!(poll!(&mut rest).is_pending(), "they wait, and all have been asked for");
    script.open();
    assert!(all_well(&soon(first).await));
    assert!(all_well(&soon(rest).await));
    assert_eq!(script.sizes(), [1, 1_000]);
    // In the order of the calls.
    let numbers: Vec<_> = (1..1_001).map(|number| number.to_string()).collect();
    assert_eq!(script.batches.lock()[1], numbers);
}

#[tokio::test]
async fn nobody_waits_for_company() {
    let script = Arc::new(Script::default());
    let client = script.client(Batching::default()).await;
    for number in 0..3 {
        assert!(all_well(&soon(schedule(&client, number..number + 1)).await));
    }
    assert_eq!(script.sizes(), [1, 1, 1]);
}

#[tokio::test]
async fn a_linger_that_is_asked_for_ends_when_the_batch_is_full() {
    let script = Arc::new(Script::default());
    let linger = Duration::from_secs(1);
    let batching = Batching { linger, operations_max: 3, ..Batching::default() };
    let client = script.client(batching).await;
    assert!(all_well(&soon(schedule(&client, 0..3)).await));
    assert_eq!(script.sizes(), [3]);
}

#[tokio::test]
async fn a_batch_has_at_most_as_many_operations_and_bytes_as_it_may() {
    let few = Batching { operations_max: 10, ..Batching::default() };
    let small = Batching { bytes_max: 1, ..Batching::default() };
    for (batching, most) in [(few, 10), (small, 1)] {
        let script = Arc::new(Script::default());
        let client = script.client(batching).await;
        assert!(all_well(&soon(schedule(&client, 0..25)).await));
        let sizes = script.sizes();
        assert_eq!(sizes.iter().sum::<usize>(), 25);
        assert!(sizes.iter().all(|size| *size <= most), "{sizes:?}");
    }
}

#[tokio::test]
async fn a_batch_that_the_server_finds_too_large_is_split() {
    let script = Arc::new(Script { operations_max: 2, ..Script::default() });
    let client = script.client(Batching::default()).await;
    assert!(all_well(&soon(schedule(&client, 0..9)).await));
    let taken: usize = script.sizes().into_iter().filter(|size| *size <= 2).sum();
    assert_eq!(taken, 9, "{:?}", script.sizes());
}

#[tokio::test]
async fn an_operation_that_is_given_up_before_it_is_sent_is_not_sent() {
    let script = Arc::new(Script::closed());
    let client = script.client(Batching::default()).await;
    let hasty = client.with_timeout(Duration::from_millis(20)).unwrap();
    let mut first = Box::pin(schedule(&client, 0..1));
    soon(async {
        tokio::select! {
            () = script.batch(1) => {}
            _ = &mut first => panic!("the gate is closed"),
        }
    })
    .await;
    // One whose time is over, and one whose caller goes away.
    let late = soon(schedule(&hasty, 1..2)).await.remove(0).unwrap_err();
    assert!(matches!(late, Error::TooLate { .. }), "{late}");
    assert!(late.is_not_done());
    assert_eq!(late.code(), Code::DeadlineExceeded);
    {
        let mut gone = Box::pin(schedule(&client, 2..3));
        assert!(poll!(&mut gone).is_pending());
    }
    let mut last = Box::pin(schedule(&client, 3..4));
    assert!(poll!(&mut last).is_pending());
    script.open();
    assert!(all_well(&soon(first).await));
    assert!(all_well(&soon(last).await));
    assert_eq!(*script.batches.lock(), [["0"], ["3"]]);
}

#[tokio::test]
async fn what_was_sent_and_has_no_answer_in_time_is_not_known() {
    let script = Arc::new(Script::closed());
    let url = format!("http://{}", script.serve().await);
    let builder = Client::builder(url).retries(Retries::none());
    let client = builder.timeout(Duration::from_millis(200)).build().unwrap();
    let error = soon(schedule(&client, 0..1)).await.remove(0).unwrap_err();
    assert!(matches!(error, Error::Unknown { code: Code::DeadlineExceeded, .. }), "{error}");
    assert!(!error.is_not_done());
}

#[tokio::test]
async fn p10_what_waits_is_bounded_and_says_so() {
    let script = Arc::new(Script::closed());
    let batching = Batching { waiting_bytes_max: 1024 * 1024, ..Batching::default() };
    let client = script.client(batching).await;
    let large = || Schedule::after(HOUR).text("x".repeat(700 * 1024));
    let mut first = Box::pin(client.schedule(NAMESPACE, large()));
    assert!(poll!(&mut first).is_pending());
    let hasty = client.with_timeout(Duration::from_millis(20)).unwrap();
    let error = soon(hasty.schedule(NAMESPACE, large())).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    assert!(error.to_string().contains("waiting_bytes_max"), "{error}");
    script.open();
    soon(first).await.unwrap();
    soon(client.schedule(NAMESPACE, large())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_is_refused_refuses_only_itself_and_knows_nothing_of_the_batch() {
    let server = Server::start().await;
    let client = server.client();
    let wrong = Schedule::after(HOUR).id("wrong").header("host", "x");
    let wrong = client.schedule(NAMESPACE, wrong);
    let (before, wrong, after) =
        tokio::join!(schedule(&client, 0..50), wrong, schedule(&client, 50..100));
    assert!(all_well(&before) && all_well(&after));
    let error = wrong.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let field = error.refusal().and_then(|refusal| refusal.field.clone()).unwrap();
    assert!(field.starts_with("headers"), "{field}");
    assert!(!error.to_string().contains("operations["), "{error}");
}
