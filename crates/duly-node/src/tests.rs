//! The loops with the reference store, a clock that the test moves, and a sink that the test answers.
//! One thread and paused runtime time: nothing happens that the test does not cause.

use std::time::Duration;

use duly_core::{State, destination::LaneKey, timer::AttemptOutcome};
use duly_sink::Delivery;

use crate::LaneActivity;

mod backlog;
mod clock_steps;
mod coordinators;
mod drain;
mod expected;
mod flaky;
mod guards;
mod idle_namespaces;
mod lanes;
mod manual_waker;
mod nodes;
mod pull;
mod reasons;
mod settings;
mod shards;
mod stream_leases;
mod traces;
mod watchdog;
mod world;

use world::{World, failed, ms};

const A: &str = "https://a.example";
const B: &str = "https://b.example";

#[tokio::test(start_paused = true)]
async fn t25_idle_for_days_then_one_timer_fires_on_time() {
    let mut world = World::start().await;
    let days = ms(10 * 86_400_000);
    world.schedule("far", days, A).await;
    world.advance(ms(days.ms() - 1)).await;
    world.nothing_more().await;
    world.advance(ms(1)).await;
    let call = world.call().await;
    assert_eq!(call.envelope.id.as_str(), "far");
    assert_eq!(call.envelope.attempt, 1);
    call.answer(Delivery::Confirmed);
    world.until("far", State::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_scheduled_earlier_than_the_sleep_wakes_the_loop() {
    let mut world = World::start().await;
    world.schedule("later", ms(60_000), A).await;
    world.schedule("sooner", ms(10), A).await;
    world.advance(ms(10)).await;
    let call = world.call().await;
    assert_eq!(call.envelope.id.as_str(), "sooner");
    call.answer(Delivery::Confirmed);
    world.schedule("now", ms(0), A).await;
    let call = world.call().await;
    assert_eq!(call.envelope.id.as_str(), "now");
}

#[tokio::test(start_paused = true)]
async fn p3_p7_retries_keep_the_delivery_id_until_dead_lettered() {
    let mut world = World::start().await;
    world.schedule("t", ms(0), A).await;
    let mut ids = Vec::new();
    for (attempt, wait) in [(1, ms(1_000)), (2, ms(10_000)), (3, ms(0))] {
        let call = world.call().await;
        assert_eq!(call.envelope.attempt, attempt);
        ids.push(call.envelope.delivery_id);
        call.answer(failed(AttemptOutcome::Failed));
        world.nothing_more().await;
        world.advance(wait).await;
    }
    assert!(ids.iter().all(|id| *id == ids[0]));
    let view = world.until("t", State::Dead).await;
    assert_eq!(view.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_firing_is_dead_at_once() {
    let mut world = World::start().await;
    world.schedule("t", ms(0), A).await;
    let reason = "HTTP 410".to_owned();
    world.call().await.answer(Delivery::Rejected { reason });
    let view = world.until("t", State::Dead).await;
    assert_eq!(view.timer().unwrap().last_error(), Some("HTTP 410"));
}

#[tokio::test(start_paused = true)]
async fn p9_a_dead_receiver_delays_no_other_lane() {
    let mut world = World::start().await;
    world.limit_in_flight(4).await;
    for i in 0..50 {
        world.schedule(&format!("a{i}"), ms(0), A).await;
    }
    let mut hanging = Vec::new();
    for _ in 0..4 {
        hanging.push(world.call().await);
    }
    world.nothing_more().await;
    for i in 0..50 {
        world.schedule(&format!("b{i}"), ms(0), B).await;
        let call = world.call().await;
        assert_eq!(call.envelope.id.as_str(), format!("b{i}"));
        call.answer(Delivery::Confirmed);
        world.until(&format!("b{i}"), State::Finished).await;
    }
    assert!(hanging.iter().all(|call| call.envelope.id.as_str().starts_with('a')));
}

#[tokio::test(start_paused = true)]
async fn p10_a_lane_never_has_more_under_way_than_its_cap() {
    let mut world = World::start().await;
    world.limit_in_flight(3).await;
    for i in 0..20 {
        world.schedule(&format!("t{i}"), ms(0), A).await;
    }
    let mut under_way = Vec::new();
    for ended in 0..20 {
        while under_way.len() < 3.min(20 - ended) {
            under_way.push(world.call().await);
        }
        world.nothing_more().await;
        let lanes = world.handle.lanes(&world.namespace);
        assert_eq!(lanes[0].in_flight, under_way.len());
        assert_eq!(lanes[0].cap, Some(3));
        assert!(matches!(&lanes[0].key, LaneKey::Receiver(o) if **o == *A));
        if ended < 17 {
            assert_eq!(lanes[0].state, LaneActivity::Capped);
        }
        under_way.remove(0).answer(Delivery::Confirmed);
    }
    world.quiet().await;
    assert_eq!(world.handle.health().deliveries_in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn t23_a_retry_storm_does_not_starve_first_attempts() {
    let mut world = World::start_with(|options| options.workers_max = 8).await;
    for i in 0..40 {
        world.schedule(&format!("a{i}"), ms(0), A).await;
    }
    // Nearly every first attempt fails, but too few in a row for the breaker; then all retries hang.
    for i in 0..40 {
        let good = i % 9 == 8;
        let failed = failed(AttemptOutcome::Failed);
        world.call().await.answer(if good { Delivery::Confirmed } else { failed });
    }
    world.advance(ms(1_000)).await;
    let mut hanging = Vec::new();
    world.quiet().await;
    while let Some(call) = world.try_call() {
        assert_eq!(call.envelope.attempt, 2);
        hanging.push(call);
    }
    assert!((1..=4).contains(&hanging.len()), "{} retries", hanging.len());
    for (i, url) in [A, B].into_iter().enumerate() {
        world.schedule(&format!("first{i}"), ms(0), url).await;
        let call = world.call().await;
        assert_eq!(call.envelope.id.as_str(), format!("first{i}"));
        hanging.push(call);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_sink_costs_one_attempt_and_no_slot() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    world.schedule("t", ms(0), A).await;
    world.call().await.panic();
    let view = world.until("t", State::Retrying).await;
    assert!(view.maybe_delivered());
    world.quiet().await;
    world.advance(ms(1_000)).await;
    let call = world.call().await;
    assert_eq!(call.envelope.attempt, 2);
    call.answer(Delivery::Confirmed);
    world.until("t", State::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_retried_until_the_store_accepts_it() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    world.flaky.fail_settles(5);
    world.schedule("t1", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    world.schedule("t2", ms(0), A).await;
    // The slot is held until the verdict is accepted, so a store that is down gets no new claims.
    world.nothing_more().await;
    assert_eq!(world.handle.health().unsettled, 1);
    world.until("t1", State::Finished).await;
    world.call().await.answer(Delivery::Confirmed);
    world.until("t2", State::Finished).await;
    assert_eq!(world.flaky.failed_settles(), 5);
}

#[tokio::test(start_paused = true)]
async fn p12_what_is_overdue_at_the_start_is_delivered() {
    let mut world = World::start_with(|_| {}).await;
    world.schedule("old", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    world.until("old", State::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_or_ready_that_fails_is_tried_again() {
    let mut world = World::start().await;
    world.flaky.fail_claims(3);
    world.schedule("t", ms(0), A).await;
    let call = world.call().await;
    assert_eq!(world.flaky.failed_claims(), 3);
    call.answer(Delivery::Confirmed);
    world.until("t", State::Finished).await;
    assert_eq!(world.handle.health().deliveries_in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn p3_a_panic_while_settling_leaves_nothing_leased() {
    let mut world = World::start().await;
    world.flaky.panic_in(flaky::Breaks::Settle);
    world.schedule("t", ms(0), A).await;
    let first = world.call().await;
    let delivery_id = first.envelope.delivery_id;
    first.answer(Delivery::Confirmed);
    let second = world.call().await;
    assert_eq!((second.envelope.attempt, second.envelope.delivery_id), (2, delivery_id));
    second.answer(Delivery::Confirmed);
    world.until("t", State::Finished).await;
    assert_eq!(world.handle.health().unsettled, 0);
}

#[tokio::test(start_paused = true)]
async fn firings_of_a_slow_claim_are_released() {
    let mut world = World::start().await;
    let too_long = duly_core::Millis::from_secs(crate::deliver::HOLD_FOR.as_secs());
    world.flaky.delay_claim(world.clock.clone(), too_long);
    world.schedule("t", ms(0), A).await;
    // The first claim was released and not counted, so this is still the first attempt.
    let call = world.call().await;
    assert_eq!(call.envelope.attempt, 1);
    assert_eq!(world.flaky.released(), 1);
    call.answer(Delivery::Confirmed);
    world.until("t", State::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn p9_more_lanes_than_fit_a_page_are_all_served() {
    let mut world = World::start().await;
    for namespace in ["one", "two", "three"] {
        world.namespace = duly_core::NamespaceName::new(namespace).unwrap();
        world.put(world::settings()).await;
        for i in 0..150 {
            let url = format!("https://r{i}.example");
            world.schedule(&format!("t{i}"), ms(1_000), &url).await;
        }
    }
    world.advance(ms(1_000)).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..450 {
        let call = world.call().await;
        seen.insert((call.envelope.namespace.clone(), call.envelope.id.clone()));
        call.answer(Delivery::Confirmed);
    }
    assert_eq!(seen.len(), 450);
    world.nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn a_pull_lane_is_never_pushed() {
    let mut world = World::start().await;
    world.schedule_pull("p", ms(0)).await;
    world.schedule("h", ms(0), A).await;
    assert_eq!(world.call().await.envelope.id.as_str(), "h");
    world.nothing_more().await;
    assert_eq!(world.state("p").await, State::Due);
    let loops = world.handle.health().loops;
    assert!(loops.iter().all(|l| l.idle_for <= Duration::from_secs(1)), "{loops:?}");
}
