//! The in-memory reference: plain maps behind one mutex, no durability, the oracle of every other
//! store.
//!
//! It is written to be obviously right, not to be fast: it keeps no index and looks at every timer
//! of a namespace when it needs the due ones. What it does is the meaning of the port:
//!
//! * every call first catches up with the clock (ended leases, expired firings, outlived stubs),
//!   so that nothing depends on who calls how often;
//! * whether something may happen is asked of [`duly_core::lifecycle::decide`], and how the record
//!   then looks is left to the methods of [`duly_core::Timer`];
//! * three clocks (`memory/clock.rs`): *wall* decides what is due, *boot* measures leases, and
//!   *steady* (wall at open plus boot time since) measures the waits between attempts, so that a
//!   step of the wall clock neither hastens nor delays a retry.
//!
//! Start reading at `memory/space.rs`; each other file is one part of the trait.

use std::{fmt, sync::Arc};

use duly_core::{NamespaceName, TimerId, env::Clock, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    ClaimRequest, Claimed, Command, Health, Lane, ListRequest, Outcome, Owner, Page, Ready,
    SettleOutcome, Settlement, Stats, Store, StoreFuture, TimerView,
    error::Result,
    namespaces::{Activity, DeleteMode, Namespace, Put},
};

mod apply;
mod claim;
mod clock;
mod lanes;
mod letters;
mod namespaces;
mod overdue;
mod read;
mod settle;
mod space;
mod state;

use clock::{Clocks, Now};
use state::State;

/// The reference store: one shard, everything in memory.
pub struct MemoryStore {
    clocks: Clocks,
    state: Mutex<State>,
    wakeups: Arc<Notify>,
}

impl MemoryStore {
    /// An empty store on `clock`. `random_seed` decides incarnations and tokens: the same seed and
    /// the same calls give the same answers.
    pub fn new(clock: Arc<dyn Clock>, random_seed: u64) -> Self {
        Self {
            clocks: Clocks::start(clock),
            state: Mutex::new(State::new(random_seed)),
            wakeups: Arc::new(Notify::new()),
        }
    }

    /// What opening a durable store again does to its state: the leases of nodes end and their
    /// attempts count, consumers' leases run on. Answers how many ended. The maps stay, so this
    /// says nothing about durability; it lets the cases about restarts be tried on the reference.
    pub fn reopen(&self) -> u64 {
        self.change(|state, now| state.release(|owner| matches!(owner, Owner::Node(_)), now))
    }

    /// Looks at the caught-up state.
    fn look<T>(&self, work: impl FnOnce(&mut State, Now) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.clocks.now();
        state.catch_up(now);
        work(&mut state, now)
    }

    /// Changes the caught-up state and wakes whoever waits for something claimable.
    fn change<T>(&self, work: impl FnOnce(&mut State, Now) -> T) -> T {
        let answer = self.look(work);
        // Both kinds of listeners: those that wait now, and the one that comes a moment later.
        self.wakeups.notify_waiters();
        self.wakeups.notify_one();
        answer
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clocks", &self.clocks).finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn shards(&self) -> u16 {
        1
    }

    fn apply(&self, _shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        async move {
            Ok(self.change(|state, now| {
                let outcomes = commands.into_iter().map(|command| state.apply(command, now));
                outcomes.collect()
            }))
        }
        .boxed()
    }

    fn ready(&self, _shard: ShardId, after: Option<Lane>, limit: usize) -> StoreFuture<'_, Ready> {
        async move { Ok(self.look(|state, now| state.ready(after.as_ref(), limit, now))) }.boxed()
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        async move { self.look(|state, now| state.claim(shard, &request, now)) }.boxed()
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        async move { self.change(|state, now| state.settle(shard, settlements, now)) }.boxed()
    }

    fn release_owner(&self, _shard: ShardId, owner: Owner) -> StoreFuture<'_, u64> {
        async move { Ok(self.change(|state, now| state.release(|holder| holder == owner, now))) }
            .boxed()
    }

    fn get(
        &self,
        _shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
    ) -> StoreFuture<'_, Option<TimerView>> {
        async move { Ok(self.look(|state, now| state.spaces.get(&namespace)?.view(&id, now))) }
            .boxed()
    }

    fn list(&self, _shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        async move { self.look(|state, now| state.space(&request.namespace)?.list(&request, now)) }
            .boxed()
    }

    fn stats(&self, _shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        async move {
            Ok(self.look(|state, now| state.spaces.get(&namespace).map(|space| space.stats(now))))
        }
        .boxed()
    }

    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        async move { Ok(self.change(|state, now| state.put_namespace(name, put, now))) }.boxed()
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        async move { Ok(self.look(|state, _| Some(state.spaces.get(&name)?.answer()))) }.boxed()
    }

    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>> {
        async move { Ok(self.look(|state, _| state.list_namespaces(after.as_ref(), limit))) }
            .boxed()
    }

    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        async move { self.change(|state, now| state.set_activity(&name, activity, now)) }.boxed()
    }

    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        async move { self.change(|state, _| -> Result<()> { state.delete_namespace(&name, mode) }) }
            .boxed()
    }

    fn wakeups(&self) -> Arc<Notify> {
        Arc::clone(&self.wakeups)
    }

    fn health(&self) -> Health {
        self.look(|state, now| state.health(now))
    }
}

#[cfg(test)]
mod tests;
