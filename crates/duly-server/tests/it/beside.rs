//! Changes beside each other, on a store that takes its time over reading a namespace, and in which
//! timers change while a list is read.

use std::sync::{Arc, Mutex};

use duly_core::{
    Millis, NamespaceName, Schedule, TimerId,
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    Answer, Command, Forecast, ForecastRequest, Health, ListRequest, Operation, Outcome, Page,
    SettleOutcome, Settlement, Stats, Store, StoreFuture, TimerView,
    claim::{ClaimRequest, Claimed, NodeRun, Ready, ReadyCursor},
    namespaces::{Activity, DeleteMode, Namespace, Put},
};
use tokio::{sync::watch, task::yield_now};

use crate::bench::Bench;

/// A store whose answer to "which settings has it" comes some turns after they were read, and in
/// which these commands are carried out behind the first page of a list that has timers.
#[derive(Debug)]
struct Slow(Arc<dyn Store>, Mutex<Vec<Command>>);

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
        Box::pin(async move {
            let page = self.0.list(shard, request).await?;
            if !page.timers.is_empty() {
                let changes = std::mem::take(&mut *self.1.lock().unwrap());
                let outcomes = self.0.apply(shard, changes).await?;
                let refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(_));
                assert!(!outcomes.iter().any(refused), "{outcomes:?}");
            }
            Ok(page)
        })
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
    let bench = Bench::on(ImplicitNamespaces::Create, 1024, |store| {
        Arc::new(Slow(store, Mutex::default()))
    });
    bench.call("PUT", NS, "{}").await.expect(201);
    let patch = bench.call("PATCH", NS, r#"{"weight":2}"#);
    let (patched, gone) = tokio::join!(patch, bench.call("DELETE", NS, ""));
    patched.expect(200);
    gone.expect(204);
    bench.get(NS).await.problem("not_found");
}

#[tokio::test]
async fn a_bulk_cancel_leaves_what_fits_no_more_when_it_gets_there() {
    let id = |text| TimerId::new(text).unwrap();
    let command = |operation| Command {
        namespace: NamespaceName::new("a").unwrap(),
        operation,
        answer: Answer::Whole,
    };
    let cancel = || command(Operation::Cancel { id: id("again"), if_revision: None });
    let tomorrow = Schedule::new(id("again"), When::After(Millis::from_secs(86_400)));
    let (schedule, if_exists) = (Box::new(tomorrow), IfExists::default());
    let again = command(Operation::Schedule { schedule, if_exists });
    let fire = command(Operation::Fire { id: id("fired") });
    let soon = r#"{"filter":{"due_to":"2030-03-17T20:46:40Z"}}"#;
    let state = r#"{"filter":{"state":"scheduled"}}"#;
    for (filter, changes, left) in
        [(soon, vec![cancel(), again], "again"), (state, vec![fire], "fired")]
    {
        let bench = Bench::on(ImplicitNamespaces::Create, 1024, |store| {
            Arc::new(Slow(store, Mutex::new(changes)))
        });
        for id in ["again", "fired", "stays"] {
            bench.schedule(&format!(r#"{{"id":"{id}","delay":"1h"}}"#)).await.expect(201);
        }
        let done = bench.post("/v1/namespaces/a/cancel", filter).await.expect(200);
        assert_eq!(
            (&done["cancelled"], &done["skipped"]),
            (&2.into(), &1.into()),
            "{filter}: {done}"
        );
        let page = bench.get("/v1/namespaces/a/timers").await.expect(200);
        assert_eq!(page["timers"][0]["id"], left, "{filter}: {page}");
    }
}
