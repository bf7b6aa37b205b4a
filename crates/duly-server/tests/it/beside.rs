//! Changes of a namespace beside each other, on a store that takes its time over reading one.

use std::sync::Arc;

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    Command, Forecast, ForecastRequest, Health, ListRequest, Outcome, Page, SettleOutcome,
    Settlement, Stats, Store, StoreFuture, TimerView,
    claim::{ClaimRequest, Claimed, NodeRun, Ready, ReadyCursor},
    namespaces::{Activity, DeleteMode, Namespace, Put},
};
use tokio::{sync::watch, task::yield_now};

use crate::bench::Bench;

/// A store whose answer to "which settings has it" comes some turns after they were read.
#[derive(Debug)]
struct Slow(Arc<dyn Store>);

#[rustfmt::skip]
impl Store for Slow {
    fn shards(&self) -> u16 {
        self.0.shards()
    }
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        Box::pin(async move {
            let read = self.0.get_namespace(name).await;
            for _ in 0..10 {
                yield_now().await;
            }
            read
        })
    }
    fn ready(&self, shard: ShardId, after: Option<ReadyCursor>, limit: usize) -> StoreFuture<'_, Ready> {
        self.0.ready(shard, after, limit)
    }
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.0.apply(shard, commands)
    }
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        self.0.claim(shard, request)
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

#[tokio::test]
async fn a_patch_beside_a_delete_does_not_bring_it_back() {
    const NS: &str = "/v1/namespaces/a";
    let bench = Bench::on(ImplicitNamespaces::Create, 1024, |store| Arc::new(Slow(store)));
    bench.call("PUT", NS, "{}").await.expect(201);
    let patch = bench.call("PATCH", NS, r#"{"weight":2}"#);
    let (patched, gone) = tokio::join!(patch, bench.call("DELETE", NS, ""));
    patched.expect(200);
    gone.expect(204);
    bench.get(NS).await.problem("not_found");
}
