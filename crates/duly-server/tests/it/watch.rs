//! Findings of the node's watchdog and auditor over HTTP, on a store that breaks on purpose.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use duly_core::shard::ShardId;
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    ClaimRequest, Claimed, Ready, ReadyCursor, Store, StoreFuture, conformance::StandIn,
};
use futures::future::BoxFuture;
use tokio::time::{Duration, sleep};

use crate::bench::Bench;

const WORKS: u8 = 0;
/// The store shows due timers and grants none of them, without an error.
const GRANTS_NOTHING: u8 = 1;
/// Calls for due timers and for counts never return.
const NEVER_ANSWERS: u8 = 2;

/// Added at each call to count again.
const COUNTED: u8 = 16;

/// A store with a fault.
#[derive(Debug)]
struct FaultyStore(Arc<dyn Store>, Arc<AtomicU8>);

impl FaultyStore {
    fn has(&self, fault: u8) -> bool {
        self.1.load(Ordering::Relaxed) % COUNTED == fault
    }
}

impl StandIn for FaultyStore {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
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

    fn recount(&self) -> BoxFuture<'_, ()> {
        self.1.fetch_add(COUNTED, Ordering::Relaxed);
        if self.has(NEVER_ANSWERS) { Box::pin(std::future::pending()) } else { Box::pin(async {}) }
    }
}

fn bench(fault: u8) -> (Bench, Arc<AtomicU8>) {
    let fault = Arc::new(AtomicU8::new(fault));
    let shared = Arc::clone(&fault);
    let bench =
        Bench::on(ImplicitNamespaces::Create, 1024, |store| Arc::new(FaultyStore(store, shared)));
    (bench, fault)
}

/// Returns the reasons why the server is not ready.
async fn reasons(bench: &Bench) -> Vec<String> {
    let answer = bench.get("/readyz").await;
    let reasons = answer.json()["reasons"].as_array().cloned().unwrap_or_default();
    assert_eq!(answer.status.as_u16(), if reasons.is_empty() { 200 } else { 503 });
    let cluster = bench.get("/v1/cluster").await.expect(200);
    assert_eq!(cluster["ready"], reasons.is_empty());
    assert_eq!(cluster["reasons"], serde_json::Value::Array(reasons.clone()));
    reasons.iter().map(|reason| reason.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn neglected_lanes_are_reported_and_counted() {
    let (bench, fault) = bench(GRANTS_NOTHING);
    let destination = r#"{"http":{"url":"https://a.example"}}"#;
    let timer = format!(r#"{{"id":"t","delay":0,"destination":{destination}}}"#);
    bench.schedule(&timer).await.expect(201);
    let expected = "lane https://a.example of namespace a has timers due and makes no progress";
    let mut counted = false;
    for look in 1..=50 {
        sleep(Duration::from_secs(10)).await;
        sleep(Duration::from_millis(100)).await;
        if look >= 2 {
            assert_eq!(reasons(&bench).await, [expected], "look {look}");
            // The auditors of other tests set 0.
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
async fn stuck_loops_are_reported_and_restarted() {
    let (bench, fault) = bench(WORKS);
    bench.timer_in("t", "due").await;
    sleep(Duration::from_secs(1)).await;
    assert!(reasons(&bench).await.is_empty());
    let before = bench.metric("duly_watchdog_restarts_total").await;
    fault.store(NEVER_ANSWERS, Ordering::Relaxed);
    bench.timer_in("u", "due").await;
    sleep(Duration::from_millis(1)).await;
    // The clock of the loops runs twice as fast as that of the watchdog, which runs meanwhile.
    for _ in 0..6 {
        bench.advance(2);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(reasons(&bench).await, ["shard 0 has been stalled for 12s"]);
    sleep(Duration::from_secs(10)).await;
    assert!(bench.metric("duly_watchdog_restarts_total").await > before);
    fault.store(WORKS, Ordering::Relaxed);
    sleep(Duration::from_secs(20)).await;
    assert!(reasons(&bench).await.is_empty());
    assert_eq!(bench.tokens().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn metrics_and_the_cluster_do_not_wait_for_a_silent_store() {
    let (bench, counts) = bench(WORKS);
    bench.get("/metrics").await;
    assert_eq!(counts.load(Ordering::Relaxed), COUNTED);
    bench.get("/v1/cluster").await.expect(200);
    assert_eq!(counts.load(Ordering::Relaxed), 2 * COUNTED);
    counts.store(NEVER_ANSWERS, Ordering::Relaxed);
    bench.get("/v1/cluster").await.expect(200);
}
