//! Lease calls through the loops.

use duly_core::{Millis, NamespaceName};
use duly_store::{
    Error, Namespaces, SettleOutcome, SettleVerdict, Settlement, Token, namespaces::Activity,
};

use super::*;
use crate::{LeaseRequest, Leased};

pub(super) fn request(world: &World, max: usize, wait: Duration) -> LeaseRequest {
    LeaseRequest {
        namespace: world.namespace.clone(),
        max,
        bytes_max: 1 << 20,
        lease: Some(Millis::from_secs(30)),
        wait,
        memory: None,
    }
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Starts a lease call in a task of its own; it is queued when this returns.
async fn waiting(world: &World, max: usize) -> tokio::task::JoinHandle<Leased> {
    let before = world.handle.health().waiters;
    let handle = world.handle.clone();
    let request = request(world, max, MINUTE);
    let task = tokio::spawn(async move { handle.lease(request).await.unwrap() });
    world.quiet().await;
    assert_eq!(world.handle.health().waiters, before + 1);
    task
}

pub(super) async fn try_lease(world: &World, max: usize) -> Leased {
    let request = request(world, max, Duration::ZERO);
    world.handle.lease(request).await.unwrap()
}

fn ids(leased: &Leased) -> Vec<&str> {
    leased.firings.iter().map(|f| f.id.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn lease_calls_are_answered_in_order_of_arrival() {
    let world = World::start().await;
    let first = waiting(&world, 1).await;
    let second = waiting(&world, 1).await;
    world.schedule_pull("x", ms(5)).await;
    world.schedule_pull("y", ms(6)).await;
    world.advance(ms(4)).await;
    assert!(!first.is_finished());
    world.advance(ms(1)).await;
    let answer = first.await.unwrap();
    assert_eq!(ids(&answer), ["x"]);
    answer.delivered();
    assert!(!second.is_finished());
    world.advance(ms(1)).await;
    assert_eq!(ids(&second.await.unwrap()), ["y"]);
}

#[tokio::test(start_paused = true)]
async fn a_single_try_does_not_overtake_waiting_calls() {
    let world = World::start().await;
    let waits = waiting(&world, 1).await;
    world.clock.advance(ms(1));
    let (tried, ()) = tokio::join!(try_lease(&world, 1), world.schedule_pull("x", ms(0)));
    world.quiet().await;
    assert_eq!(ids(&waits.await.unwrap()), ["x"]);
    assert!(tried.firings.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_takes_what_is_there_at_once() {
    let world = World::start().await;
    assert!(try_lease(&world, 10).await.firings.is_empty());
    for id in ["a", "b", "c"] {
        world.schedule_pull(id, ms(0)).await;
        world.clock.advance(ms(1));
    }
    let leased = try_lease(&world, 2).await;
    assert_eq!(ids(&leased), ["a", "b"]);
    leased.delivered();
    let leased = try_lease(&world, 2).await;
    assert_eq!(ids(&leased), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_not_written_goes_back_uncounted() {
    let world = World::start().await;
    world.schedule_pull("x", ms(0)).await;
    let leased = try_lease(&world, 1).await;
    assert_eq!(leased.firings[0].attempt, 1);
    drop(leased);
    world.quiet().await;
    assert_eq!(world.state("x").await, State::Due);
    let leased = try_lease(&world, 1).await;
    assert_eq!(leased.firings[0].attempt, 1, "the first one was not counted");
    leased.delivered();
    world.quiet().await;
    assert_eq!(world.state("x").await, State::InFlight);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_no_claim_behind() {
    let world = World::start().await;
    let gone = waiting(&world, 1).await;
    let stays = waiting(&world, 1).await;
    gone.abort();
    world.quiet().await;
    assert_eq!(world.handle.health().waiters, 1);
    world.schedule_pull("x", ms(0)).await;
    let leased = stays.await.unwrap();
    assert_eq!(ids(&leased), ["x"]);
    leased.delivered();
    // The caller disconnects after the reply was sent, before it was read.
    let late = waiting(&world, 1).await;
    world.schedule_pull("y", ms(0)).await;
    late.abort();
    world.quiet().await;
    assert_eq!(world.state("y").await, State::Due);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_empty() {
    let world = World::start().await;
    let leased = world.handle.lease(request(&world, 1, MINUTE)).await.unwrap();
    assert!(leased.firings.is_empty() && !leased.paused);
    assert_eq!(world.handle.health().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn paused_unknown_and_full_return_at_once() {
    let world = World::start_with(|options| options.pull_waiters_max = 1).await;
    let mut unknown = request(&world, 1, MINUTE);
    unknown.namespace = NamespaceName::new("nobody").unwrap();
    let error = world.handle.lease(unknown).await.unwrap_err();
    assert_eq!(error, Error::UnknownNamespace("nobody".to_owned()));

    let waits = waiting(&world, 1).await;
    let error = world.handle.lease(request(&world, 1, MINUTE)).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { .. }), "{error}");

    let pause = |activity| world.flaky.set_activity(world.namespace.clone(), activity);
    pause(Activity::Paused).await.unwrap();
    world.schedule_pull("x", ms(0)).await;
    let leased = world.handle.lease(request(&world, 1, MINUTE)).await.unwrap();
    assert!(leased.paused && leased.firings.is_empty());
    world.quiet().await;
    assert!(!waits.is_finished());
    pause(Activity::Running).await.unwrap();
    assert_eq!(ids(&waits.await.unwrap()), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_is_handed_to_the_next() {
    let world = World::start().await;
    world.schedule_pull("x", ms(0)).await;
    try_lease(&world, 1).await.delivered();
    let next = waiting(&world, 1).await;
    world.advance(ms(29_999)).await;
    assert!(!next.is_finished());
    world.advance(ms(1)).await;
    let leased = next.await.unwrap();
    assert_eq!(leased.firings[0].attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn p8_settlements_keep_order_and_unknown_tokens_fail() {
    let world = World::start().await;
    world.schedule_pull("x", ms(0)).await;
    let leased = try_lease(&world, 1).await;
    let token = leased.firings[0].token.clone();
    leased.delivered();
    let settle = |token: &Token, verdict| Settlement {
        token: token.clone(),
        namespace: Some(world.namespace.clone()),
        verdict,
    };
    let elsewhere = Token::new(duly_core::shard::ShardId(7), &[1; 16]);
    let outcomes = world
        .handle
        .settle(
            vec![
                settle(&elsewhere, SettleVerdict::Ack),
                settle(&token, SettleVerdict::Ack),
                settle(&token, SettleVerdict::Ack),
            ],
            None,
        )
        .await
        .unwrap();
    let expected =
        [SettleOutcome::InvalidToken, SettleOutcome::Ok, SettleOutcome::AlreadySettled].map(Ok);
    assert_eq!(outcomes, expected);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_lease_calls_is_reported() {
    let world = World::start().await;
    world.schedule_pull("t", ms(0)).await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(world.handle.health().unleased, []);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.handle.health().unleased, std::slice::from_ref(&world.namespace));
    let leased = world.handle.lease(request(&world, 1, Duration::ZERO)).await.unwrap();
    assert_eq!(leased.firings.len(), 1);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(world.handle.health().unleased, []);
}
