//! The [`Store`] trait and its promises.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use duly_core::{Invalid, NamespaceName, TimerId, shard::ShardId};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, future::BoxFuture, stream};
use tokio::sync::watch;

use crate::{
    AccessChange, AccessRecords, AuditEntry, AuditId, ChangeOrigin, ClaimRequest, Claimed, Command,
    Deployment, Error, Forecast, ForecastRequest, Health, ListRequest, MemberId, Outcome, Page,
    Ready, ReadyCursor, SettleOutcome, Settlement, Stats, StoreFuture, TimerView,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put, Repaired},
};

/// Namespaces that a store without a cheaper call counts at the same time.
const COUNTED_AT_ONCE: usize = 8;

/// The single source of truth: every state change is one atomic compare-and-set inside the store.
///
/// * No call takes the present time. The store uses its own clock, so a caller with a wrong clock does no
///   harm.
/// * Calls are batches with one outcome per item. An item that is refused changes nothing and affects no
///   other item.
/// * A call that names a shard accepts only items that belong to this shard.
/// * Ends by the clock hold in every call, even if the store has not cleaned up yet: a lease past its end, a
///   firing past `expire_after`, a tombstone past `retention`.
///
/// # Promises
///
/// * **P1 durable**: a change that [`apply`](Self::apply), [`settle`](Self::settle) or a namespace call
///   reported as done survives kill -9. It survives power loss as far as the engine keeps acknowledged
///   writes.
/// * **P2 never early**: [`claim`](Self::claim) grants nothing before its `due_at` by the store's wall
///   clock, and no retry before its time.
/// * **P3 at least once**: a firing stays claimable, leased or a dead letter until it is acknowledged,
///   cancelled, or purged by an operator. A lease that ends makes it due again.
/// * **P4 definite cancel**: after `Cancelled` no claim is granted. The outcome says how many attempts were
///   made and whether one may have arrived.
/// * **P5 definite change**: after an accepted reschedule no claim is granted for the old time.
/// * **P6 idempotent schedule**: a repetition of the same request returns the existing timer while the timer
///   or its tombstone exists, unless the request restarts the timer. A redriven dead letter replaces the tombstone of its id. A tombstone lasts for
///   the retention that its namespace has now: a changed retention counts for all that exist. It restores
///   none.
/// * **P7 stable delivery id**: equal in every attempt of one occurrence.
/// * **P8 fenced settle**: a token whose lease is lost changes nothing.
/// * **P9 isolation**: a claim affects only the lanes that it names. A large batch of one caller does not
///   delay a small batch of another.
/// * **P10 bounded**: past a limit an item or a call is refused, with the remedy. A limit of a namespace is
///   exact in a store of one shard. Over several shards it is never exceeded, but calls may be refused a
///   little below it while quotas move between shards.
/// * **P11 intact**: payload and header values are returned byte for byte.
/// * **P12 any time**: due times range from the past to 2200-01-01. An impossible time is refused and never
///   taken as "now". A number with an ambiguous unit is refused too: a duration without a unit, or a time
///   that could count seconds.
///
/// # Cancellation safety
///
/// Dropping a future does not undo the call: it may still be carried out. A caller that needs the outcome
/// repeats the call; schedule, cancel and settle are idempotent. If the future of a [`claim`](Self::claim)
/// is dropped, the store releases its firings without counting the attempt, if the store can be reached
/// before the lease ends. Otherwise the lease ends as a lost one.
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns the number of shards of the deployment; fixed at set-up.
    fn shards(&self) -> u16;

    /// Carries out operations. Each is atomic, and all are durable when the call returns. The outcomes have
    /// the order of the commands, and operations on one id run in this order. After an error of the whole
    /// call it is not known which items were carried out, unless the error says that nothing was done.
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>>;

    /// Returns about `limit` lanes that have something claimable, after the cursor `after`. The store
    /// decides where exactly a page ends.
    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready>;

    /// Grants leases on due firings of the named lanes, lane by lane in the order named. It may grant less
    /// than is asked for and available; then [`Claimed::more`] names the lane. If it fails after some
    /// grants, it returns these grants instead of the error.
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed>;

    /// Applies verdicts to leased firings. They are durable when the call returns.
    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>>;

    /// Ends all leases of the member `member_id` of the deployment; the attempts count. Returns the number of
    /// leases. It may work in slices. A store that nodes share grants nothing to this member from the start
    /// of the call.
    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64>;

    /// Returns a timer, tombstone or latest dead letter by its id, if it takes at most `bytes_max` bytes of
    /// memory ([`TimerView::memory_bytes`]).
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it takes more memory. Like every call that changes nothing (lists, counts and
    /// settings as well), it never fails with [`Error::InDoubt`](crate::Error).
    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>>;

    /// Returns a page of timers in (due time, id) order. A timer that does not change during paging is
    /// returned exactly once. A page may be short or even empty and still have a next position, because the
    /// store bounds the timers that it examines. The memory of a page is bounded by the request
    /// ([`ListRequest::bytes_max`]).
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page>;

    /// Returns the counts of a namespace in this shard; `None` if there is no such namespace. The counts are
    /// of one moment. [`Stats::next_due_at`] of a very large namespace may be slightly older.
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>>;

    /// Returns the counts of namespaces in this shard in their order, without [`Stats::next_due_at`]; `None` for
    /// one that does not exist. The cost does not depend on the number of timers.
    fn counts(
        &self,
        shard: ShardId,
        names: Vec<NamespaceName>,
    ) -> StoreFuture<'_, Vec<Option<Stats>>> {
        let without_next = |stats: Option<Stats>| Stats { next_due_at: None, ..stats? }.into();
        let counts =
            names.into_iter().map(move |name| self.stats(shard, name).map_ok(without_next));
        stream::iter(counts).buffered(COUNTED_AT_ONCE).try_collect().boxed()
    }

    /// Returns how many pending timers of a namespace in this shard become claimable in which period; `None`
    /// if there is no such namespace. A timer that does not change during the call is counted exactly once.
    /// A timer that changes may be counted as before, as after, or not at all. Too many forecasts at the
    /// same time are refused as overload.
    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>>;

    /// Writes settings. Returns the namespace, and `true` if it is new.
    ///
    /// A namespace beyond the store's limit is refused ([`too_many`](crate::namespaces::too_many)). Over
    /// several shards, namespaces that are created at the same moment may exceed the limit by their number.
    /// Like the other changes of a namespace, the call returns when every shard has the change. After an
    /// error some shards may have it; repeat the same call.
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)>;

    /// Returns one namespace.
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>>;

    /// Returns at most `limit` namespaces in order of their names, after the name `after`.
    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>>;

    /// Pauses or resumes a namespace. After `Paused` is returned no claim is granted. A namespace that
    /// resumes at a time grants claims from that time on; [`Ready::next_due_in`] takes this time into
    /// account.
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace>;

    /// Deletes a namespace with all its timers, tombstones and dead letters.
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()>;

    /// Checks a page of implicit namespaces, and removes those that have been idle for
    /// [`IDLE_AFTER`](crate::namespaces::IDLE_AFTER).
    ///
    /// 1. A namespace is idle if it has no pending timer, no dead letter, no tombstone and no lease call.
    /// 2. `waited` names the namespaces on which lease calls of this node have waited since its previous
    ///    pass.
    /// 3. The time counts from the first pass that finds a namespace idle, so it may exist for longer.
    /// 4. A namespace that holds something at the moment of its removal stays. So a timer that was scheduled
    ///    before is kept, and a later schedule finds no such namespace.
    fn remove_idle(
        &self,
        _from: Option<IdleCursor>,
        _waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        async move { Ok(IdlePage::default()) }.boxed()
    }

    /// Restores the record of a namespace that its coordinator shard has lost, from the other shards.
    ///
    /// The other shards may hold the namespace under several numbers. Only one of them can be kept: the
    /// repair is refused with a list of them unless `keep` names one. The timers under the other numbers are
    /// then lost. A namespace that needs no repair stays as it is. In a store that keeps or loses all its
    /// data together, no namespace ever needs a repair.
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

    /// Returns the keys of callers if their version is not `known`.
    fn read_access(&self, _known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        async move { Ok(None) }.boxed()
    }

    /// Changes the keys of callers if their version still is `seen`. Returns the records as they are then;
    /// `None` if another change came first, and nothing was done.
    ///
    /// # Errors
    /// Those of [`AccessRecords::changed`].
    fn change_access(
        &self,
        _seen: u64,
        _change: AccessChange,
        _origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        async move { Err(Invalid::unseen("keys", "used with a store that keeps them").into()) }
            .boxed()
    }

    /// Adds entries to the audit log, which is bounded. An entry that is there already stays. Returns the number of
    /// entries that the log lost because it was full: none of a caller while another one has more.
    fn append_audit(&self, _entries: Vec<AuditEntry>) -> StoreFuture<'_, usize> {
        async { Ok(0) }.boxed()
    }

    /// Returns at most `limit` entries of the audit log before an id, the newest first.
    fn read_audit(
        &self,
        _before: Option<AuditId>,
        _limit: usize,
    ) -> StoreFuture<'_, Vec<AuditEntry>> {
        async { Ok(Vec::new()) }.boxed()
    }

    /// Returns a counter that grows when something in a shard became claimable, or will do so earlier than
    /// the last `next_due_in`. Only a change of the counter has a meaning. A lost change costs at most one
    /// second, because callers sleep no longer than that.
    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64>;

    /// Returns the health of the store. Returns at once, also while the store is busy. Counts may be some
    /// seconds old.
    fn health(&self) -> Health;

    /// Updates the counts of [`health`](Self::health) if they are older than a second and counting is not
    /// too expensive. Stores that always know the counts do nothing.
    fn recount(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    /// Returns the reason if the store has ended for good: every call fails until the store is opened again.
    /// A store that other processes keep does not end.
    fn terminal_error(&self) -> Option<String> {
        None
    }

    /// Returns the calls by which nodes that share this store find each other; `None` for a store that
    /// belongs to one process.
    fn deployment(&self) -> Option<&dyn Deployment> {
        None
    }
}
