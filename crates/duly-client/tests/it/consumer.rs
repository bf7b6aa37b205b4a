//! The consumer: verdicts, panics, extensions, stops.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_client::{Consumer, Failure, Firing, State};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::server::{DONE, NAMESPACE, Server, due, lease, soon, until, until_state};

/// Waits until the counts of a consumer meet a condition.
async fn counted(consumer: &Consumer, is_so: impl Fn(duly_client::Counts) -> bool) {
    until(|| async { is_so(consumer.counts()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handled_firings_are_acknowledged() {
    let server = Server::start().await;
    let client = server.client();
    // The namespace does not exist yet.
    let (handled, mut handlings) = mpsc::channel(100);
    let consumer = client.consumer(NAMESPACE).concurrency(3).start(move |firing: Firing| {
        let handled = handled.clone();
        async move {
            handled.send((firing.id.clone(), firing.text()?.to_owned(), firing.attempt)).await?;
            Ok::<(), Failure>(())
        }
    });
    let consumer = consumer.unwrap();
    for number in 0..20 {
        due(&client, &format!("{number:02}")).await;
    }
    let mut all = Vec::new();
    for _ in 0..20 {
        all.push(soon(handlings.recv()).await.unwrap());
    }
    all.sort();
    let expected = (0..20).map(|number| (format!("{number:02}"), "x".to_owned(), 1));
    assert_eq!(all, expected.collect::<Vec<_>>());
    counted(&consumer, |counts| counts.acked == 20).await;
    assert_eq!(client.get(NAMESPACE, "07").await.unwrap().state(), State::Finished);
    let counts = soon(consumer.stop()).await.unwrap();
    assert_eq!((counts.received, counts.acked, counts.unsettled), (20, 20, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_each_of_many_firings_is_handled_once() {
    const COUNT: usize = 3_000;
    let server = Server::start().await;
    let client = server.client();
    let calls = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let called = Arc::clone(&calls);
    let consumers = [7, 500].map(|concurrency| {
        let called = Arc::clone(&called);
        let handler = move |firing: Firing| {
            *called.lock().entry(firing.id).or_default() += 1;
            async { DONE }
        };
        client.consumer(NAMESPACE).concurrency(concurrency).start(handler).unwrap()
    });
    join_all((0..COUNT).map(async |number| due(&client, &number.to_string()).await)).await;
    let delivered =
        async || client.stats(NAMESPACE).await.unwrap().totals.map(|totals| totals.delivered);
    until(async || delivered().await == Some(COUNT as u64)).await;
    let mut acked = 0;
    for consumer in consumers {
        acked += soon(consumer.stop()).await.unwrap().acked;
    }
    assert_eq!(acked, COUNT as u64);
    let calls = calls.lock();
    assert_eq!((calls.len(), calls.values().max()), (COUNT, Some(&1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_is_limited() {
    let server = Server::start().await;
    let client = server.client();
    for number in 0..5 {
        due(&client, &number.to_string()).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let consumer = client.consumer(NAMESPACE).concurrency(2).start(move |_: Firing| {
        let gate = Arc::clone(&waits);
        async move {
            gate.acquire().await?.forget();
            Ok::<(), Failure>(())
        }
    });
    let consumer = consumer.unwrap();
    counted(&consumer, |counts| counts.received == 2).await;
    // Firings beyond the free handlers stay available to other consumers.
    let others = lease(&client, 3).await;
    assert_eq!(others.len() as u64 + consumer.counts().received, 5);
    gate.add_permits(2);
    counted(&consumer, |counts| counts.acked == 2).await;
    soon(consumer.stop()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_a_retry_or_a_dead_letter_with_its_reason() {
    let server = Server::start().await;
    let client = server.client();
    for id in ["dead", "again", "error", "later"] {
        due(&client, id).await;
    }
    let consumer = client.consume(NAMESPACE, async |firing: Firing| {
        match (firing.id.as_str(), firing.attempt) {
            ("dead", _) => return Err(Failure::dead("cannot be")),
            ("again", 1) => return Err(Failure::retry_after(Duration::from_millis(1), "busy")),
            ("later", 1) => return Err(Failure::snooze(Duration::from_millis(1))),
            ("error", 1) => Err(io::Error::other("no disk"))?,
            _ => {}
        }
        Ok(())
    });
    let consumer = consumer.unwrap();
    until_state(&client, "dead", State::Dead).await;
    until_state(&client, "again", State::Finished).await;
    until_state(&client, "later", State::Finished).await;
    // The retry policy of the namespace waits a second.
    until_state(&client, "error", State::Finished).await;
    let reason =
        async |id: &str| client.get(NAMESPACE, id).await.unwrap().history[0].reason.clone();
    assert!(reason("dead").await.contains("cannot be"));
    assert!(reason("again").await.contains("busy"));
    assert!(reason("error").await.contains("no disk"));
    counted(&consumer, |counts| counts.acked == 3).await;
    let counts = soon(consumer.stop()).await.unwrap();
    assert_eq!((counts.acked, counts.retried, counts.dead, counts.snoozed), (3, 2, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_is_a_retry_with_its_message() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "x").await;
    let consumer = client.consume(NAMESPACE, async |firing: Firing| {
        assert!(firing.attempt > 1, "a fault in attempt {}", firing.attempt);
        DONE
    });
    let consumer = consumer.unwrap();
    until_state(&client, "x", State::Finished).await;
    let reason = client.get(NAMESPACE, "x").await.unwrap().history[0].reason.clone();
    assert!(reason.contains("the handler panicked: a fault in attempt 1"), "{reason}");
    counted(&consumer, |counts| counts.acked == 1).await;
    let counts = soon(consumer.stop()).await.unwrap();
    assert_eq!((counts.panicked, counts.retried, counts.acked), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_slow_handler_is_extended() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "slow").await;
    let (finish, calls) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (waits, counts) = (Arc::clone(&finish), Arc::clone(&calls));
    let lease = Duration::from_secs(1);
    let consumer = client.consumer(NAMESPACE).lease(lease).start(move |_: Firing| {
        counts.fetch_add(1, Ordering::Relaxed);
        let finish = Arc::clone(&waits);
        async move {
            finish.notified().await;
            DONE
        }
    });
    let consumer = consumer.unwrap();
    // An extension at each third of the lease: without them the lease would have ended before the last
    // one.
    counted(&consumer, |counts| counts.extended >= 4).await;
    finish.notify_one();
    until_state(&client, "slow", State::Finished).await;
    let counts = soon(consumer.stop()).await.unwrap();
    assert_eq!((counts.acked, counts.lease_lost), (1, 0));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(client.get(NAMESPACE, "slow").await.unwrap().attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_finishes_handlers_and_releases_the_rest() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "running").await;
    let finish = Arc::new(Notify::new());
    let waits = Arc::clone(&finish);
    let consumer = client.consumer(NAMESPACE).concurrency(3).start(move |_: Firing| {
        let finish = Arc::clone(&waits);
        async move {
            finish.notified().await;
            DONE
        }
    });
    let consumer = consumer.unwrap();
    counted(&consumer, |counts| counts.received == 1).await;
    let mut stopping = Box::pin(consumer.stop());
    assert!(futures::poll!(&mut stopping).is_pending());
    // They use the two credits that are left.
    due(&client, "late:1").await;
    due(&client, "late:2").await;
    until(|| async { client.stats(NAMESPACE).await.unwrap().in_flight == 3 }).await;
    finish.notify_one();
    let counts = soon(stopping).await.unwrap();
    assert_eq!((counts.acked, counts.aborted), (1, 0));
    let firings = lease(&client, 2).await;
    // They were written to the connection, so they may have been received.
    assert!(firings.iter().all(|firing| firing.attempt == 2), "{firings:?}");
    assert_eq!(client.get(NAMESPACE, "running").await.unwrap().state(), State::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_handler_is_aborted_after_a_stop_and_firing_released() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "endless").await;
    let builder = client.consumer(NAMESPACE).stop_within(Duration::ZERO);
    let consumer =
        builder.start(async |_: Firing| std::future::pending::<Result<(), Failure>>().await);
    let consumer = consumer.unwrap();
    counted(&consumer, |counts| counts.received == 1).await;
    let counts = soon(consumer.stop()).await.unwrap();
    assert_eq!((counts.aborted, counts.acked, counts.retried), (1, 0, 0));
    assert_eq!(lease(&client, 1).await[0].attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_handle_is_dropped_stops() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "first").await;
    let consumer = client.consume(NAMESPACE, async |_: Firing| DONE).unwrap();
    until_state(&client, "first", State::Finished).await;
    drop(consumer);
    // A firing that is still sent to the stopped consumer is released.
    due(&client, "second").await;
    assert_eq!(lease(&client, 1).await[0].id, "second");
}

#[tokio::test]
async fn options_outside_their_bounds_are_refused() {
    let client = duly_client::Client::new("http://127.0.0.1:1").unwrap();
    let consumer = || client.consumer(NAMESPACE);
    let dedup = |entries_max, keep| duly_client::Dedup { entries_max, keep };
    let day = Duration::from_secs(86_400);
    for (builder, field) in [
        (consumer().concurrency(0), "concurrency"),
        (consumer().concurrency(10_001), "concurrency"),
        (consumer().lease(Duration::from_millis(999)), "lease"),
        (consumer().lease(day), "lease"),
        (consumer().stop_within(day), "stop_within"),
        (consumer().dedup(dedup(10_000_001, day)), "dedup.entries_max"),
        (consumer().dedup(dedup(1, 2 * day)), "dedup.keep"),
    ] {
        let refusal = builder.start(async |_: Firing| DONE).unwrap_err().to_string();
        assert!(refusal.starts_with(&format!("{field} must be from ")), "{refusal}");
    }
}
