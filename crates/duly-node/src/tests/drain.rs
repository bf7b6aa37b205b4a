//! The end of a node.

use super::pull::{MINUTE, request};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_drain_lets_attempts_finish_and_claims_no_more() {
    let mut world = World::start().await;
    world.schedule("running", ms(0), A).await;
    let call = world.call().await;
    let handle = world.handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    world.quiet().await;
    assert!(world.handle.health().draining);
    world.schedule("late", ms(0), B).await;
    world.nothing_more().await;
    assert!(!drain.is_finished());
    call.answer(Delivery::Confirmed);
    drain.await.unwrap();
    assert_eq!(world.state("running").await, State::Finished);
    assert_eq!(world.state("late").await, State::Due);
    world.nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_counts_as_a_lost_lease() {
    let mut world = World::start().await;
    world.schedule("hangs", ms(0), A).await;
    let hanging = world.call().await;
    let started = tokio::time::Instant::now();
    world.handle.drain().await;
    assert_eq!(started.elapsed().as_secs(), 25);
    assert_eq!(world.handle.health().deliveries_in_flight, 0);
    let view = world.view("hangs").await;
    assert_eq!(view.state, State::Retrying);
    assert!(view.maybe_delivered());
    let history = &view.timer().unwrap().history;
    assert_eq!(history[0].outcome, AttemptOutcome::LeaseLost);
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn a_drain_answers_waiting_calls_and_queues_no_more() {
    let world = World::start().await;
    let request = request(&world, 1, MINUTE);
    let (handle, first) = (world.handle.clone(), request.clone());
    let waits = tokio::spawn(async move { handle.lease(first).await.unwrap() });
    world.quiet().await;
    assert_eq!(world.handle.health().waiters, 1);
    world.handle.drain().await;
    let started = tokio::time::Instant::now();
    assert!(waits.await.unwrap().firings.is_empty());
    world.schedule_pull("x", ms(0)).await;
    let leased = world.handle.lease(request).await.unwrap();
    assert!(leased.firings.is_empty());
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(world.state("x").await, State::Due);
}

#[tokio::test(start_paused = true)]
async fn p3_a_drain_waits_for_claims_of_lease_calls() {
    let world = World::start().await;
    let held = world.flaky.hold_claim();
    let request = request(&world, 1, MINUTE);
    let handle = world.handle.clone();
    let waits = tokio::spawn(async move { handle.lease(request).await.unwrap() });
    world.schedule_pull("x", ms(0)).await;
    world.quiet().await;
    assert_eq!(world.state("x").await, State::InFlight, "granted, and the answer is on its way");
    let handle = world.handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    world.quiet().await;
    assert!(!drain.is_finished());
    held.notify_one();
    drain.await.unwrap();
    assert!(waits.await.unwrap().firings.is_empty());
    assert_eq!(world.state("x").await, State::Due, "handed back before the drain ended");
}

#[tokio::test(start_paused = true)]
async fn p3_a_walk_that_a_drain_finds_between_two_pages_ends_there() {
    let mut world = World::start().await;
    for namespace in ["one", "two", "three", "four"] {
        world.namespace = duly_core::NamespaceName::new(namespace).unwrap();
        world.put(world::settings()).await;
        for i in 0..150 {
            let url = format!("https://r{i}.example");
            world.schedule(&format!("t{i}"), ms(1_000), &url).await;
        }
    }
    let held = world.flaky.hold_claim();
    world.advance(ms(1_000)).await;
    let handle = world.handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    world.quiet().await;
    assert!(world.handle.health().draining && !drain.is_finished());
    held.notify_one();
    world.quiet().await;
    let mut delivered = 0;
    while let Some(call) = world.try_call() {
        delivered += 1;
        call.answer(Delivery::Confirmed);
        world.quiet().await;
    }
    drain.await.unwrap();
    assert!((1..=256).contains(&delivered), "{delivered}: no more than the page that was claimed");
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_notified_of_released_slots() {
    let mut world = World::start().await;
    let doomed = world.flaky.doom_claim();
    world.schedule("t", ms(0), A).await;
    world.quiet().await;
    assert_eq!(world.handle.health().deliveries_in_flight, 1, "held for the claim");
    let handle = world.handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    world.nothing_more().await;
    assert!(!drain.is_finished());
    doomed.notify_one();
    world.nothing_more().await;
    assert!(drain.is_finished(), "without waiting for its time to run out");
}
