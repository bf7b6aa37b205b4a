//! Expected firings of pull lanes with several nodes: a claim has reported them.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    MemberId, Store,
    deployment::{Heartbeat, MembershipStage, NamespaceFilter},
};

use super::nodes::Together;
use super::pull::{MINUTE, request};
use super::*;

/// A consumer of one node that leases one firing after the other.
fn consume(world: &World) -> tokio::task::JoinHandle<()> {
    let (handle, wanted) = (world.handle.clone(), request(world, 1, MINUTE));
    tokio::spawn(async move {
        loop {
            handle.lease(wanted.clone()).await.unwrap().delivered();
        }
    })
}

#[tokio::test(start_paused = true)]
async fn p9_a_steady_consumer_costs_one_claim_per_firing() {
    for owns in [true, false] {
        let nodes = Together::start(2).await;
        let owner = nodes.owner();
        let world = &nodes.worlds[if owns { owner } else { 1 - owner }];
        let consumer = consume(world);
        nodes.pass(2_000).await;
        for i in 0..40 {
            world.schedule_pull(&format!("t{i}"), ms(1_000 + i * 100)).await;
        }
        nodes.pass(1_000).await;
        let polls = || nodes.worlds.iter().map(|world| world.flaky.polls()).sum::<usize>();
        let before = polls();
        for i in 0..40 {
            assert_eq!(world.state(&format!("t{i}")).await, State::InFlight, "{i} is in time");
            nodes.pass(100).await;
        }
        // The owner also polls once a second. A claim of another node may cause one poll for each firing
        // too.
        let asked = polls() - before;
        assert!(!owns || asked <= 40 + 10, "asked {asked} times for 40 firings");
        consumer.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_in_time_beside_pull_timers_that_are_expected() {
    let mut nodes = Together::start(1).await;
    let consumer = consume(&nodes.worlds[0]);
    nodes.pass(2_000).await;
    for i in 0..60 {
        nodes.worlds[0].schedule_pull(&format!("t{i}"), ms(100 + i * 50)).await;
        if i % 7 == 6 {
            nodes.worlds[0].schedule(&format!("w{i}"), ms(100 + i * 50), A).await;
        }
    }
    nodes.pass(100).await;
    for i in 0..60 {
        let call = nodes.worlds[0].try_call();
        assert_eq!(call.is_some(), i % 7 == 6, "at step {i}");
        if let Some(call) = call {
            assert_eq!(call.envelope.id.as_str(), format!("w{i}"));
            call.answer(Delivery::Confirmed);
        }
        nodes.pass(50).await;
    }
    consumer.abort();
}

#[tokio::test(start_paused = true)]
async fn expected_firings_without_a_call_are_announced() {
    let nodes = Together::start(2).await;
    let (owner, other) = (nodes.owner(), 1 - nodes.owner());
    let namespace: NamespaceName = nodes.worlds[0].namespace.clone();
    let mut waits = NamespaceFilter::default();
    waits.insert(&namespace);
    // A third node has waiting calls, and no shard.
    let third = |number, presence| Heartbeat {
        member_id: MemberId(4_713),
        number,
        list: 1,
        name: "third".to_owned(),
        protocols: (1, 1),
        presence,
        waits: waits.clone(),
        dead: Vec::new(),
    };
    let deployment = nodes.store.deployment().unwrap();
    deployment.heartbeat(ShardId(0), third(1, MembershipStage::Here)).await.unwrap();
    deployment.heartbeat(ShardId(0), third(2, MembershipStage::Leaving)).await.unwrap();
    nodes.pass(300).await;
    nodes.worlds[other].schedule_pull("x", ms(50)).await;
    nodes.worlds[other].schedule_pull("y", ms(200)).await;
    // No other node announces it.
    nodes.worlds[owner].flaky.cut_off(true);
    nodes.clock.advance(ms(50));
    let once = request(&nodes.worlds[other], 1, Duration::ZERO);
    let leased = nodes.worlds[other].handle.lease(once).await.unwrap();
    assert_eq!(leased.firings.len(), 1);
    leased.delivered();
    let mut announced = deployment.announcements();
    nodes.pass(200).await;
    assert_eq!(announced.try_recv().ok(), Some((ShardId(0), namespace)));
}

#[tokio::test(start_paused = true)]
async fn the_next_call_finds_expected_firings() {
    let nodes = Together::start(2).await;
    let owner = nodes.owner();
    let world = &nodes.worlds[1 - owner];
    let consumer = consume(world);
    nodes.pass(2_000).await;
    world.schedule_pull("x", ms(50)).await;
    world.schedule_pull("y", ms(100)).await;
    nodes.pass(50).await;
    assert_eq!(world.state("x").await, State::InFlight);
    // The consumer handles the first firing, and returns when the second is due; no other node announces
    // it.
    consumer.abort();
    nodes.worlds[owner].flaky.cut_off(true);
    nodes.pass(100).await;
    let consumer = consume(world);
    world.quiet().await;
    assert_eq!(world.state("y").await, State::InFlight);
    consumer.abort();
}

#[tokio::test(start_paused = true)]
async fn a_hung_pull_claim_delays_no_webhook() {
    let mut nodes = Together::start(1).await;
    let consumer = consume(&nodes.worlds[0]);
    nodes.pass(2_000).await;
    nodes.worlds[0].schedule_pull("x", ms(100)).await;
    nodes.worlds[0].schedule_pull("y", ms(200)).await;
    nodes.worlds[0].schedule("w", ms(200), A).await;
    nodes.pass(150).await;
    assert_eq!(nodes.worlds[0].state("x").await, State::InFlight);
    let hangs = nodes.worlds[0].flaky.doom_claim();
    nodes.pass(150).await;
    let call = nodes.worlds[0].try_call();
    assert_eq!(call.expect("it is sent meanwhile").envelope.id.as_str(), "w");
    hangs.notify_one();
    consumer.abort();
}
