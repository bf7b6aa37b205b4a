//! The trait itself.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use futures::{FutureExt, future::BoxFuture};
use tokio::sync::watch;

use crate::{
    ClaimRequest, Claimed, Command, Deployment, Error, Forecast, ForecastRequest, Health,
    ListRequest, MemberId, Outcome, Page, Ready, ReadyCursor, Result, SettleOutcome, Settlement,
    Stats, TimerView,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put, Repaired},
};

/// Future of a call to a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// The single source of truth: every state change is one atomic compare-and-set inside it.
///
/// No call takes the present time: the clock is the store's own, so a caller with a wrong clock
/// can do no harm. Calls are batches with one outcome per item; an item that is refused changes
/// nothing and touches no other item. A call that names a shard takes only what belongs to it.
///
/// What the clock ends has ended, in every call and whether the store has cleared it away yet or
/// not: a lease past its end, a firing past `expire_after`, a tombstone past `retention`.
///
/// # Promises
///
/// * **P1 durable**: what [`apply`](Self::apply), [`settle`](Self::settle) or a namespace call
///   answered with success is there after kill -9 and, as far as the engine keeps acknowledged
///   writes, after power loss.
/// * **P2 never early**: [`claim`](Self::claim) grants nothing before its `due_at` by the store's
///   wall clock, nor a retry before its time.
/// * **P3 at least once**: a firing stays claimable, leased or a dead letter until it is
///   acknowledged, cancelled, or purged by an operator. A lease that ends makes it due again.
/// * **P4 definite cancel**: after `Cancelled` no claim is granted, and the answer says how many
///   attempts were made and whether one may have arrived.
/// * **P5 definite change**: after an accepted reschedule no claim is granted for the old time.
/// * **P6 idempotent schedule**: the same request again answers the existing timer while the timer
///   or its tombstone lives. A redriven dead letter takes the place of its id's tombstone.
/// * **P7 stable delivery id**: equal in every attempt of one occurrence.
/// * **P8 fenced settle**: a token whose lease is lost changes nothing.
/// * **P9 isolation**: a claim touches only the lanes that it names, and one caller's large batch
///   does not hold up another caller's small one.
/// * **P10 bounded**: past a limit an item or call is refused with what to do. A limit of a
///   namespace is exact in a store of one shard; over several it is never exceeded, and may refuse
///   a little below it while the shards' shares are being evened out.
/// * **P11 intact**: payload and header values come out byte for byte.
/// * **P12 any time**: from the past to 2200-01-01; an impossible time is refused, never "now", and so
///   is a number whose unit can be mistaken: a duration without one, a time that could count seconds.
///
/// # Cancellation safety
///
/// Dropping a future does not undo the call: it may still be carried out. Callers that need to
/// know repeat the call (schedule, cancel and settle are idempotent). A dropped
/// [`claim`](Self::claim) whose answer nobody saw is released uncounted by the store, if it can be
/// reached before the lease ends; otherwise that lease ends as a lost one.
pub trait Store: Debug + Send + Sync + 'static {
    /// How many shards the deployment has; fixed at set-up.
    fn shards(&self) -> u16;

    /// Carries out operations, each atomic, all durable when answered. Outcomes stand in the order
    /// of the commands; operations on one id run in that order. An error of the whole call leaves
    /// open which items were carried out, unless it says that nothing was done.
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>>;

    /// Lanes that have something claimable, from `after` on, about `limit` of them: a page may end
    /// where it is convenient for the store.
    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready>;

    /// Grants leases on due firings of the named lanes, lane by lane in the order named. It may
    /// grant less than is asked for and there; then [`Claimed::more`] names the lane. What was
    /// granted before a failure is answered as granted.
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed>;

    /// Takes verdicts on leased firings, durable when answered.
    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>>;

    /// Ends all leases of a run of a node that is over; the attempts count. Answers how many. It
    /// may work in slices; a store that nodes share grants that run nothing from the first on.
    fn release_owner(&self, shard: ShardId, run: MemberId) -> StoreFuture<'_, u64>;

    /// One timer, tombstone or latest dead letter by its id, if it takes at most `bytes_max` bytes of memory
    /// ([`TimerView::memory_bytes`]); otherwise the call fails with [`Error::TooLarge`]. As of every call
    /// that changes nothing (those of lists, counts and settings as well), what fails of it is never
    /// [`Error::InDoubt`](crate::Error).
    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>>;

    /// A page of timers in (due time, id) order. A timer that does not change while paging comes
    /// exactly once. A page may be short, even empty, and still say where to go on: the store
    /// bounds what it looks at, and the page's memory is that of the request
    /// ([`ListRequest::bytes_max`]).
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page>;

    /// Counts of a namespace in this shard; `None` when there is no such namespace. The counts are
    /// of one moment; [`Stats::next_due_at`] of a very large namespace may be of a moment ago.
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>>;

    /// How many pending timers of a namespace in this shard become claimable when; `None` when
    /// there is no such namespace. A timer that does not change meanwhile is counted exactly once;
    /// one that does may be counted as it was, as it is, or not at all. More forecasts at once than
    /// the store can bear are refused as overload.
    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>>;

    /// Writes settings. Answers the namespace and whether it is new. One more than the store may have is
    /// refused ([`too_many`](crate::namespaces::too_many)); over several shards those that are made at the
    /// same moment may pass that by as many. Like the other changes of a
    /// namespace it is answered when every shard took it; after an error some may have, and the
    /// same call again is right.
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)>;

    /// One namespace.
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>>;

    /// Namespaces in order of their names, after a name, at most `limit`.
    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>>;

    /// Pauses or resumes. After `Paused` is answered no claim is granted; a namespace that resumes at
    /// a time grants them from then on, and [`Ready::next_due_in`] counts that moment.
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace>;

    /// Ends a namespace with all its timers, tombstones and dead letters.
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()>;

    /// Looks at a page of implicit namespaces, and removes those that have been idle for [`IDLE_AFTER`](crate::namespaces::IDLE_AFTER): no
    /// pending timer, no dead letter, no tombstone, and no lease call. `waited` names the namespaces on which lease
    /// calls of this node have waited since its pass before. The store counts from the first pass that finds
    /// a namespace idle, so an idle one may stay for longer. One that holds something at the moment of
    /// its removal stays: what was scheduled is in it, and what comes later finds no such namespace.
    fn remove_idle(
        &self,
        _from: Option<IdleCursor>,
        _waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        async move { Ok(IdlePage::default()) }.boxed()
    }

    /// Restores the record of a namespace that the shard which orders its changes has lost, from the other
    /// shards. Where these hold it under several numbers, only one can be kept: the repair is refused with a
    /// list of them unless `keep` names one; the timers under the others are given up then. A namespace that
    /// wants no repair stays as it is, and none of a store that loses all or nothing ever does.
    fn repair_namespace(
        &self,
        name: NamespaceName,
        _keep: Option<String>,
    ) -> StoreFuture<'_, Repaired> {
        async move {
            let namespace = self.get_namespace(name.clone()).await?;
            let namespace = namespace.ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
            Ok(Repaired::not_needed(namespace))
        }
        .boxed()
    }

    /// A count that grows when something became claimable in a shard, or will, earlier than the
    /// last `next_due_in` said; only that it changed means something. A lost change costs at most
    /// one second: callers sleep no longer than that.
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64>;

    /// How the store feels; answers at once, also while it is busy. Counts may be some seconds old.
    fn health(&self) -> Health;

    /// Brings the counts of [`health`](Self::health) up to date, where they are older than a second and counting
    /// them does not take too much of the store. Stores that always know them do nothing.
    fn recount(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    /// Returns why the store has ended for good, if it has: every call fails until it is opened again.
    /// A store that other processes keep does not end.
    fn terminal_error(&self) -> Option<String> {
        None
    }

    /// Where several nodes share this store: how they find each other. `None` for a store that belongs
    /// to one process.
    fn deployment(&self) -> Option<&dyn Deployment> {
        None
    }
}
