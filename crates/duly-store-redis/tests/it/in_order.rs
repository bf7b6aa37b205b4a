//! A harness that executes calls item by item.
//!
//! A store may execute operations on different ids of one call in any order, and read the clock once or
//! for each. A comparison with the reference must not depend on either, so both get their items one by
//! one.

use std::sync::Arc;

use duly_core::{Millis, Timestamp, shard::ShardId};
use duly_store::{
    Command, Outcome, SettleOutcome, Settlement, Store, StoreFuture,
    conformance::{Harness, Restart, StandIn},
};
use futures::{FutureExt, future::BoxFuture};

/// A harness that wraps another one.
pub(crate) struct InOrder<H>(pub(crate) H);

impl<H: Harness> Harness for InOrder<H> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(ItemByItem(self.0.store()))
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, ()> {
        self.0.advance(by)
    }

    fn step_wall(&self, by_ms: i64) -> Option<()> {
        self.0.step_wall(by_ms)
    }

    fn restart(&self, how: Restart) -> BoxFuture<'_, Option<()>> {
        self.0.restart(how)
    }
}

/// A store that gets one item at a time.
#[derive(Debug)]
struct ItemByItem(Arc<dyn Store>);

impl StandIn for ItemByItem {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        async move {
            let mut outcomes = Vec::new();
            for command in commands {
                outcomes.extend(self.0.apply(shard, vec![command]).await?);
            }
            Ok(outcomes)
        }
        .boxed()
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        async move {
            // An invalid value refuses the whole call before anything is done.
            duly_store::settle::check(&settlements)?;
            let mut outcomes = Vec::new();
            for settlement in settlements {
                outcomes.extend(self.0.settle(shard, vec![settlement]).await?);
            }
            Ok(outcomes)
        }
        .boxed()
    }
}
