//! Batching: operations share a batch if they have to wait anyway, and otherwise not.

use std::{pin::Pin, sync::Arc, time::Duration};

use duly_client::{Batching, Client, Code, Error, Retries, Schedule};
use futures::{future::join_all, poll};
use tokio::task::unconstrained;

use crate::{
    script::Script,
    server::{HOUR, NAMESPACE, Server, soon},
};

/// Schedules timers with these numbers, concurrently.
async fn schedule(client: &Client, numbers: std::ops::Range<usize>) -> Vec<Result<(), Error>> {
    let calls = numbers.map(async |number| {
        let schedule = Schedule::after(HOUR).with_id(number.to_string());
        client.schedule(NAMESPACE, schedule).await.map(drop)
    });
    // Unconstrained, so that all calls begin before any of them waits.
    unconstrained(join_all(calls)).await
}

fn all_well(results: &[Result<(), Error>]) -> bool {
    results.iter().all(Result::is_ok)
}

/// Schedules these timers one by one, each in a batch of its own that gets no response.
async fn under_way<'a>(
    script: &Script,
    client: &'a Client,
    numbers: std::ops::Range<usize>,
) -> Vec<Pin<Box<dyn Future<Output = Vec<Result<(), Error>>> + 'a>>> {
    let mut calls: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
    for number in numbers {
        let mut call = Box::pin(schedule(client, number..number + 1));
        soon(async {
            tokio::select! {
                () = script.batch(number + 1) => {}
                _ = &mut call => panic!("the gate is closed"),
            }
        })
        .await;
        calls.push(call);
    }
    calls
}

#[tokio::test]
async fn operations_are_sent_at_once_below_the_limit_then_batched() {
    let one = Batching { batches_max: 1, ..Batching::default() };
    for (batching, at_once) in [(one, 1), (Batching::default(), 16)] {
        let script = Arc::new(Script::closed());
        let client = script.client(batching).await;
        let first = under_way(&script, &client, 0..at_once).await;
        let mut rest = Box::pin(schedule(&client, 1_000..2_000));
        assert!(poll!(&mut rest).is_pending(), "they wait, and all have been asked for");
        script.open();
        assert!(all_well(&soon(join_all(first)).await.concat()));
        assert!(all_well(&soon(rest).await));
        assert_eq!(script.sizes(), [vec![1; at_once], vec![1_000]].concat());
        // In the order of the calls.
        let numbers: Vec<_> = (1_000..2_000).map(|number| number.to_string()).collect();
        assert_eq!(script.batches.lock()[at_once], numbers);
    }
}

#[tokio::test]
async fn operations_wait_only_for_their_own_id() {
    let script = Arc::new(Script::closed());
    let client = script.client(Batching::default()).await;
    let first = under_way(&script, &client, 0..1).await;
    let mut same = Box::pin(async {
        tokio::join!(client.fire(NAMESPACE, "0"), client.cancel(NAMESPACE, "0"))
    });
    assert!(poll!(&mut same).is_pending());
    let other = under_way(&script, &client, 1..2).await;
    script.open();
    assert!(all_well(&soon(join_all(first.into_iter().chain(other))).await.concat()));
    let (fired, cancelled) = soon(same).await;
    assert!(fired.is_ok() && cancelled.is_ok());
    assert_eq!(*script.batches.lock(), [vec!["0"], vec!["1"], vec!["0", "0"]]);
}

#[tokio::test]
async fn operations_do_not_wait_for_a_batch_to_fill() {
    let script = Arc::new(Script::default());
    let client = script.client(Batching::default()).await;
    for number in 0..3 {
        assert!(all_well(&soon(schedule(&client, number..number + 1)).await));
    }
    assert_eq!(script.sizes(), [1, 1, 1]);
}

#[tokio::test]
async fn full_batch_ends_the_linger() {
    let script = Arc::new(Script::default());
    let linger = Duration::from_secs(1);
    let batching = Batching { linger, operations_max: 3, ..Batching::default() };
    let client = script.client(batching).await;
    assert!(all_well(&soon(schedule(&client, 0..3)).await));
    assert_eq!(script.sizes(), [3]);
}

#[tokio::test]
async fn batches_respect_their_operation_and_byte_limits() {
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
async fn batch_too_large_for_the_server_is_split() {
    let script = Arc::new(Script { operations_max: 2, ..Script::default() });
    let client = script.client(Batching::default()).await;
    assert!(all_well(&soon(schedule(&client, 0..9)).await));
    let taken: usize = script.sizes().into_iter().filter(|size| *size <= 2).sum();
    assert_eq!(taken, 9, "{:?}", script.sizes());
}

#[tokio::test]
async fn withdrawn_operation_is_not_sent() {
    let script = Arc::new(Script::closed());
    let one = Batching { batches_max: 1, ..Batching::default() };
    let client = script.client(one).await;
    let hasty = client.with_timeout(Duration::from_millis(20)).unwrap();
    let first = under_way(&script, &client, 0..1).await;
    // One operation runs out of time; the caller of another one stops waiting.
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
    assert!(all_well(&soon(join_all(first)).await.concat()));
    assert!(all_well(&soon(last).await));
    assert_eq!(*script.batches.lock(), [["0"], ["3"]]);
}

#[tokio::test]
async fn operation_without_a_response_in_time_is_unknown() {
    let script = Arc::new(Script::closed());
    let url = format!("http://{}", script.serve().await);
    let builder = Client::builder(url).retries(Retries::none());
    let client = builder.timeout(Duration::from_millis(200)).build().unwrap();
    let error = soon(schedule(&client, 0..1)).await.remove(0).unwrap_err();
    assert!(matches!(error, Error::Unknown { code: Code::DeadlineExceeded, .. }), "{error}");
    assert!(!error.is_not_done());
}

#[tokio::test]
async fn p10_waiting_bytes_are_limited() {
    let script = Arc::new(Script::closed());
    let batching = Batching { waiting_bytes_max: 1024 * 1024, ..Batching::default() };
    let client = script.client(batching).await;
    let large = || Schedule::after(HOUR).with_text("x".repeat(700 * 1024));
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
async fn refused_operation_refuses_only_itself() {
    let server = Server::start().await;
    let client = server.client();
    let wrong = Schedule::after(HOUR).with_id("wrong").with_header("host", "x");
    let wrong = client.schedule(NAMESPACE, wrong);
    let (before, wrong, after) =
        tokio::join!(schedule(&client, 0..50), wrong, schedule(&client, 50..100));
    assert!(all_well(&before) && all_well(&after));
    let error = wrong.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let field = error.refusal().and_then(|refusal| refusal.problem.field.clone()).unwrap();
    assert!(field.starts_with("headers"), "{field}");
    assert!(!error.to_string().contains("operations["), "{error}");
}
