//! Guards and loops that break themselves: the auditor, the watchdog, the waker thread. Each is
//! restarted and works from then on.

use super::{
    flaky::{Breaks, Flaky},
    manual_waker::WakerThread,
    *,
};

/// Longer than any test: the watchdog is off.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// Creates a node that does not see a lane, so that only the auditor finds its due firings. The auditor
/// gets `fault` at its first store call.
async fn auditor_meets(fault: impl FnOnce(&Flaky), stall_after: Duration) -> World {
    let world = World::start_with(|options| {
        options.stall_after = stall_after;
        options.audit_every = Duration::from_secs(9);
    })
    .await;
    world.lose(Some(A));
    world.schedule("lost", ms(0), A).await;
    // The watchdog notifies the loop after 7.5 s and after 10 s; the auditor runs after 9 s.
    tokio::time::sleep(Duration::from_millis(8_500)).await;
    let polls = world.flaky.polls();
    fault(&world.flaky);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(world.flaky.polls(), polls + 1, "it is the auditor's");
    world
}

fn idle(world: &World, name: &str) -> Duration {
    let loops = world.handle.health().loops;
    loops.iter().find(|it| it.name == name).expect("it is among the loops").idle_for
}

#[tokio::test(start_paused = true)]
async fn t27_an_auditor_audits_again_after_a_fault() {
    let faults: [fn(&Flaky); 2] =
        [|flaky| flaky.hang(Breaks::Ready), |flaky| flaky.panic_in(Breaks::Ready)];
    for fault in faults {
        let mut world = auditor_meets(fault, crate::Options::default().stall_after).await;
        // Ten seconds without a reply and two audits.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let health = world.handle.health();
        assert_eq!(health.restarts, 1, "the restart is counted");
        assert_eq!(health.neglected, [format!("{A} of namespace shop")]);
        world.lose(None);
        assert_eq!(world.call().await.envelope.id.as_str(), "lost");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_auditor_is_listed_in_health() {
    for (fault, is_stalled) in
        [((|flaky| flaky.hang(Breaks::Ready)) as fn(&Flaky), true), (|_| {}, false)]
    {
        let world = auditor_meets(fault, NEVER).await;
        for _ in 0..11 {
            world.advance_unnoticed(ms(1_000));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let idle = idle(&world, "auditor");
        assert_eq!(idle > Duration::from_secs(10), is_stalled, "{idle:?}");
        assert!(is_stalled || idle <= Duration::from_secs(1), "{idle:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t27_a_panicked_loop_restarts_and_releases_its_slots() {
    for call in [Breaks::Ready, Breaks::Claim] {
        let mut world = World::start().await;
        world.limit_in_flight(1).await;
        world.quiet().await;
        world.flaky.panic_in(call);
        for id in ["t", "u"] {
            world.schedule(id, ms(0), A).await;
            world.call().await.answer(Delivery::Confirmed);
            world.until(id, State::Finished).await;
        }
        let health = world.handle.health();
        assert_eq!((health.restarts, health.deliveries_in_flight), (1, 0), "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn t27_a_panicked_watchdog_restarts() {
    let mut world = World::start().await;
    world.waker.set(WakerThread::Panics);
    world.schedule("far", ms(3_600_000), A).await;
    // The auditor, which must not get the call that hangs, runs after 10 s.
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(world.handle.health().restarts, 1);
    world.flaky.hang(Breaks::Ready);
    world.schedule("t", ms(0), A).await;
    world.call().await.answer(Delivery::Confirmed);
    assert_eq!(world.handle.health().restarts, 2);
}

#[tokio::test(start_paused = true)]
async fn t27_the_watchdog_restarts_a_dead_waker() {
    let mut world = World::start().await;
    world.waker.set(WakerThread::Iterates);
    world.schedule("t", ms(60_000), A).await;
    world.schedule("u", ms(120_000), A).await;
    // Between two checks of the watchdog, which also notifies the loop.
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(world.waker.restarts(), 0, "a thread that iterates is left alone");
    world.waker.set(WakerThread::Dead);
    world.advance(ms(60_000)).await;
    world.nothing_more().await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!((world.waker.restarts(), world.handle.health().restarts), (1, 1));
    world.call().await.answer(Delivery::Confirmed);
    world.until("t", State::Finished).await;
    // From now on the clock is enough: no check of the watchdog is needed.
    world.advance(ms(60_000)).await;
    assert!(world.try_call().is_some_and(|call| call.envelope.id.as_str() == "u"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.waker.restarts(), 1);
}
