//! The shards of a busy node: none is much later than the others, for any number and any load.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Destination, Millis, NamespaceName, Schedule, Settings, TimerId,
    destination::HttpDestination,
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_store::{
    Answer, Command, Operation, Outcome, SettleVerdict, Settlement, Store, Timers,
    conformance::{ManualClock, SeveralShards},
};
use parking_lot::Mutex;

use super::{pull::request, *};

const SHARDS: u16 = 16;
/// Duration of the load, in which each shard has at least 1,000 firings.
const LOAD_MS: u64 = 10_000;
/// Firings a second of most shards, and of each [`HEAVY_EVERY`]th one.
const PER_SECOND: [u64; 2] = [100, 300];
const HEAVY_EVERY: u16 = 5;
/// Duration of one call to the store.
const CALL: Duration = Duration::from_millis(8);

/// A node on a store of several shards, in virtual time: the clock advances when all tasks wait.
struct Busy {
    world: World,
    store: Arc<SeveralShards>,
    late_ms: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Busy {
    async fn start(settings: Settings) -> Self {
        let clock = ManualClock::default();
        let store = Arc::new(SeveralShards::new(&clock, SHARDS, CALL));
        let shared: Arc<dyn Store> = Arc::<SeveralShards>::clone(&store);
        let world = World::start_on(clock.clone(), shared, |_| {}).await;
        world.put(settings).await;
        let waker = world.waker.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                clock.advance(ms(1));
                waker.notify_due();
            }
        });
        // By then the node is a member and owns all shards.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let late_ms = Arc::new(Mutex::new(vec![Vec::new(); usize::from(SHARDS)]));
        Self { world, store, late_ms }
    }

    /// Schedules timers for [`LOAD_MS`] and waits until all have fired.
    async fn load(&self, destination: &Destination) {
        let mut number = 0_u64;
        for now in (0..LOAD_MS).step_by(10) {
            for shard in 0..SHARDS {
                let heavy = usize::from(shard % HEAVY_EVERY == HEAVY_EVERY - 1);
                let due = |ms: u64| ms * PER_SECOND[heavy] / 1_000;
                for _ in due(now)..due(now + 10) {
                    let id = TimerId::new(&format!("t{number}s{shard}")).unwrap();
                    let delay = ms(50 + number * 7_919 % 10);
                    let mut schedule = Schedule::new(id, When::After(delay));
                    schedule.spec.destination = Some(destination.clone());
                    self.apply(ShardId(shard), schedule).await;
                    number += 1;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let all = || self.late_ms.lock().iter().map(Vec::len).sum::<usize>() as u64;
        while all() < number {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn apply(&self, shard: ShardId, schedule: Schedule) {
        let schedule = Box::new(schedule);
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let namespace: NamespaceName = self.world.namespace.clone();
        let command = Command { namespace, operation, answer: Answer::Whole };
        let outcome = self.store.apply(shard, vec![command]).await.unwrap().remove(0);
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }

    /// Checks that no shard's p99 is more than twice that of another.
    #[track_caller]
    fn check(&self) {
        let mut late_ms = self.late_ms.lock();
        let p99s = late_ms.iter_mut().map(|late_ms| {
            assert!(late_ms.len() >= 1_000, "{} firings say little", late_ms.len());
            late_ms.sort_unstable();
            late_ms[late_ms.len() * 99 / 100]
        });
        let p99s: Vec<u64> = p99s.collect();
        assert!(p99s.iter().max() <= p99s.iter().min().map(|ms| 2 * ms).as_ref(), "{p99s:?}");
    }
}

/// Leases and acknowledges firings, one call after the other.
async fn consume(busy: &Busy) {
    let (handle, clock) = (busy.world.handle.clone(), busy.world.clock.clone());
    let wanted = request(&busy.world, 24, Duration::from_secs(1));
    let late_ms = Arc::clone(&busy.late_ms);
    tokio::spawn(async move {
        loop {
            let leased = handle.lease(wanted.clone()).await.unwrap();
            let now = duly_core::env::Clock::now(&clock);
            let mut acks = Vec::new();
            for firing in &leased.firings {
                let late = now.saturating_since(firing.due_at).ms();
                late_ms.lock()[usize::from(firing.token.shard().0)].push(late);
                acks.push(Settlement {
                    token: firing.token.clone(),
                    namespace: Some(firing.namespace.clone()),
                    verdict: SettleVerdict::Ack,
                });
            }
            leased.delivered();
            let handle = handle.clone();
            tokio::spawn(async move { handle.settle(acks, None).await.unwrap() });
        }
    });
}

#[tokio::test(start_paused = true)]
async fn p9_lease_calls_serve_all_shards_alike() {
    let mut settings = world::settings();
    settings.retention = Millis::ZERO;
    let busy = Busy::start(settings).await;
    for _ in 0..4 {
        consume(&busy).await;
    }
    busy.load(&Destination::Pull).await;
    busy.check();
}

/// Confirms each delivery after the time that a receiver takes.
fn receive(busy: &mut Busy) {
    let mut calls = busy.world.take_calls();
    let (late_ms, clock) = (Arc::clone(&busy.late_ms), busy.world.clock.clone());
    tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            let now = duly_core::env::Clock::now(&clock);
            let id = call.envelope.id.as_str();
            let shard: usize = id.rsplit_once('s').unwrap().1.parse().unwrap();
            late_ms.lock()[shard].push(now.saturating_since(call.envelope.due_at).ms());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                call.answer(Delivery::Confirmed);
            });
        }
    });
}

async fn webhooks(change: impl FnOnce(&mut Settings)) {
    let mut settings = world::settings();
    settings.retention = Millis::ZERO;
    change(&mut settings);
    let mut busy = Busy::start(settings).await;
    receive(&mut busy);
    busy.load(&Destination::Http(HttpDestination::new(A).unwrap())).await;
    busy.check();
}

#[tokio::test(start_paused = true)]
async fn p9_a_lane_at_its_cap_serves_all_shards_alike() {
    webhooks(|settings| settings.limits.max_in_flight = 70).await;
}

#[tokio::test(start_paused = true)]
async fn p9_a_lane_at_its_rate_serves_all_shards_alike() {
    webhooks(|settings| {
        settings.limits.max_in_flight = 1_000;
        settings.limits.deliver_per_second = Some(2_000);
    })
    .await;
}

/// Schedules a due timer that is pulled in each of two shards of a store.
async fn with_a_firing_in_each_of_two_shards() -> World {
    let clock = ManualClock::default();
    let store = Arc::new(SeveralShards::new(&clock, 2, Duration::from_millis(1)));
    let shared: Arc<dyn Store> = Arc::<SeveralShards>::clone(&store);
    let world = World::start_on(clock.clone(), shared, |_| {}).await;
    let late_ms = Arc::default();
    let busy = Busy { world, store, late_ms };
    for shard in 0..2 {
        let id = TimerId::new(&format!("s{shard}")).unwrap();
        let mut schedule = Schedule::new(id, When::After(ms(1)));
        schedule.spec.destination = Some(Destination::Pull);
        busy.apply(ShardId(shard), schedule).await;
    }
    clock.advance(ms(10));
    busy.world
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_withholds_its_claim_holds_back_no_other() {
    let world = with_a_firing_in_each_of_two_shards().await;
    let held = world.flaky.hold_claim();
    let began = tokio::time::Instant::now();
    let leased = world.handle.lease(request(&world, 10, Duration::from_secs(5))).await.unwrap();
    assert_eq!(leased.firings.len(), 1, "that of the other shard");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    held.notify_one();
}
