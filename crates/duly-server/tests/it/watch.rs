//! What watchdog and auditor of the node have found, over HTTP, on a store that breaks on purpose.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    Command, Forecast, ForecastRequest, Health, ListRequest, Outcome, Page, SettleOutcome,
    Settlement, Stats, Store, StoreFuture, TimerView,
    claim::{ClaimRequest, Claimed, NodeRun, Ready, ReadyCursor},
    namespaces::{Activity, DeleteMode, Namespace, Put},
};
use tokio::{
    sync::watch,
    time::{Duration, sleep},
};

use crate::bench::Bench;

const WORKS: u8 = 0;
/// It shows what is due and grants nothing of it, without a word.
const GRANTS_NOTHING: u8 = 1;
/// It never says what is due.
const NEVER_ANSWERS: u8 = 2;

/// A store with a fault.
#[derive(Debug)]
struct Faulty(Arc<dyn Store>, Arc<AtomicU8>);

impl Faulty {
    fn has(&self, fault: u8) -> bool {
        self.1.load(Ordering::Relaxed) == fault
    }
}

#[rustfmt::skip]
impl Store for Faulty {
    fn shards(&self) -> u16 {
        self.0.shards()
    }
    fn ready(&self, shard: ShardId, after: Option<ReadyCursor>, limit: usize) -> StoreFuture<'_, Ready> {
        if self.has(NEVER_ANSWERS) {
            return Box::pin(std::future::pending());
        }
        self.0.ready(shard, after, limit)
    }
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        if self.has(GRANTS_NOTHING) {
            return Box::pin(std::future::ready(Ok(Claimed::default())));
        }
        self.0.claim(shard, request)
    }
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.0.apply(shard, commands)
    }
    fn settle(&self, shard: ShardId, settlements: Vec<Settlement>) -> StoreFuture<'_, Vec<SettleOutcome>> {
        self.0.settle(shard, settlements)
    }
    fn release_owner(&self, shard: ShardId, run: NodeRun) -> StoreFuture<'_, u64> {
        self.0.release_owner(shard, run)
    }
    fn get(&self, shard: ShardId, namespace: NamespaceName, id: TimerId) -> StoreFuture<'_, Option<TimerView>> {
        self.0.get(shard, namespace, id)
    }
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        self.0.list(shard, request)
    }
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        self.0.stats(shard, namespace)
    }
    fn forecast(&self, shard: ShardId, request: ForecastRequest) -> StoreFuture<'_, Option<Forecast>> {
        self.0.forecast(shard, request)
    }
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        self.0.put_namespace(name, put)
    }
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        self.0.get_namespace(name)
    }
    fn list_namespaces(&self, after: Option<NamespaceName>, limit: usize) -> StoreFuture<'_, Vec<Namespace>> {
        self.0.list_namespaces(after, limit)
    }
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        self.0.set_activity(name, activity)
    }
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        self.0.delete_namespace(name, mode)
    }
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64> {
        self.0.wakeups(shard)
    }
    fn health(&self) -> Health {
        self.0.health()
    }
}

fn bench(fault: u8) -> (Bench, Arc<AtomicU8>) {
    let fault = Arc::new(AtomicU8::new(fault));
    let shared = Arc::clone(&fault);
    let bench =
        Bench::on(ImplicitNamespaces::Create, 1024, |store| Arc::new(Faulty(store, shared)));
    (bench, fault)
}

/// Why the server is not ready.
async fn reasons(bench: &Bench) -> Vec<String> {
    let answer = bench.get("/readyz").await;
    let reasons = answer.json()["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(answer.status.as_u16(), if reasons.is_empty() { 200 } else { 503 });
    reasons.iter().map(|reason| reason.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_nobody_works_on_is_named_and_counted() {
    let (bench, fault) = bench(GRANTS_NOTHING);
    let destination = r#"{"http":{"url":"https://a.example"}}"#;
    let timer = format!(r#"{{"id":"t","delay":0,"destination":{destination}}}"#);
    bench.schedule(&timer).await.expect(201);
    let expected = "nobody works on lane https://a.example of namespace a, which has timers due";
    let mut counted = false;
    for look in 1..=50 {
        sleep(Duration::from_secs(10)).await;
        sleep(Duration::from_millis(100)).await;
        if look >= 2 {
            assert_eq!(reasons(&bench).await, [expected], "look {look}");
            // The auditors of other tests say 0.
            counted |= bench.metric("duly_lanes_neglected").await >= 1.0;
        }
    }
    assert!(counted);
    fault.store(WORKS, Ordering::Relaxed);
    sleep(Duration::from_secs(21)).await;
    assert!(reasons(&bench).await.is_empty());
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["state"], "finished");
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_stands_still_is_named_and_begun_again() {
    let (bench, fault) = bench(WORKS);
    bench.timer_in("t", "due").await;
    sleep(Duration::from_secs(1)).await;
    assert!(reasons(&bench).await.is_empty());
    let before = bench.metric("duly_watchdog_restarts_total").await;
    fault.store(NEVER_ANSWERS, Ordering::Relaxed);
    bench.timer_in("u", "due").await;
    sleep(Duration::from_millis(1)).await;
    // The clock of the loops goes twice as fast as that of the watchdog, which turns meanwhile.
    for _ in 0..6 {
        bench.advance(2);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(reasons(&bench).await, ["shard 0 has stood still for 12s"]);
    sleep(Duration::from_secs(10)).await;
    assert!(bench.metric("duly_watchdog_restarts_total").await > before);
    fault.store(WORKS, Ordering::Relaxed);
    sleep(Duration::from_secs(20)).await;
    assert!(reasons(&bench).await.is_empty());
    assert_eq!(bench.tokens().await.len(), 2);
}
