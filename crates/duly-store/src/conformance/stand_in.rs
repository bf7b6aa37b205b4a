//! Stores that forward every call to another store, except the few that a test changes.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use tokio::sync::watch;

use crate::{
    AccessChange, AccessRecords, AccessStore, AuditStore, Backups, ChangeOrigin, ClaimRequest,
    Claimed, Command, Deployment, Forecast, ForecastRequest, Health, ListRequest, MemberId,
    Namespaces, Outcome, Page, Ready, ReadyCursor, SettleOutcome, Settlement, Stats, Store,
    StoreFuture, Tail, TimerView, Timers,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put},
};

/// A store in front of another store. It forwards every call that it does not implement itself.
#[rustfmt::skip]
pub trait StandIn: std::fmt::Debug + Send + Sync + 'static {
    /// Returns the store behind it.
    fn behind(&self) -> &dyn Store;

    /// See [`Timers::apply`].
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.behind().apply(shard, commands)
    }
    /// See [`Timers::ready`].
    fn ready(&self, shard: ShardId, after: Option<ReadyCursor>, limit: usize) -> StoreFuture<'_, Ready> {
        self.behind().ready(shard, after, limit)
    }
    /// See [`Timers::claim`].
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        self.behind().claim(shard, request)
    }
    /// See [`Timers::settle`].
    fn settle(&self, shard: ShardId, settlements: Vec<Settlement>) -> StoreFuture<'_, Vec<SettleOutcome>> {
        self.behind().settle(shard, settlements)
    }
    /// See [`Timers::release_owner`].
    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        self.behind().release_owner(shard, member_id)
    }
    /// See [`Store::audit`].
    fn audit(&self) -> Option<&dyn AuditStore> {
        self.behind().audit()
    }
    /// See [`Store::deployment`].
    fn deployment(&self) -> Option<&dyn Deployment> {
        self.behind().deployment()
    }
    /// See [`Timers::list`].
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        self.behind().list(shard, request)
    }
    /// See [`Namespaces::remove_idle`].
    fn remove_idle(&self, from: Option<IdleCursor>, waited: Arc<BTreeSet<NamespaceName>>) -> StoreFuture<'_, IdlePage> {
        self.behind().remove_idle(from, waited)
    }
    /// See [`Store::health`].
    fn health(&self) -> Health {
        self.behind().health()
    }
    /// See [`Store::recount`].
    fn recount(&self) -> futures::future::BoxFuture<'_, ()> {
        self.behind().recount()
    }
    /// See [`Namespaces::get_namespace`].
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        self.behind().get_namespace(name)
    }
}

#[rustfmt::skip]
impl<T: StandIn> Timers for T {
    fn shards(&self) -> u16 {
        self.behind().shards()
    }
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        StandIn::apply(self, shard, commands)
    }
    fn ready(&self, shard: ShardId, after: Option<ReadyCursor>, limit: usize) -> StoreFuture<'_, Ready> {
        StandIn::ready(self, shard, after, limit)
    }
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        StandIn::claim(self, shard, request)
    }
    fn settle(&self, shard: ShardId, settlements: Vec<Settlement>) -> StoreFuture<'_, Vec<SettleOutcome>> {
        StandIn::settle(self, shard, settlements)
    }
    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        StandIn::release_owner(self, shard, member_id)
    }
    fn get(&self, shard: ShardId, namespace: NamespaceName, id: TimerId, bytes_max: u64) -> StoreFuture<'_, Option<TimerView>> {
        self.behind().get(shard, namespace, id, bytes_max)
    }
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        StandIn::list(self, shard, request)
    }
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        self.behind().stats(shard, namespace)
    }
    fn forecast(&self, shard: ShardId, request: ForecastRequest) -> StoreFuture<'_, Option<Forecast>> {
        self.behind().forecast(shard, request)
    }
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64> {
        self.behind().wakeups(shard)
    }
}

#[rustfmt::skip]
impl<T: StandIn> Namespaces for T {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        self.behind().put_namespace(name, put)
    }
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        StandIn::get_namespace(self, name)
    }
    fn list_namespaces(&self, after: Option<NamespaceName>, limit: usize) -> StoreFuture<'_, Vec<Namespace>> {
        self.behind().list_namespaces(after, limit)
    }
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        self.behind().set_activity(name, activity)
    }
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        self.behind().delete_namespace(name, mode)
    }
    fn remove_idle(&self, from: Option<IdleCursor>, waited: Arc<BTreeSet<NamespaceName>>) -> StoreFuture<'_, IdlePage> {
        StandIn::remove_idle(self, from, waited)
    }
}

#[rustfmt::skip]
impl<T: StandIn> AccessStore for T {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        self.behind().read_access(known)
    }
    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        self.behind().change_access(seen, change, origin)
    }
}

#[rustfmt::skip]
impl<T: StandIn> Store for T {
    fn audit(&self) -> Option<&dyn AuditStore> {
        StandIn::audit(self)
    }
    fn backups(&self) -> Option<&dyn Backups> {
        self.behind().backups()
    }
    fn location(&self) -> String {
        self.behind().location()
    }
    fn tail(&self) -> Tail {
        self.behind().tail()
    }
    fn ended(&self) -> futures::future::BoxFuture<'static, String> {
        self.behind().ended()
    }
    fn close(&self) {
        self.behind().close();
    }
    fn recount(&self) -> futures::future::BoxFuture<'_, ()> {
        StandIn::recount(self)
    }
    fn health(&self) -> Health {
        StandIn::health(self)
    }
    fn terminal_error(&self) -> Option<String> {
        self.behind().terminal_error()
    }
    fn deployment(&self) -> Option<&dyn Deployment> {
        StandIn::deployment(self)
    }
}
