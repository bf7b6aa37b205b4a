//! Concurrent changes, on a store that is slow to read a namespace, and in which timers change while a
//! list is read.

use std::sync::{Arc, Mutex};

use duly_core::{
    Millis, NamespaceName, Schedule, TimerId,
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    Answer, Command, ListRequest, Operation, Outcome, Page, Store, StoreFuture,
    conformance::StandIn, namespaces::Namespace,
};
use tokio::task::yield_now;

use crate::bench::Bench;

/// A store that returns a namespace's settings some polls after it has read them. It carries out these
/// commands after the first page of a list that has timers.
#[derive(Debug)]
struct SlowStore(Arc<dyn Store>, Mutex<Vec<Command>>);

impl StandIn for SlowStore {
    fn behind(&self) -> &dyn Store {
        &*self.0
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
}

#[tokio::test]
async fn a_patch_beside_a_delete_does_not_bring_it_back() {
    const NS: &str = "/v1/namespaces/a";
    let bench = Bench::on(ImplicitNamespaces::Create, 1024, |store| {
        Arc::new(SlowStore(store, Mutex::default()))
    });
    bench.call("PUT", NS, "{}").await.expect(201);
    let patch = bench.call("PATCH", NS, r#"{"weight":2}"#);
    let (patched, gone) = tokio::join!(patch, bench.call("DELETE", NS, ""));
    patched.expect(200);
    gone.expect(204);
    bench.get(NS).await.problem("not_found");
}

#[tokio::test]
async fn bulk_cancel_skips_timers_moved_out_of_the_filter() {
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
            Arc::new(SlowStore(store, Mutex::new(changes)))
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
