//! The in-memory reference store: plain maps behind one mutex, without durability. Every other store is
//! compared with it.
//!
//! It is written to be obviously right, not to be fast. It keeps no index, and it examines every timer of a
//! namespace to find the due ones. Rules:
//!
//! 1. Every call first catches up with the clock (ended leases, expired firings, old tombstones), so results
//!    do not depend on who calls and how often.
//! 2. [`duly_core::operate`] and [`duly_core::settle`] decide the effect of an operation or a verdict. Apart
//!    from this core and the types of the port, it shares no code with the stores that it checks.
//! 3. It uses three clocks (`memory/clock.rs`). *Wall* decides which timers are due. *Boot* measures leases.
//!    *Steady* (wall at open plus boot time since) measures the waits between attempts, so a step of the
//!    wall clock does not move a retry.
//!
//! Start reading at `memory/namespace_state.rs`. Each other file implements one part of the trait.

use std::{collections::BTreeSet, fmt, sync::Arc};

use duly_core::{Invalid, NamespaceName, TimerId, env::Clock, settle::LeaseLoss, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    AccessChange, AccessRecords, AccessStore, AuditEntries, AuditEntry, AuditId, AuditStore,
    ChangeOrigin, ClaimRequest, Claimed, Command, Deployment, Forecast, ForecastRequest, Health,
    ListRequest, MemberId, Namespaces, Outcome, Owner, Page, Ready, ReadyCursor, SettleOutcome,
    Settlement, Stats, Store, StoreFuture, TimerView, Timers, command,
    error::Result,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, NAMESPACES_MAX, Namespace, Put},
};

mod apply;
mod claim;
mod clock;
mod members;
mod namespace_state;
mod read;
mod settle;
mod state;

use clock::{ClockReading, Clocks};
use members::Members;
use state::MemoryState;

/// The reference store: one shard, everything in memory.
pub struct MemoryStore {
    clocks: Clocks,
    state: Mutex<MemoryState>,
    wakeups: watch::Sender<u64>,
    /// Present if several nodes share the store.
    members: Option<Members>,
    namespaces_max: u64,
    access: Mutex<AccessRecords>,
    audit: Mutex<AuditEntries>,
}

impl MemoryStore {
    /// Creates an empty store on `clock`. `random_seed` decides incarnations and tokens: the same seed and
    /// the same calls give the same results.
    pub fn new(clock: Arc<dyn Clock>, random_seed: u64) -> Self {
        Self {
            clocks: Clocks::start(clock),
            state: Mutex::new(MemoryState::new(random_seed)),
            wakeups: watch::Sender::new(0),
            members: None,
            namespaces_max: NAMESPACES_MAX,
            access: Mutex::default(),
            audit: Mutex::default(),
        }
    }

    /// Sets the maximum number of namespaces.
    #[must_use]
    pub fn with_namespaces_max(self, namespaces_max: u64) -> Self {
        Self { namespaces_max, ..self }
    }

    /// Simulates a restart of a durable store: the leases of nodes end and their attempts count, and the
    /// leases of consumers stay. Returns the number of leases that ended. The maps stay, so this does not
    /// test durability; it allows the test cases about restarts to run on the reference store.
    pub fn reopen(&self) -> u64 {
        let of_nodes = |owner| matches!(owner, Owner::Node(_));
        self.change(|state, now| state.release(of_nodes, LeaseLoss::Restarted, now))
    }

    /// Reads the state after catching up with the clock.
    fn read<T>(&self, work: impl FnOnce(&mut MemoryState, ClockReading) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.clocks.now();
        state.namespaces.values_mut().for_each(|namespace| namespace.catch_up(now));
        work(&mut state, now)
    }

    /// Changes the state after catching up with the clock, and notifies callers that wait for something
    /// claimable.
    fn change<T>(&self, work: impl FnOnce(&mut MemoryState, ClockReading) -> T) -> T {
        let answer = self.read(work);
        self.wakeups.send_modify(|count| *count += 1);
        answer
    }

    /// Returns the future of a call to the only shard; a call to any other shard is refused.
    fn on_shard<'a, T: Send + 'a>(
        &'a self,
        shard: ShardId,
        call: impl FnOnce() -> Result<T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        async move {
            if shard != ShardId(0) {
                let allowed = "0, the only shard of this store";
                return Err(Invalid::new("shard", shard.0, allowed).into());
            }
            call()
        }
        .boxed()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clocks", &self.clocks).finish_non_exhaustive()
    }
}

