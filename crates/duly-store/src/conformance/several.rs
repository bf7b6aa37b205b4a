//! A store of several shards, each a reference store, for tests of the layers above a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use duly_core::{Millis, NamespaceName, TimerId, shard::ShardId};
use tokio::{
    sync::{broadcast, watch},
    time::sleep,
};

use super::ManualClock;
use crate::{
    AccessChange, AccessRecords, AccessStore, AuditStore, ChangeOrigin, ClaimRequest, Claimed,
    Command, Deployment, Error, Forecast, ForecastRequest, Health, ListRequest, MemberId,
    Namespaces, Outcome, Page, Ready, ReadyCursor, Result, SettleOutcome, Settlement, Stats, Store,
    StoreFuture, TimerView, Timers, Token,
    deployment::{Allotment, Announcement, Ask, Coordinators, Heartbeat, HeartbeatReply},
    memory::MemoryStore,
    namespaces::{Activity, DeleteMode, Namespace, Put},
};

/// The only shard of a reference store.
const ONLY: ShardId = ShardId(0);

/// A store of several reference stores. Its reads of ready lanes, claims and settlements take time, as in a
/// store on another machine. Shards fail on demand.
#[derive(Debug)]
pub struct SeveralShards {
    shards: Vec<MemoryStore>,
    takes: Duration,
    /// One bit for each shard that fails.
    failing: AtomicU64,
}

impl SeveralShards {
    /// Creates a store of this many shards, at most 64. Its reads of ready lanes, claims and settlements
    /// each take `takes`.
    pub fn new(clock: &ManualClock, shards: u16, takes: Duration) -> Self {
        let one =
            |seed| MemoryStore::new(Arc::new(clock.clone()), u64::from(seed) + 1).shared_by_nodes();
        Self { shards: (0..shards).map(one).collect(), takes, failing: AtomicU64::default() }
    }

    /// Makes calls to these shards fail, and to no others.
    pub fn fail(&self, shards: &[ShardId]) {
        let bits = shards.iter().fold(0, |bits, shard| bits | 1 << shard.0);
        self.failing.store(bits, Ordering::Relaxed);
    }

    fn of(&self, shard: ShardId) -> &MemoryStore {
        &self.shards[usize::from(shard.0)]
    }

    fn first(&self) -> &MemoryStore {
        self.of(ONLY)
    }

    /// Refuses a call to a shard that is set to fail.
    fn check(&self, shard: ShardId) -> Result<()> {
        if self.failing.load(Ordering::Relaxed) >> shard.0 & 1 == 0 {
            return Ok(());
        }
        let reason = format!("shard {} fails", shard.0);
        Err(Error::Unavailable { reason, retry_after: Millis::from_secs(1) })
    }
}

#[rustfmt::skip]
impl Timers for SeveralShards {
    fn shards(&self) -> u16 {
        u16::try_from(self.shards.len()).expect("a test has few")
    }
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        Box::pin(async move {
            self.check(shard)?;
            self.of(shard).apply(ONLY, commands).await
        })
    }
    fn ready(&self, shard: ShardId, after: Option<ReadyCursor>, limit: usize) -> StoreFuture<'_, Ready> {
        Box::pin(async move {
            sleep(self.takes).await;
            self.of(shard).ready(ONLY, after, limit).await
        })
    }
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            sleep(self.takes).await;
            let mut claimed = self.of(shard).claim(ONLY, request).await?;
            for firing in &mut claimed.firings {
                firing.token = Token::new(shard, firing.token.own());
            }
            Ok(claimed)
        })
    }
    fn settle(&self, shard: ShardId, mut settlements: Vec<Settlement>) -> StoreFuture<'_, Vec<SettleOutcome>> {
        Box::pin(async move {
            sleep(self.takes).await;
            self.check(shard)?;
            for settlement in &mut settlements {
                settlement.token = Token::new(ONLY, settlement.token.own());
            }
            self.of(shard).settle(ONLY, settlements).await
        })
    }
    fn release_owner(&self, shard: ShardId, run: MemberId) -> StoreFuture<'_, u64> {
        self.of(shard).release_owner(ONLY, run)
    }
    fn get(&self, shard: ShardId, namespace: NamespaceName, id: TimerId, bytes_max: u64) -> StoreFuture<'_, Option<TimerView>> {
        self.of(shard).get(ONLY, namespace, id, bytes_max)
    }
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            self.check(shard)?;
            self.of(shard).list(ONLY, request).await
        })
    }
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        Box::pin(async move {
            self.check(shard)?;
            self.of(shard).stats(ONLY, namespace).await
        })
    }
    fn forecast(&self, shard: ShardId, request: ForecastRequest) -> StoreFuture<'_, Option<Forecast>> {
        Box::pin(async move {
            self.check(shard)?;
            self.of(shard).forecast(ONLY, request).await
        })
    }
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64> {
        self.of(shard).wakeups(ONLY)
    }
}

#[rustfmt::skip]
impl Namespaces for SeveralShards {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        Box::pin(async move {
            for other in &self.shards[1..] {
                other.put_namespace(name.clone(), put.clone()).await?;
            }
            self.first().put_namespace(name, put).await
        })
    }
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        self.first().get_namespace(name)
    }
    fn list_namespaces(&self, after: Option<NamespaceName>, limit: usize) -> StoreFuture<'_, Vec<Namespace>> {
        self.first().list_namespaces(after, limit)
    }
    fn set_activity(&self, _: NamespaceName, _: Activity) -> StoreFuture<'_, Namespace> {
        Box::pin(async { Err(not_here()) })
    }
    fn delete_namespace(&self, _: NamespaceName, _: DeleteMode) -> StoreFuture<'_, ()> {
        Box::pin(async { Err(not_here()) })
    }
}

#[rustfmt::skip]
impl AccessStore for SeveralShards {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        self.first().read_access(known)
    }
    fn change_access(&self, seen: u64, change: AccessChange, origin: ChangeOrigin) -> StoreFuture<'_, Option<AccessRecords>> {
        self.first().change_access(seen, change, origin)
    }
}

#[rustfmt::skip]
impl Store for SeveralShards {
    fn audit(&self) -> Option<&dyn AuditStore> {
        None
    }
    fn location(&self) -> String {
        self.first().location()
    }
    fn health(&self) -> Health {
        self.first().health()
    }
    fn deployment(&self) -> Option<&dyn Deployment> {
        Some(self)
    }
}

fn not_here() -> Error {
    Error::Unavailable { reason: "no test needs it".to_owned(), retry_after: Millis::from_secs(1) }
}

#[rustfmt::skip]
impl Deployment for SeveralShards {
    fn coordinators(&self) -> Coordinators {
        self.first().coordinators()
    }
    fn heartbeat(&self, coordinator: ShardId, beat: Heartbeat) -> StoreFuture<'_, HeartbeatReply> {
        self.first().heartbeat(coordinator, beat)
    }
    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>> {
        self.of(shard).holders(ONLY)
    }
    fn allot(&self, shard: ShardId, run: MemberId, asks: Vec<Ask>) -> StoreFuture<'_, Vec<Allotment>> {
        self.of(shard).allot(ONLY, run, asks)
    }
    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()> {
        self.first().announce(shard, namespace)
    }
    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.first().announcements()
    }
}
