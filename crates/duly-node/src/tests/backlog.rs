//! A lane with very many due firings and a dead receiver, next to a lane that is served (T19).
//!
//! Time stands still in these tests. They check the order of deliveries, and the number of store calls
//! for one firing of the served lane. Neither may depend on the backlog of the other lane. So the same
//! run with ten timers and with very many must give the same numbers. `DULY_BACKLOG` sets the number; a
//! million takes minutes.

use duly_core::NamespaceName;

use super::*;

/// Firings of the served lane.
const SERVED: usize = 30;

fn backlog() -> usize {
    std::env::var("DULY_BACKLOG").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

/// The behaviour of the backlog's receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dead {
    /// Refuses connections.
    Refuses,
    /// Takes the request and never replies.
    Hangs,
}

/// The place of the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    SameNamespace,
    Another,
}

fn other() -> NamespaceName {
    NamespaceName::new("other").unwrap()
}

/// Creates a world with a backlog for a dead receiver that the node has detected. Returns it with the
/// deliveries that hang.
async fn stuck(backlog: usize, dead: Dead, beside: Beside) -> (World, Vec<world::Call>) {
    let mut world = World::start().await;
    let served = world.namespace.clone();
    if beside == Beside::Another {
        world.namespace = other();
        world.put(world::settings()).await;
    }
    for i in 0..backlog {
        world.schedule(&format!("a{i}"), ms(0), A).await;
    }
    world.namespace = served;
    let mut hanging = Vec::new();
    world.quiet().await;
    while let Some(call) = world.try_call() {
        match dead {
            Dead::Hangs => hanging.push(call),
            Dead::Refuses => call.answer(failed(AttemptOutcome::NotConnected)),
        }
        world.quiet().await;
    }
    (world, hanging)
}

/// Returns the number of store calls for each firing of the served lane. Each must be delivered next,
/// regardless of the backlog.
async fn looks_for_each(backlog: usize, dead: Dead, beside: Beside) -> Vec<usize> {
    let (mut world, hanging) = stuck(backlog, dead, beside).await;
    assert!(hanging.len() <= 100, "{} hang", hanging.len());
    let mut polls = Vec::new();
    for i in 0..SERVED {
        let before = world.flaky.polls();
        let id = format!("b{i}");
        world.schedule(&id, ms(0), B).await;
        let call = world.call().await;
        assert_eq!(call.envelope.id.as_str(), id, "{dead:?}, {beside:?}");
        call.answer(Delivery::Confirmed);
        world.until(&id, State::Finished).await;
        world.nothing_more().await;
        polls.push(world.flaky.polls() - before);
    }
    polls
}

#[tokio::test(start_paused = true)]
async fn t19_a_dead_backlog_costs_other_lanes_no_turns_and_no_polls() {
    for dead in [Dead::Refuses, Dead::Hangs] {
        for beside in [Beside::SameNamespace, Beside::Another] {
            // More than may be under way or open a breaker; then both lanes are in the same state.
            let few = looks_for_each(200, dead, beside).await;
            let many = looks_for_each(backlog(), dead, beside).await;
            assert_eq!(many, few, "{dead:?}, {beside:?}");
            assert!(many.iter().all(|polls| *polls <= 6), "{dead:?}, {beside:?}: {many:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t19_an_unleased_backlog_costs_other_consumers_no_turns() {
    let mut figures = Vec::new();
    for backlog in [10, backlog()] {
        let mut world = World::start().await;
        let served = world.namespace.clone();
        world.namespace = other();
        world.put(world::settings()).await;
        for i in 0..backlog {
            world.schedule_pull(&format!("a{i}"), ms(0)).await;
        }
        world.namespace = served;
        world.quiet().await;
        let mut polls = Vec::new();
        for i in 0..SERVED {
            let before = world.flaky.polls();
            let id = format!("b{i}");
            world.schedule_pull(&id, ms(0)).await;
            let request = pull::request(&world, 10, Duration::ZERO);
            let leased = world.handle.lease(request).await.unwrap();
            let ids: Vec<&str> = leased.firings.iter().map(|f| f.id.as_str()).collect();
            assert_eq!(ids, [id.as_str()]);
            leased.delivered();
            world.quiet().await;
            polls.push(world.flaky.polls() - before);
        }
        figures.push(polls);
    }
    assert_eq!(figures[0], figures[1]);
    assert!(figures[1].iter().all(|polls| *polls <= 6), "{:?}", figures[1]);
}

#[tokio::test(start_paused = true)]
async fn t19_a_recovered_receiver_is_served_in_due_order() {
    let backlog = backlog().min(2_000);
    let (mut world, hanging) = stuck(backlog, Dead::Refuses, Beside::Another).await;
    assert!(hanging.is_empty());
    let mut delivered = 0;
    let mut between = 0;
    let mut served = 0;
    world.schedule("b0", ms(0), B).await;
    // One second, and another: probes find that the receiver works, and it gets the whole backlog.
    for _ in 0..600 {
        world.quiet().await;
        while let Some(call) = world.try_call() {
            if call.envelope.id.as_str().starts_with('b') {
                served += 1;
                world.schedule(&format!("b{served}"), ms(0), B).await;
                between = 0;
            } else {
                delivered += 1;
                between += 1;
            }
            // With two lanes of equal weight neither waits for more than the most that may be under way.
            assert!(between <= 200, "{between} of the backlog before the next of the other lane");
            call.answer(Delivery::Confirmed);
        }
        if delivered == backlog {
            break;
        }
        world.advance(ms(100)).await;
    }
    assert_eq!(delivered, backlog, "nothing is lost");
}
