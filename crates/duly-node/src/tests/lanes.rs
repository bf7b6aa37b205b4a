//! The effect of a lane's limits, as seen from outside.

use duly_core::{
    Destination, Millis, RetryPolicy, destination::HttpDestination, namespace::Fallback,
};
use duly_store::namespaces::{Put, Secrets};

use super::*;
use crate::{BreakerState, LaneLoad};

fn lane(world: &World, origin: &str) -> LaneLoad {
    let lanes = world.handle.lanes(&world.namespace);
    let found =
        lanes.into_iter().find(|lane| matches!(&lane.key, LaneKey::Receiver(o) if **o == *origin));
    found.expect("the lane is known")
}

#[tokio::test(start_paused = true)]
async fn p9_a_failing_receiver_opens_its_breaker_and_delays_no_lane() {
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
    // Ten failures open the breaker, up to three more were under way, then one probe after 1, 2, 4 … s.
    assert!((14..=21).contains(&failures), "{failures} attempts in two minutes");
    let load = lane(&world, A);
    assert_eq!((load.state, load.breaker), (LaneActivity::BreakerOpen, BreakerState::Open));
    assert!(load.next_probe_in.is_some() && load.backlog > 0 && load.in_flight == 0);
    assert_eq!(lane(&world, B).breaker, BreakerState::Closed);

    // The receiver works again: a probe, and then all firings.
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
async fn failures_open_the_breaker_and_rejections_do_not() {
    let failed = || failed(AttemptOutcome::Failed);
    let rejected = || Delivery::Rejected { reason: "HTTP 410".to_owned() };
    let cases: [(&dyn Fn() -> Delivery, _); 2] =
        [(&failed, BreakerState::Open), (&rejected, BreakerState::Closed)];
    for (answer, expected) in cases {
        let mut world = World::start().await;
        for i in 0..20 {
            world.schedule(&format!("t{i}"), ms(0), A).await;
            world.quiet().await;
            if let Some(call) = world.try_call() {
                call.answer(answer());
            }
            world.quiet().await;
        }
        world.schedule("last", ms(0), A).await;
        world.quiet().await;
        assert_eq!(lane(&world, A).breaker, expected);
    }
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

#[tokio::test(start_paused = true)]
async fn p9_large_payloads_of_a_lane_hold_up_no_other() {
    // Each claim has memory for one firing.
    let mut world = World::start_with(|options| options.claim_bytes_max = 1_000).await;
    world.limit_in_flight(20).await;
    for i in 0..50 {
        world.schedule_bytes(&format!("a{i}"), ms(1_000), A, 900).await;
        world.schedule_bytes(&format!("b{i}"), ms(1_000), B, 900).await;
    }
    world.advance(ms(1_000)).await;
    // Nothing ends and the clock stands still: attempts that start use slots that were reserved for
    // them.
    let mut hanging = Vec::new();
    for count in 1..=40 {
        hanging.push(world.call().await);
        let b = hanging.iter().filter(|call| call.envelope.id.as_str().starts_with('b')).count();
        assert!(b.abs_diff(count - b) <= 4 || count > 30, "{b} of {count} are of the second lane");
    }
    world.nothing_more().await;
}

#[tokio::test(start_paused = true)]
async fn p9_p10_payloads_under_way_leave_room_for_other_namespaces() {
    const MAX: usize = 12_000;
    let mut world = World::start_with(|options| {
        options.bytes_max = MAX as u64;
        options.claim_bytes_max = 1_000;
    })
    .await;
    for i in 0..50 {
        world.schedule_bytes(&format!("a{i}"), ms(0), A, 1_000).await;
    }
    world.quiet().await;
    let mut hanging = Vec::new();
    while let Some(call) = world.try_call() {
        hanging.push(call);
    }
    // Twice as many as are free.
    assert_eq!(hanging.len(), 8);
    world.namespace = duly_core::NamespaceName::new("other").unwrap();
    world.put(world::settings()).await;
    for i in 0..5 {
        world.schedule_bytes(&format!("b{i}"), ms(0), A, 1_000).await;
    }
    world.quiet().await;
    let mut others = Vec::new();
    while let Some(call) = world.try_call() {
        others.push(call);
    }
    assert_eq!(others.len(), 3, "the other namespace gets its part of the rest");
    // No lane waits for ever, and none counts as neglected meanwhile.
    for _ in 0..20 {
        world.advance(ms(1_000)).await;
    }
    let neglected = world.handle.health().neglected;
    assert!(neglected.is_empty(), "{neglected:?}");
    hanging.append(&mut others);
    let mut delivered = 0;
    while let Some(call) = hanging.pop() {
        call.answer(Delivery::Confirmed);
        delivered += 1;
        world.quiet().await;
        while let Some(call) = world.try_call() {
            hanging.push(call);
        }
        assert!(hanging.len() <= MAX / 1_000, "{} payloads under way", hanging.len());
    }
    assert_eq!(delivered, 55);
}

const C: &str = "https://second.example";

async fn with_fallback(world: &World, after_attempts: u32, after_open: Millis) {
    let mut settings = world::settings();
    settings.retry = RetryPolicy::Delays(vec![ms(1_000); 8]);
    let destination = HttpDestination::new(C).map(Destination::Http).unwrap();
    settings.fallback = Some(Fallback { destination, after_attempts, after_open });
    world.put(settings).await;
}

/// Returns the counts for the metrics.
fn diverted(world: &World) -> usize {
    world.handle.0.pools.webhooks().diverted()
}

fn is_for(call: &world::Call, origin: &str) -> bool {
    call.envelope.destination.origin() == origin
}

#[tokio::test(start_paused = true)]
async fn a_firing_that_failed_often_enough_goes_to_the_fallback() {
    let mut world = World::start().await;
    with_fallback(&world, 2, ms(3_600_000)).await;
    world.schedule("t", ms(0), A).await;
    for (attempt, origin) in [(1, A), (2, A), (3, C), (4, C)] {
        let call = world.call().await;
        assert_eq!(call.envelope.attempt, attempt);
        assert!(is_for(&call, origin), "attempt {attempt}");
        if attempt == 4 {
            call.answer(Delivery::Confirmed);
        } else {
            call.answer(failed(AttemptOutcome::Failed));
            world.until("t", State::Retrying).await;
            world.advance(ms(1_000)).await;
        }
    }
    let view = world.until("t", State::Finished).await;
    assert_eq!(view.attempts(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_firing_tries_its_own_receiver_first() {
    let mut world = World::start().await;
    with_fallback(&world, 2, ms(3_600_000)).await;
    world.schedule("t", ms(0), A).await;
    let rejected = || Delivery::Rejected { reason: "HTTP 410".to_owned() };
    for (attempt, origin, answer) in [
        (1, A, failed(AttemptOutcome::Failed)),
        (2, A, failed(AttemptOutcome::Failed)),
        (3, C, rejected()),
        (4, A, failed(AttemptOutcome::Failed)),
        (5, A, failed(AttemptOutcome::Failed)),
        (6, C, Delivery::Confirmed),
    ] {
        let call = world.call().await;
        assert_eq!(call.envelope.attempt, attempt);
        assert!(is_for(&call, origin), "attempt {attempt}");
        call.answer(answer);
        world.quiet().await;
        if attempt == 3 {
            world.until("t", State::Dead).await;
            world.redrive("t").await;
        }
        world.advance(ms(1_000)).await;
    }
    world.until("t", State::Finished).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_diverts_to_the_fallback_until_recovery() {
    let mut world = World::start().await;
    with_fallback(&world, 1_000, ms(10_000)).await;
    for i in 0..300 {
        world.schedule(&format!("t{i:03}"), ms(0), A).await;
    }
    world.quiet().await;
    let (mut own, mut second) = (0, 0);
    let mut first_second_ms = None;
    for step in 0..200 {
        world.quiet().await;
        while let Some(call) = world.try_call() {
            if is_for(&call, A) {
                own += 1;
                call.answer(failed(AttemptOutcome::TimedOut));
            } else {
                second += 1;
                first_second_ms.get_or_insert(step * 100);
                call.answer(Delivery::Confirmed);
            }
            world.quiet().await;
        }
        world.advance(ms(100)).await;
    }
    assert_eq!(second, 300, "all were delivered in twenty seconds");
    // A hundred were under way when it opened, behind the ten that opened it; then single probes.
    assert!((100..=115).contains(&own), "{own}");
    assert!(
        first_second_ms.is_some_and(|at| (10_000..10_300).contains(&at)),
        "{first_second_ms:?}"
    );
    assert!(lane(&world, A).diverted);
    assert_eq!(diverted(&world), 1);

    // The receiver works again: the probe detects it, and the lane gets its firings again.
    for i in 0..20 {
        world.schedule(&format!("u{i:03}"), ms(60_000), A).await;
    }
    world.advance(ms(60_000)).await;
    let (mut own, mut second) = (0, 0);
    for _ in 0..50 {
        world.quiet().await;
        while let Some(call) = world.try_call() {
            if is_for(&call, A) {
                own += 1
            } else {
                second += 1
            }
            call.answer(Delivery::Confirmed);
            world.quiet().await;
        }
        world.advance(ms(10)).await;
    }
    assert_eq!(own + second, 20);
    assert!(own >= 1);
    world.schedule("last", ms(0), A).await;
    let last = world.call().await;
    assert_eq!((is_for(&last, A), lane(&world, A).diverted), (own >= 3, own < 3));
    assert_eq!(diverted(&world), usize::from(own < 3));
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_is_dead_too_is_left_alone() {
    let mut world = World::start().await;
    with_fallback(&world, 1_000, ms(0)).await;
    world
        .put({
            let mut settings = (*world.flaky.settings(&world.namespace).await).clone();
            settings.limits.max_in_flight = 5;
            settings
        })
        .await;
    for i in 0..300 {
        world.schedule(&format!("t{i:03}"), ms(0), A).await;
    }
    let mut attempts = 0;
    for _ in 0..60 {
        world.quiet().await;
        while let Some(call) = world.try_call() {
            attempts += 1;
            call.answer(failed(AttemptOutcome::NotConnected));
            world.quiet().await;
        }
        world.advance(ms(1_000)).await;
    }
    assert!((20..=50).contains(&attempts), "{attempts} attempts at two dead receivers in a minute");
    assert_ne!(world.handle.fallback(&world.namespace).breaker, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_is_removed_after_the_plan_costs_no_attempt() {
    let mut world = World::start().await;
    with_fallback(&world, 1_000, ms(0)).await;
    for i in 0..10 {
        world.schedule(&format!("a{i}"), ms(0), A).await;
        world.call().await.answer(failed(AttemptOutcome::NotConnected));
    }
    world.quiet().await;
    assert!(lane(&world, A).diverted);
    assert_eq!(diverted(&world), 0, "nothing has gone there yet");
    world.schedule("u", ms(0), A).await;
    let second = world.call().await;
    assert!(is_for(&second, C));
    second.answer(Delivery::Confirmed);
    world.quiet().await;
    assert_eq!(diverted(&world), 1);
    let without = Put::Replace { settings: Box::new(world::settings()), secrets: Secrets::Set };
    world.flaky.put_before_claim(world.namespace.clone(), without);
    world.schedule("t", ms(0), A).await;
    world.nothing_more().await;
    assert_eq!(world.flaky.released(), 1);
    let view = world.view("t").await;
    assert_eq!((view.state, view.attempts()), (State::Due, 0));
    assert_eq!(world.handle.health().deliveries_in_flight, 0);
    assert_eq!(diverted(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn with_a_full_backlog_walks_continue_at_once() {
    let mut world = World::start().await;
    world.limit_in_flight(1).await;
    world.remember_waiting(1);
    for i in 0..2 {
        world.schedule(&format!("waits{i}"), ms(0), A).await;
    }
    let hanging = world.call().await;
    // Two pages, each as large as a claim.
    for namespace in ["x1", "x2", "x3", "x4"] {
        world.namespace = duly_core::NamespaceName::new(namespace).unwrap();
        world.put(world::settings()).await;
        for i in 0..128 {
            let url = format!("https://r{i}.example");
            world.schedule(&format!("t{i}"), ms(1_000), &url).await;
        }
    }
    world.advance(ms(1_000)).await;
    let mut started = vec![hanging];
    // Much less than the second after which each loop polls anyway; and nothing ends.
    for _ in 0..20 {
        while let Some(call) = world.try_call() {
            started.push(call);
        }
        world.advance(ms(1)).await;
    }
    assert_eq!(started.len(), 1 + 512);
}
