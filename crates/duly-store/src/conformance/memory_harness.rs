//! A harness of the reference store: for the suite itself, and for the comparison in
//! [`super::model::compare`].

use std::sync::Arc;

use duly_core::{Millis, Timestamp, env::Clock};
use futures::{FutureExt, future::BoxFuture};

use super::{Harness, ManualClock, NAMESPACES_MAX, Restart};
use crate::{Store, memory::MemoryStore};

/// A [`MemoryStore`] on a [`ManualClock`]. A restart ends the leases of nodes, as opening a durable store
/// does, and keeps the maps. So the cases about restarts can run on the reference store.
#[derive(Debug)]
pub struct MemoryHarness {
    clock: ManualClock,
    store: Arc<MemoryStore>,
}

impl MemoryHarness {
    /// Creates an empty store with its own clock.
    pub fn new(random_seed: u64) -> Self {
        Self::with_clock(ManualClock::default(), random_seed)
    }

    /// Creates an empty store on a clock that others may share.
    pub fn with_clock(clock: ManualClock, random_seed: u64) -> Self {
        let store = MemoryStore::new(Arc::new(clock.clone()), random_seed);
        Self { clock, store: Arc::new(store.with_namespaces_max(NAMESPACES_MAX)) }
    }

    /// Creates a store that nodes share: members that were released can no longer claim.
    pub fn shared(clock: ManualClock, random_seed: u64) -> Self {
        let store = MemoryStore::new(Arc::new(clock.clone()), random_seed);
        let store = store.with_namespaces_max(NAMESPACES_MAX).shared_by_nodes();
        Self { clock, store: Arc::new(store) }
    }

    /// Returns its clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

impl Harness for MemoryHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, ()> {
        self.clock.advance(by);
        futures::future::ready(()).boxed()
    }

    fn step_wall(&self, by_ms: i64) -> Option<()> {
        self.clock.step_wall(by_ms);
        Some(())
    }

    fn restart(&self, _how: Restart) -> BoxFuture<'_, Option<()>> {
        self.store.reopen();
        futures::future::ready(Some(())).boxed()
    }
}
