//! The leases of consumers that stay connected, and their end with the connection.

use duly_core::Millis;
use duly_store::TimerView;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{pull::request, *};
use crate::{LeaseMemory, LeaseRequest, Leased, PendingReply, StreamLeases};

async fn leased(world: &World) -> Leased {
    world.handle.lease(request(world, 10, Duration::ZERO)).await.unwrap()
}

/// Leases firings; returns them with their reply, which is not written yet.
async fn held(world: &World, count: usize) -> (StreamLeases, Leased, PendingReply) {
    for i in 0..count {
        world.schedule_pull(&format!("t{i}"), ms(0)).await;
    }
    let mut leased = leased(world).await;
    assert_eq!(leased.firings.len(), count);
    let mut held = StreamLeases::default();
    let now = duly_core::Timestamp::saturating_from_unix_ms(
        u64::try_from(duly_core::env::Clock::wall(&world.clock).as_millis()).unwrap(),
    );
    let reply = held.take(&mut leased, now).unwrap();
    (held, leased, reply)
}

async fn view(world: &World, id: &str) -> TimerView {
    world.quiet().await;
    world.view(id).await
}

#[tokio::test(start_paused = true)]
async fn unwritten_firings_are_released_uncounted() {
    for written_later in [false, true] {
        let world = World::start().await;
        let (held, _, reply) = held(&world, 2).await;
        if written_later {
            drop(reply);
            drop(held);
        } else {
            drop(held);
            drop(reply);
        }
        for id in ["t0", "t1"] {
            let view = view(&world, id).await;
            assert_eq!((view.state, view.attempts()), (State::Due, 0), "{id}");
            assert!(!view.maybe_delivered());
        }
        assert_eq!(world.flaky.released(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn written_unsettled_firings_count_and_are_due_again() {
    for ends_first in [false, true] {
        let world = World::start().await;
        let (mut held, answer, reply) = held(&world, 2).await;
        // It is settled elsewhere: nothing more happens to it.
        held.remove(&answer.firings[0].token);
        if ends_first {
            // A reply that may still be written is not decided.
            drop(held);
            assert_eq!(view(&world, "t1").await.state, State::InFlight);
            reply.written();
        } else {
            reply.written();
            drop(held);
        }
        assert_eq!(view(&world, "t0").await.state, State::InFlight);
        let view = view(&world, "t1").await;
        assert_eq!((view.state, view.attempts()), (State::Retrying, 1));
        assert!(view.maybe_delivered());
        let history = &view.timer().unwrap().history;
        assert_eq!(history[0].outcome, AttemptOutcome::LeaseLost);
        assert_eq!(history[0].reason, "the consumer's stream ended before its verdict");
        assert_eq!(leased(&world).await.firings[0].attempt, 2);
        assert_eq!(world.flaky.released(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_leases_are_removed_also_if_extended() {
    let world = World::start().await;
    let (mut held, answer, reply) = held(&world, 3).await;
    reply.written();
    let began = Instant::now();
    let after = |secs| began + Duration::from_secs(secs);
    assert_eq!((held.len(), held.next_end()), (3, Some(after(30))));
    held.extend(&answer.firings[1].token, Millis::from_secs(100));
    tokio::time::advance(Duration::from_secs(20)).await;
    held.extend(&answer.firings[2].token, Millis::from_secs(5));
    assert_eq!(held.next_end(), Some(after(25)), "an extension can shorten a lease");
    held.forget_ended(after(25));
    assert_eq!((held.len(), held.next_end()), (2, Some(after(30))));
    held.remove(&answer.firings[0].token);
    assert_eq!((held.len(), held.next_end()), (1, Some(after(100))));
    held.extend(&answer.firings[1].token, Millis::from_secs(12 * 3_600));
    assert_eq!(held.next_end(), Some(after(12 * 3_600)), "counted from the claim");
    held.forget_ended(after(12 * 3_600));
    assert!(held.is_empty() && held.next_end().is_none());
    held.extend(&answer.firings[1].token, Millis::from_secs(1));
    assert!(held.is_empty() && held.next_end().is_none());
}

/// A memory budget that the test can change.
#[derive(Debug, Default)]
struct TestMemory {
    bytes: std::sync::atomic::AtomicU64,
    reserved: std::sync::atomic::AtomicU64,
}

const NOW: std::sync::atomic::Ordering = std::sync::atomic::Ordering::Relaxed;

impl LeaseMemory for TestMemory {
    fn expect(&self, _: u64) {}
    fn set_aside(&self, bytes_max: u64) -> BoxFuture<'_, Option<u64>> {
        let bytes = self.bytes.load(NOW).min(bytes_max);
        self.reserved.store(bytes, NOW);
        Box::pin(std::future::ready((bytes > 0).then_some(bytes)))
    }
    fn let_go(&self) {
        self.reserved.store(0, NOW);
    }
}

#[tokio::test(start_paused = true)]
async fn p10_memory_is_reserved_at_the_head_of_the_queue() {
    let world = World::start().await;
    let memory = std::sync::Arc::new(TestMemory::default());
    memory.bytes.store(1_000, NOW);
    let with_memory = || LeaseRequest {
        memory: Some(std::sync::Arc::<TestMemory>::clone(&memory)),
        ..request(&world, 10, pull::MINUTE)
    };
    let waiting = |request| {
        let handle = world.handle.clone();
        tokio::spawn(async move { handle.lease(request).await })
    };
    let first = waiting(with_memory());
    world.quiet().await;
    assert_eq!(memory.reserved.load(NOW), 0, "a waiting call reserves nothing");
    let second = waiting(request(&world, 10, pull::MINUTE));
    world.quiet().await;
    memory.bytes.store(0, NOW);
    world.schedule_pull("x", ms(0)).await;
    let refused = first.await.unwrap().unwrap_err();
    assert!(matches!(refused, duly_store::Error::Overloaded { .. }), "{refused}");
    let served = second.await.unwrap().unwrap();
    assert_eq!(served.firings.len(), 1);
    served.delivered();
    // No more is claimed than fits into memory.
    for id in ["a", "b", "c"] {
        world.schedule_pull_bytes(id, 400).await;
    }
    memory.bytes.store(900, NOW);
    let served = world.handle.lease(with_memory()).await.unwrap();
    assert_eq!((served.firings.len(), memory.reserved.load(NOW)), (2, 900));
}
