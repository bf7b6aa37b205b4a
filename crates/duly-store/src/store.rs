//! The trait itself.

use std::{fmt::Debug, sync::Arc};

use duly_core::{NamespaceName, TimerId, shard::ShardId};
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::{
    ClaimRequest, Claimed, Command, Health, Lane, ListRequest, Outcome, Owner, Page, Ready, Result,
    SettleOutcome, Settlement, Stats, TimerView,
    namespaces::{Activity, DeleteMode, Namespace, Put},
};

/// Future of a call to a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// The single source of truth: every state change is one atomic compare-and-set inside it.
///
/// No call takes the present time: the clock is the store's own, so a caller with a wrong clock
/// can do no harm. Calls are batches with one outcome per item; an item that is refused changes
/// nothing and touches no other item.
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
///   or its stub lives.
/// * **P7 stable delivery id**: equal in every attempt of one occurrence.
/// * **P8 fenced settle**: a token whose lease is lost changes nothing.
/// * **P9 isolation**: a claim touches only the lanes that it names, and one caller's large batch
///   does not hold up another caller's small one.
/// * **P10 bounded**: past a limit an item or call is refused with what to do.
/// * **P11 intact**: payload and header values come out byte for byte.
/// * **P12 any time**: from the past to 2200-01-01; an impossible time is refused, never "now".
///
/// # Cancellation safety
///
/// Dropping a future does not undo the call: it may still be carried out. Callers that need to
/// know repeat the call (schedule, cancel and settle are idempotent). A dropped
/// [`claim`](Self::claim) whose answer nobody saw is released uncounted by the store.
pub trait Store: Debug + Send + Sync + 'static {
    /// How many shards the deployment has; fixed at set-up.
    fn shards(&self) -> u16;

    /// Carries out operations, each atomic, all durable when answered. Outcomes stand in the order
    /// of the commands; operations on one id run in that order.
    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>>;

    /// Lanes that have something claimable, from `after` on, at most `limit`.
    fn ready(&self, shard: ShardId, after: Option<Lane>, limit: usize) -> StoreFuture<'_, Ready>;

    /// Grants leases on due firings of the named lanes. Lane by lane in the order named; ended
    /// leases and firings past `expire_after` are dealt with first.
    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed>;

    /// Takes verdicts on leased firings, durable when answered.
    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>>;

    /// Ends all leases of a node that is gone; the attempts count. Answers how many.
    fn release_owner(&self, shard: ShardId, owner: Owner) -> StoreFuture<'_, u64>;

    /// One timer, stub or latest dead letter by its id.
    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
    ) -> StoreFuture<'_, Option<TimerView>>;

    /// A page of timers in (due time, id) order. A timer that does not change while paging comes
    /// exactly once.
    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page>;

    /// Counts of a namespace in this shard; `None` when there is no such namespace.
    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>>;

    /// Writes settings. Answers the namespace and whether it is new.
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)>;

    /// One namespace.
    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>>;

    /// Namespaces in order of their names, after a name, at most `limit`.
    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>>;

    /// Pauses or resumes. After `Paused` is answered no claim is granted.
    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace>;

    /// Ends a namespace with all its timers, stubs and dead letters.
    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()>;

    /// Signalled when something became claimable, or will, earlier than the last `next_due_in`
    /// said. A lost signal costs at most one second: callers sleep no longer than that.
    fn wakeups(&self) -> Arc<Notify>;

    /// How the store feels; answers at once, also while it is busy.
    fn health(&self) -> Health;
}
