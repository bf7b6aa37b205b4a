//! Shards that are unavailable: lists and counts go on without them and say so; changes that follow from a
//! list do not.

use std::{sync::Arc, time::Duration};

use duly_api::v1::{self, timers_client::TimersClient};
use duly_core::{
    NamespaceName,
    shard::{ShardId, shard_of},
};
use duly_server::{grpc_router, http::ImplicitNamespaces};
use duly_store::{
    Store, StoreFuture,
    conformance::{ManualClock, SeveralShards, StandIn},
    namespaces::Namespace,
};
use http::Request;
use serde_json::{Value, json};

use crate::bench::Bench;

const SHARDS: u16 = 4;
const TIMERS: usize = 20;

/// Returns a server on a store of several shards, with timers in all of them.
async fn bench() -> (Bench, Arc<SeveralShards>) {
    let store = Arc::new(SeveralShards::new(&ManualClock::default(), SHARDS, Duration::ZERO));
    let shared = Arc::clone(&store);
    let bench = Bench::on(ImplicitNamespaces::Create, 64 * 1024, |_| shared);
    for i in 0..TIMERS {
        bench.schedule(&format!(r#"{{"id":"t{i:02}","delay":"{}h"}}"#, i + 1)).await.expect(201);
    }
    (bench, store)
}

/// Returns the ids of the timers in other shards than these.
fn others(shards: &[ShardId]) -> Vec<String> {
    let name = NamespaceName::new("a").unwrap();
    let ids = (0..TIMERS).map(|i| format!("t{i:02}"));
    ids.filter(|id| !shards.contains(&shard_of(name.as_str(), id, SHARDS))).collect()
}

async fn lines(bench: &Bench) -> Vec<Value> {
    let request = Request::get("/v1/namespaces/a/timers?limit=5")
        .header("host", "localhost:3859")
        .header("accept", "application/x-ndjson");
    let answer = bench.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn lists_and_counts_name_the_unavailable_shards() {
    let (bench, store) = bench().await;
    let origin = http::Uri::from_static("http://localhost:3859");
    for failing in [&[][..], &[ShardId(1)], &[ShardId(1), ShardId(2)]] {
        store.fail(failing);
        let expected = others(failing);
        let numbers: Vec<_> = failing.iter().map(|shard| u32::from(shard.0)).collect();
        let named = if failing.is_empty() { Value::Null } else { json!(numbers) };
        let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
        assert_eq!(stats["unavailable_shards"], named, "{stats}");
        assert_eq!(stats["scheduled"], expected.len(), "{stats}");
        let forecast = bench.get("/v1/namespaces/a/forecast").await.expect(200);
        assert_eq!(forecast["unavailable_shards"], named, "{forecast}");
        assert_eq!(forecast["pending"], expected.len(), "{forecast}");
        let page = bench.get("/v1/namespaces/a/timers").await.expect(200);
        assert_eq!(page["unavailable_shards"], named, "{page}");
        let ids = page["timers"].as_array().unwrap().iter().map(|timer| &timer["id"]);
        assert!(ids.eq(&expected), "{page}");
        let request = v1::ListRequest { namespace: "a".into(), ..v1::ListRequest::default() };
        let page = TimersClient::with_origin(grpc_router(bench.app.clone()), origin.clone())
            .list(request)
            .await
            .unwrap();
        let page = page.into_inner();
        assert_eq!((page.timers.len(), page.unavailable_shards), (expected.len(), numbers));
    }
}

#[tokio::test]
async fn an_incomplete_stream_does_not_end_as_complete() {
    let (bench, store) = bench().await;
    let whole = lines(&bench).await;
    assert_eq!(whole.last().unwrap()["summary"]["timers"], TIMERS);
    let failing = [ShardId(0), ShardId(3)];
    store.fail(&failing);
    let mut rest = lines(&bench).await;
    let end = rest.pop().unwrap();
    assert_eq!(end["stopped"]["error"]["code"], "unavailable", "{end}");
    let detail = end["stopped"]["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("unavailable shards 0, 3 are missing"), "{detail}");
    let ids: Vec<_> = rest.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, others(&failing));
    assert_eq!(end["stopped"]["unavailable_shards"], json!([0, 3]), "{end}");
}

#[tokio::test]
async fn changes_by_a_list_need_every_shard() {
    let (bench, store) = bench().await;
    store.fail(&[ShardId(1)]);
    for (path, body) in [
        ("cancel", r#"{"all":true}"#),
        ("cancel", r#"{"all":true,"dry_run":true}"#),
        ("dead/purge", r#"{"all":true}"#),
        ("dead/redrive", r#"{"all":true}"#),
    ] {
        bench.post(&format!("/v1/namespaces/a/{path}"), body).await.problem("unavailable");
    }
    bench.get("/v1/namespaces/a/export").await.problem("unavailable");
    store.fail(&[]);
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["scheduled"], TIMERS, "nothing was cancelled: {stats}");
    let all: Vec<_> = (0..SHARDS).map(ShardId).collect();
    store.fail(&all);
    for path in ["stats", "forecast", "timers"] {
        bench.get(&format!("/v1/namespaces/a/{path}")).await.problem("unavailable");
    }
}

/// A store whose coordinator shards are unavailable, and whose other shards are one change behind.
#[derive(Debug)]
struct OutdatedStore(Arc<dyn Store>);

impl StandIn for OutdatedStore {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        Box::pin(async move {
            let found = self.0.get_namespace(name).await?;
            Ok(found.map(|found| Namespace { maybe_outdated: true, ..found }))
        })
    }
}

#[tokio::test]
async fn no_patch_starts_from_settings_that_may_be_outdated() {
    let bench =
        Bench::on(ImplicitNamespaces::Create, 64 * 1024, |store| Arc::new(OutdatedStore(store)));
    bench.call("PUT", "/v1/namespaces/a", r#"{"retry":{"max_attempts":7}}"#).await.expect(201);
    let patch = bench.call("PATCH", "/v1/namespaces/a", r#"{"retry":{"max_attempts":8}}"#).await;
    patch.problem("unavailable");
    bench.get("/v1/namespaces/a/export").await.problem("unavailable");
    let read = bench.get("/v1/namespaces/a").await.expect(200);
    assert_eq!(read["retry"]["max_attempts"], 7, "{read}");
}
