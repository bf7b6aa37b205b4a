//! The pass over idle namespaces: its times, and its arguments for the store.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    Store, StoreFuture,
    conformance::{ManualClock, StandIn},
    memory::MemoryStore,
    namespaces::{IdleCursor, IdlePage},
};
use tokio::sync::mpsc;

use super::*;

/// A page of a pass, as the store receives it.
type Page = (Option<IdleCursor>, BTreeSet<NamespaceName>);

/// A store that reports its passes, in pages of one name.
#[derive(Debug)]
struct Passes {
    inner: MemoryStore,
    pages: mpsc::UnboundedSender<Page>,
}

impl StandIn for Passes {
    fn behind(&self) -> &dyn Store {
        &self.inner
    }

    fn remove_idle(
        &self,
        from: Option<IdleCursor>,
        waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        let next = IdleCursor { shard: ShardId(0), after: Some(name("first")) };
        let next = Some(next).filter(|_| from.is_none());
        self.pages.send((from, BTreeSet::clone(&waited))).ok();
        Box::pin(async { Ok(IdlePage { removed: Vec::new(), next }) })
    }
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_idle_pass_reports_waiting_namespaces() {
    let (pages, mut received) = mpsc::unbounded_channel();
    let clock = ManualClock::default();
    let inner = MemoryStore::new(Arc::new(clock.clone()), 1);
    let world = World::start_on(clock, Arc::new(Passes { inner, pages }), |_| {}).await;
    let request = pull::request(&world, 1, Duration::ZERO);
    world.handle.lease(request).await.unwrap();
    let polled = BTreeSet::from([world.namespace.clone()]);
    let (from, waited) = received.recv().await.unwrap();
    assert_eq!((from, &waited), (None, &polled));
    let (from, same) = received.recv().await.unwrap();
    assert_eq!((from.and_then(|from| from.after), same), (Some(name("first")), polled));
    let (from, waited) = received.recv().await.unwrap();
    assert_eq!((from, waited), (None, BTreeSet::new()), "no call waited in the second hour");
}
