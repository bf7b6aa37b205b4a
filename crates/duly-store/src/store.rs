//! The [`Store`] trait, which combines the parts of the port, and its promises.

use std::fmt::Debug;

use futures::future::{self, BoxFuture};

use crate::{AccessStore, AuditStore, Backups, Deployment, Health, Namespaces, Tail, Timers};

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
/// # Parts
///
/// Every store has [`Timers`], [`Namespaces`] and [`AccessStore`]. A store that has a further part returns it:
/// [`audit`](Self::audit), [`deployment`](Self::deployment), [`backups`](Self::backups). No part that a store
/// lacks is imitated.
///
/// # Promises
///
/// * **P1 durable**: a change that [`apply`](Timers::apply), [`settle`](Timers::settle) or a namespace call
///   reported as done survives kill -9. It survives power loss as far as the engine keeps acknowledged
///   writes.
/// * **P2 never early**: [`claim`](Timers::claim) grants nothing before its `due_at` by the store's wall
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
/// repeats the call; schedule, cancel and settle are idempotent. If the future of a [`claim`](Timers::claim)
/// is dropped, the store releases its firings without counting the attempt, if the store can be reached
/// before the lease ends. Otherwise the lease ends as a lost one.
pub trait Store: Timers + Namespaces + AccessStore + Debug + 'static {
    /// Returns the audit log; `None` for a store without one.
    fn audit(&self) -> Option<&dyn AuditStore>;

    /// Returns the calls by which nodes that share this store find each other; `None` for a store that
    /// belongs to one process.
    fn deployment(&self) -> Option<&dyn Deployment> {
        None
    }

    /// Returns the calls that copy the store into a directory; `None` for a store that is backed up by its own
    /// means.
    fn backups(&self) -> Option<&dyn Backups> {
        None
    }

    /// Returns the location of the data, for people.
    fn location(&self) -> String;

    /// Returns the end of the journal as the store found it when it was opened.
    fn tail(&self) -> Tail {
        Tail::Closed
    }

    /// Returns the health of the store. Returns at once, also while the store is busy. Counts may be some
    /// seconds old.
    fn health(&self) -> Health;

    /// Updates the counts of [`health`](Self::health) if they are older than a second and counting is not
    /// too expensive. Stores that always know the counts do nothing.
    fn recount(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns the reason if the store has ended for good: every call fails until the store is opened again.
    /// A store that other processes keep does not end.
    fn terminal_error(&self) -> Option<String> {
        None
    }

    /// Waits until the store has ended for good, and returns the reason.
    fn ended(&self) -> BoxFuture<'static, String> {
        Box::pin(future::pending())
    }

    /// Ends the work of the store; later calls are refused. Blocks its thread. A store that other processes keep
    /// continues.
    fn close(&self) {}
}
