//! Loops, calls and deliveries that are broken on purpose: the watchdog or the auditor detects it.

use duly_core::shard::ShardId;

use super::{
    flaky::{Breaks, Cut},
    manual_waker::WakerThread,
    nodes::Together,
    pull::{MINUTE, request},
    *,
};

/// Longer than any test: the watchdog is off.
const NEVER: Duration = Duration::from_secs(1 << 30);

#[tokio::test(start_paused = true)]
async fn t27_a_hung_loop_is_restarted() {
    for kind in [Breaks::Ready, Breaks::Claim] {
        let mut world = World::start().await;
        world.limit_in_flight(1).await;
        world.flaky.hang(kind);
        world.schedule("t", ms(0), A).await;
        let call = world.call().await;
        assert_eq!(call.envelope.attempt, 1);
        assert_eq!(world.handle.health().restarts, 1, "{kind:?}");
        call.answer(Delivery::Confirmed);
        world.until("t", State::Finished).await;
        // The slot of the claim that hung was not lost.
        assert_eq!(world.handle.health().deliveries_in_flight, 0);
        world.schedule("u", ms(0), A).await;
        world.call().await.answer(Delivery::Confirmed);
        world.until("u", State::Finished).await;
    }
}

#[tokio::test(start_paused = true)]
async fn canary_without_watchdog_a_hung_loop_delivers_nothing() {
    let mut world = World::start_with(|options| options.stall_after = NEVER).await;
    world.flaky.hang(Breaks::Ready);
    world.schedule("t", ms(0), A).await;
    for _ in 0..60 {
        tokio::time::advance(Duration::from_secs(60)).await;
        world.advance(ms(1_000)).await;
    }
    assert!(world.try_call().is_none());
}

#[tokio::test(start_paused = true)]
async fn t25_the_watchdog_recovers_a_lost_wake_up() {
    let mut world = World::start().await;
    world.schedule("t", ms(60_000), A).await;
    world.quiet().await;
    world.advance_unnoticed(ms(60_000));
    let asked = tokio::time::Instant::now();
    world.call().await.answer(Delivery::Confirmed);
    assert!(asked.elapsed() <= Duration::from_secs(5), "two checks: {:?}", asked.elapsed());
    assert_eq!(world.handle.health().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_no_alarm() {
    let world = World::start().await;
    world.waker.set(WakerThread::Notifies);
    world.flaky.fail_claims(usize::MAX);
    world.schedule("t", ms(0), A).await;
    for _ in 0..600 {
        tokio::time::advance(Duration::from_millis(100)).await;
        world.advance(ms(100)).await;
    }
    assert_eq!(world.handle.health().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_act_is_no_alarm() {
    let nodes = Together::start(2).await;
    for world in &nodes.worlds {
        world.waker.set(WakerThread::Notifies);
        world.flaky.cut_from(ShardId(0), Some(Cut::Refused));
    }
    nodes.pass(90_000).await;
    for world in &nodes.worlds {
        assert_eq!(world.handle.health().restarts, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_is_no_alarm() {
    let world = World::start().await;
    for _ in 0..20 {
        world.advance_unnoticed(ms(86_400_000));
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    assert_eq!(world.handle.health().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn p3_a_hung_settle_call_is_repeated() {
    let mut world = World::start().await;
    world.flaky.hang(Breaks::Settle);
    world.schedule("t", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.state("t").await, State::Finished);
    let health = world.handle.health();
    assert_eq!((health.unsettled, health.deliveries_in_flight), (0, 0));
    assert_eq!(health.restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn p3_a_settle_that_takes_longer_than_a_stall_gets_through() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    world.flaky.slow_settles(Duration::from_secs(25));
    world.schedule("t", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    tokio::time::sleep(Duration::from_secs(10 + 20 + 25 + 1)).await;
    assert_eq!(world.state("t").await, State::Finished);
    assert_eq!(world.handle.health().restarts, 2, "each time-out is an alarm");
    // The time-out that it has learned applies to the next calls.
    for id in ["u", "v"] {
        world.schedule(id, ms(0), A).await;
        world.call().await.answer(Delivery::Confirmed);
        tokio::time::sleep(Duration::from_secs(26)).await;
        assert_eq!(world.state(id).await, State::Finished);
    }
    assert_eq!(world.handle.health().restarts, 2);
    // The disk is fast again, and a call that hangs is soon repeated.
    world.flaky.slow_settles(Duration::ZERO);
    for id in ["w", "x"] {
        world.schedule(id, ms(0), A).await;
        world.call().await.answer(Delivery::Confirmed);
        world.until(id, State::Finished).await;
    }
    world.flaky.hang(Breaks::Settle);
    world.schedule("y", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.state("y").await, State::Finished);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_past_its_time_out_releases_its_slot() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    world.schedule("t", ms(0), A).await;
    let hanging = world.call().await;
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(world.handle.health().deliveries_in_flight, 1, "30 s of time-out and 10 s more");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.handle.health().deliveries_in_flight, 0);
    let view = world.view("t").await;
    assert!(view.maybe_delivered());
    assert_eq!(view.state, State::Retrying);
    assert_eq!(world.handle.health().restarts, 1);
    drop(hanging);
}

#[tokio::test(start_paused = true)]
async fn p9_a_hung_pull_claim_does_not_block_its_namespace() {
    let world = World::start().await;
    world.flaky.hang(Breaks::Claim);
    let refused = world.handle.lease(request(&world, 1, MINUTE)).await;
    assert!(refused.is_err());
    world.schedule_pull("p", ms(0)).await;
    let leased = world.handle.lease(request(&world, 1, MINUTE)).await.unwrap();
    assert_eq!(leased.firings.len(), 1);
    leased.delivered();
}

#[tokio::test(start_paused = true)]
async fn the_auditor_finds_a_neglected_lane() {
    let mut world = World::start().await;
    world.lose(Some(A));
    world.schedule("lost", ms(0), A).await;
    world.schedule("seen", ms(0), B).await;
    world.call().await.answer(Delivery::Confirmed);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(world.handle.health().neglected.is_empty(), "one audit may see a lane in between");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let neglected = world.handle.health().neglected;
    assert_eq!(neglected, [format!("{A} of namespace shop")]);
    world.lose(None);
    let call = world.call().await;
    assert_eq!(call.envelope.id.as_str(), "lost", "the lane is planned again");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(world.handle.health().neglected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lanes_that_wait_for_a_reason_are_not_neglected() {
    let mut world = World::start_with(|options| options.workers_max = 4).await;
    let mut settings = world::settings();
    settings.limits.deliver_per_second = Some(1);
    world.put(settings).await;
    let mut calls = Vec::new();
    for i in 0..20 {
        for url in [A, B] {
            world.schedule(&format!("{i}{url}"), ms(0), url).await;
        }
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        while let Some(call) = world.try_call() {
            calls.push(call);
        }
    }
    assert!(!calls.is_empty());
    assert!(world.handle.health().neglected.is_empty());
}
