//! The store itself: hands each call of the port to the module that executes it.

use std::{collections::BTreeSet, fmt, sync::Arc};

use duly_core::{Invalid, NamespaceName, TimerId, shard::ShardId};
use duly_store::{
    AccessChange, AccessRecords, AccessStore, AuditEntry, AuditId, AuditStore, ChangeOrigin,
    ClaimRequest, Claimed, Command, Error, Forecast, ForecastRequest, Health, ListRequest,
    MemberId, Namespaces, Outcome, Page, Ready, ReadyCursor, Result, SettleOutcome, Settlement,
    Stats, Store, StoreFuture, TimerView, Timers, claim, command,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put, Repaired},
    settle,
};
use futures::{
    FutureExt,
    future::{self, BoxFuture},
};
use tokio::{sync::watch, task::JoinSet};

use crate::{Opened, Options, change::MemberFate, deployment::Deployment, health, open, wakeups};

/// A store of timers in Redis or Valkey. It is cheap to share. Dropping it ends its connections and
/// leaves everything in Redis as it is.
pub struct RedisStore {
    pub(crate) deployment: Arc<Deployment>,
    location: String,
    /// Background tasks, which end with the store.
    _tasks: JoinSet<()>,
}

impl RedisStore {
    /// Connects to a deployment, or creates one in an empty database.
    ///
    /// # Errors
    /// With one clear reason: a wrong URL, no reply, a setting that would lose timers, another format.
    // Boxed, as are the calls of the store: the crates that wait for it do not compile it again.
    pub fn open(options: &Options) -> BoxFuture<'_, Opened<Self>> {
        Box::pin(async {
            let deployment = open::open(options).await?;
            let (ready, listening) = tokio::sync::oneshot::channel();
            let mut tasks = JoinSet::new();
            tasks.spawn(wakeups::listen(Arc::clone(&deployment), ready));
            // Without the listener wake-ups come late, which is no reason to fail.
            let _late = tokio::time::timeout(options.connect_within, listening).await;
            deployment.poll().await;
            tasks.spawn(health::watch(Arc::clone(&deployment)));
            let watched = Arc::clone(&deployment);
            tasks.spawn(async move { watched.router.watch_suspects().await });
            let unit = if deployment.shards == 1 { "shard" } else { "shards" };
            let location = format!("{} ({} {unit})", options.location, deployment.shards);
            Ok(Self { deployment, location, _tasks: tasks })
        })
    }

    /// Counts the shards and checks their health now, instead of at the next poll.
    pub fn poll(&self) -> BoxFuture<'_, ()> {
        self.deployment.poll().boxed()
    }

    /// Returns the future of a call to a shard, or of its refusal if there is no such shard.
    pub(crate) fn in_shard<'a, T: Send + 'a>(
        &self,
        shard: ShardId,
        call: impl Future<Output = Result<T>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        if shard.0 < self.deployment.shards {
            return call.boxed();
        }
        let allowed = format!("a shard from 0 to {}", self.deployment.shards - 1);
        future::ready(Err(Invalid::new("shard", shard.0, allowed).into())).boxed()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("shards", &self.deployment.shards)
            .finish_non_exhaustive()
    }
}

impl Timers for RedisStore {
    fn shards(&self) -> u16 {
        self.deployment.shards
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.in_shard(shard, async move {
            command::check_count(commands.len())?;
            Ok(self.deployment.apply(shard, commands).await)
        })
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
        self.in_shard(shard, self.deployment.ready(shard, after, limit))
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        self.in_shard(shard, async move {
            claim::check(&request)?;
            self.deployment.claim(shard, &request).await
        })
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        self.in_shard(shard, async move {
            settle::check(&settlements)?;
            self.deployment.settle(shard, settlements).await
        })
    }

    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        let ends = MemberFate::Ends;
        self.in_shard(shard, self.deployment.end_leases_of(shard, member_id, ends))
    }

    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>> {
        self.in_shard(shard, async move {
            self.deployment.get(shard, &namespace, &id, bytes_max).await.map_err(Error::of_read)
        })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        self.in_shard(shard, async move {
            self.deployment.list(shard, &request).await.map_err(Error::of_read)
        })
    }

    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        self.in_shard(shard, async move {
            self.deployment.stats(shard, &namespace).await.map_err(Error::of_read)
        })
    }

    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>> {
        self.in_shard(shard, async move {
            self.deployment.forecast(shard, &request).await.map_err(Error::of_read)
        })
    }

    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64> {
        let place = usize::from(shard.0).min(self.deployment.wakeups.len() - 1);
        self.deployment.wakeups[place].subscribe()
    }
}

impl Namespaces for RedisStore {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        async move { self.deployment.put_namespace(&name, &put).await }.boxed()
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        async move { self.deployment.get_namespace(&name).await.map_err(Error::of_read) }.boxed()
    }

    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>> {
        async move {
            let listed = self.deployment.list_namespaces(after.as_ref(), limit).await;
            listed.map_err(Error::of_read)
        }
        .boxed()
    }

    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        async move { self.deployment.set_activity(&name, activity).await }.boxed()
    }

    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        async move { self.deployment.delete_namespace(&name, mode).await }.boxed()
    }

    fn remove_idle(
        &self,
        from: Option<IdleCursor>,
        waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        async move { self.deployment.remove_idle(from, &waited).await }.boxed()
    }

    fn repair_namespace(
        &self,
        name: NamespaceName,
        keep: Option<String>,
    ) -> StoreFuture<'_, Repaired> {
        async move { self.deployment.repair_namespace(&name, keep.as_deref()).await }.boxed()
    }
}

impl AccessStore for RedisStore {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        async move { self.deployment.read_access(known).await.map_err(Error::of_read) }.boxed()
    }

    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        async move { self.deployment.change_access(seen, change, origin).await }.boxed()
    }
}

impl AuditStore for RedisStore {
    fn append_audit(&self, entries: Vec<AuditEntry>) -> StoreFuture<'_, usize> {
        async move { self.deployment.append_audit(&entries).await }.boxed()
    }

    fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<AuditEntry>> {
        async move { self.deployment.read_audit(before, limit).await.map_err(Error::of_read) }
            .boxed()
    }
}

impl Store for RedisStore {
    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn health(&self) -> Health {
        self.deployment.health.lock().clone()
    }

    fn recount(&self) -> BoxFuture<'_, ()> {
        async move { self.deployment.recount().await }.boxed()
    }

    fn deployment(&self) -> Option<&dyn duly_store::Deployment> {
        Some(self)
    }
}