impl Timers for MemoryStore {
    fn shards(&self) -> u16 {
        1
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.on_shard(shard, move || {
            command::check_count(commands.len())?;
            Ok(self.change(|state, now| {
                commands.into_iter().map(|command| state.apply(command, now)).collect()
            }))
        })
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
        self.on_shard(shard, move || {
            Ok(self.read(|state, now| state.ready(after.as_ref(), limit, now)))
        })
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        self.on_shard(shard, move || {
            if let Some(members) = &self.members {
                members.check_not_released(request.owner)?;
            }
            self.read(|state, now| state.claim(shard, &request, now))
        })
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        self.on_shard(shard, move || {
            self.change(|state, now| state.settle(shard, settlements, now))
        })
    }

    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        self.on_shard(shard, move || {
            if let Some(members) = &self.members {
                members.release(member_id);
            }
            let is_held_by_member = |holder| holder == Owner::Node(member_id);
            Ok(self.change(|state, now| state.release(is_held_by_member, LeaseLoss::NodeGone, now)))
        })
    }

    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>> {
        self.on_shard(shard, move || {
            let view = self.read(|state, now| state.namespaces.get(&namespace)?.view(&id, now));
            view.map(|view| Ok(view.check_memory(bytes_max).map(|()| view)?)).transpose()
        })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        self.on_shard(shard, move || {
            self.read(|state, now| state.namespace(&request.namespace)?.list(&request, now))
        })
    }

    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        self.on_shard(shard, move || {
            Ok(self.read(|state, now| Some(state.namespaces.get(&namespace)?.stats(now))))
        })
    }

    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>> {
        self.on_shard(shard, move || {
            request.check()?;
            Ok(self.read(|state, now| {
                Some(state.namespaces.get(&request.namespace)?.forecast(&request, now))
            }))
        })
    }

    fn wakeups(&self, _shard: ShardId) -> watch::Receiver<u64> {
        self.wakeups.subscribe()
    }
}

impl Namespaces for MemoryStore {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        let max = self.namespaces_max;
        async move { self.change(|state, now| state.put_namespace(name, put, max, now)) }.boxed()
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        async move { Ok(self.read(|state, _| Some(state.namespaces.get(&name)?.own.clone()))) }
            .boxed()
    }

    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>> {
        async move { Ok(self.read(|state, _| state.list_namespaces(after.as_ref(), limit))) }
            .boxed()
    }

    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        async move { self.change(|state, now| state.set_activity(&name, activity, now)) }.boxed()
    }

    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        async move { self.change(|state, _| -> Result<()> { state.delete_namespace(&name, mode) }) }
            .boxed()
    }

    fn remove_idle(
        &self,
        _from: Option<IdleCursor>,
        awaited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        async move {
            let removed = self.change(|state, now| state.remove_idle(&awaited, now));
            Ok(IdlePage { removed, next: None })
        }
        .boxed()
    }
}

impl AccessStore for MemoryStore {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        let records = self.access.lock().clone();
        async move { Ok(Some(records).filter(|records| records.version != known)) }.boxed()
    }

    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        async move {
            let mut records = self.access.lock();
            if records.version != seen {
                return Ok(None);
            }
            *records = records.changed(change, origin, self.clocks.now().wall)?;
            Ok(Some(records.clone()))
        }
        .boxed()
    }
}

impl AuditStore for MemoryStore {
    fn append_audit(&self, entries: Vec<AuditEntry>) -> StoreFuture<'_, usize> {
        let displaced = self.audit.lock().append(entries, self.clocks.now().wall);
        async move { Ok(displaced) }.boxed()
    }

    fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<AuditEntry>> {
        let page = self.audit.lock().page(before, limit);
        async { Ok(page) }.boxed()
    }
}

impl Store for MemoryStore {
    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }

    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn health(&self) -> Health {
        self.read(|state, now| state.health(now))
    }

    fn deployment(&self) -> Option<&dyn Deployment> {
        self.members.is_some().then_some(self)
    }
}

#[cfg(test)]
mod tests;
