//! What a lane's limits look like from outside.

use super::*;
use crate::{BreakerState, LaneLoad};

fn lane(world: &World, origin: &str) -> LaneLoad {
    let lanes = world.handle.lanes(&world.namespace);
    let found =
        lanes.into_iter().find(|lane| matches!(&lane.key, LaneKey::Origin(o) if **o == *origin));
    found.expect("the lane is known")
}

#[tokio::test(start_paused = true)]
async fn p9_a_receiver_that_fails_is_left_alone_and_its_backlog_delays_nobody() {
    let mut world = World::start().await;
    world.limit_in_flight(4).await;
    for i in 0..200 {
        world.schedule(&format!("a{i}"), ms(0), A).await;
    }
    let (mut failures, mut quiet) = (0, 0);
    // Two minutes of a dead receiver beside a quiet lane that gets one firing a second.
    for second in 0..120 {
        world.schedule(&format!("b{second}"), ms(0), B).await;
        world.quiet().await;
        while let Some(call) = world.try_call() {
            if call.envelope.id.as_str().starts_with('b') {
                quiet += 1;
                call.answer(Delivery::Confirmed);
            } else {
                failures += 1;
                call.answer(failed(AttemptOutcome::NotConnected));
            }
            world.quiet().await;
        }
        // At once: the clock has not moved since it was scheduled.
        assert_eq!(quiet, second + 1);
        world.advance(ms(1_000)).await;
    }
    // Ten open the breaker, up to three more were under way, then one probe after 1, 2, 4 … s.
    assert!((14..=21).contains(&failures), "{failures} attempts in two minutes");
    let load = lane(&world, A);
    assert_eq!((load.state, load.breaker), (Activity::Shut, BreakerState::Open));
    assert!(load.next_probe_in.is_some() && load.backlog > 0 && load.in_flight == 0);
    assert_eq!(lane(&world, B).breaker, BreakerState::Closed);

    // It is back: a probe, and then everything.
    let mut delivered = 0;
    for _ in 0..600 {
        world.quiet().await;
        while let Some(call) = world.try_call() {
            delivered += 1;
            call.answer(Delivery::Confirmed);
            world.quiet().await;
        }
        world.advance(ms(100)).await;
    }
    assert_eq!(delivered, 200);
    assert_eq!(lane(&world, A).breaker, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn p10_deliver_per_second_holds_and_nothing_is_lost() {
    let mut world = World::start().await;
    let mut settings = world::settings();
    settings.limits.deliver_per_second = Some(20);
    world.put(settings).await;
    for i in 0..60 {
        world.schedule(&format!("t{i}"), ms(0), A).await;
    }
    world.schedule("other", ms(0), B).await;
    let mut by_step = Vec::new();
    for _ in 0..300 {
        world.quiet().await;
        let mut count = 0;
        while let Some(call) = world.try_call() {
            count += usize::from(call.envelope.id.as_str() != "other");
            call.answer(Delivery::Confirmed);
            world.quiet().await;
        }
        by_step.push(count);
        world.advance(ms(10)).await;
    }
    assert_eq!(by_step.iter().sum::<usize>(), 60, "in three seconds");
    for window in by_step.windows(100) {
        let count: usize = window.iter().sum();
        assert!(count <= 20 + 2, "{count} in a second");
    }
    assert_eq!(lane(&world, A).per_second, Some(20));
}

#[tokio::test(start_paused = true)]
async fn changed_settings_hold_at_once_although_nothing_ends() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    for i in 0..10 {
        world.schedule(&format!("t{i}"), ms(0), A).await;
    }
    let mut hanging = vec![world.call().await];
    world.nothing_more().await;
    world.limit_in_flight(6).await;
    world.quiet().await;
    while let Some(call) = world.try_call() {
        hanging.push(call);
    }
    assert_eq!(hanging.len(), 6);
    assert_eq!(lane(&world, A).cap, Some(6));
}
