//! Tenants at this node: what they use, and the refusals at their limits.
//!
//! 1. Calls, connections, waiting calls and memory are those of the tenant of the caller's key. Each node counts
//!    its own.
//! 2. Namespaces, timers and schedules are those of the tenant of the namespace, for calls of every key.
//!    [`crate::counting::run`] counts them about every second, over all shards. What this node has admitted since then is
//!    added, unless the count is old: timers that have ended since are not known. So one node exceeds a limit by
//!    what it admits during a count, and others by what they admit between two counts.
//! 3. What a command did not add is given back, unless a count came between.

mod admission;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use duly_core::{
    Millis, Refusal, Timestamp,
    access::{ApiKey, KeyId, NamespacePattern, Tenant, TenantLimit, TenantLimits, TenantName},
    rate::{Gcra, Rate},
    refusal::wait_of,
};
use duly_store::AccessRecords;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

pub(crate) use self::admission::{Admission, NamespaceAdmission, adds_nothing, makes_timer};
use crate::{memory::budget::Budget, problem::Problem, telemetry};

/// Wait before a repetition at a limit of what a tenant has: some of it may be gone by then.
const WAIT: Millis = Millis::from_secs(1);
/// Age of a count after which what was let in since is not added.
const COUNT_OLD: Duration = Duration::from_secs(5);

/// The tenants of a server.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    by_name: BTreeMap<TenantName, Arc<TenantState>>,
    /// By the name, or the beginning of names, of a pattern. No pattern has a namespace of another one.
    by_pattern: BTreeMap<String, (NamespacePattern, Arc<TenantState>)>,
    by_key: HashMap<KeyId, Arc<TenantState>>,
}

/// A tenant at this node.
#[derive(Debug)]
pub(crate) struct TenantState {
    tenant: RwLock<Arc<Tenant>>,
    counts: Mutex<Counts>,
    /// The calls of each [`CallGroup`].
    calls: [Mutex<Gcra>; 2],
    connections: Arc<AtomicUsize>,
    waiting: Arc<AtomicUsize>,
    budget: Mutex<Option<Budget>>,
    /// The time of the next count; `None` while one is under way.
    next_count: Mutex<Option<tokio::time::Instant>>,
}

/// What the namespaces of a tenant have.
#[derive(Debug, Default)]
struct Counts {
    /// As counted last.
    counted: Use,
    counted_at: Option<(Timestamp, Instant)>,
    /// Number of the count.
    number: u64,
    /// What this node has let in since then.
    since: Use,
    schedules: Gcra,
}

/// What the namespaces of a tenant have, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) namespaces: u64,
    pub(crate) pending: u64,
    pub(crate) pending_bytes: u64,
    pub(crate) dead: u64,
    /// Schedules that were taken from the rate; not counted.
    pub(crate) schedules: u64,
}

/// What a tenant uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) counted: Use,
    pub(crate) counted_at: Option<Timestamp>,
    pub(crate) connections: usize,
    pub(crate) waiting: usize,
    pub(crate) request_bytes: usize,
}

/// The calls that share a rate of a tenant. So a scraper, or a program with a wrong path, does not use up the calls of
/// the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallGroup {
    /// Operations on timers, namespaces and keys.
    Operations,
    /// Metrics, `whoami`, the reflection of gRPC, and paths and methods that do not exist.
    Others,
}

/// A connection or a waiting call of a tenant, counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

/// The slot of a connection, once a caller of a tenant has called on it; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionSlot(Arc<ConnectionInner>);

#[derive(Debug, Default)]
struct ConnectionInner {
    slot: Mutex<Option<Slot>>,
    refused: Notify,
}

impl Tenants {
    /// Returns the tenants of these records. What is known of the present ones is kept.
    pub(crate) fn new(records: &AccessRecords, present: &Self) -> Self {
        let mut tenants = Self::default();
        for (name, tenant) in &records.tenants {
            let state = match present.by_name.get(name) {
                Some(state) => Arc::clone(state),
                None => Arc::new(TenantState::new(tenant.clone())),
            };
            *state.tenant.write() = Arc::new(tenant.clone());
            for pattern in &tenant.namespaces {
                let place = (pattern.clone(), Arc::clone(&state));
                tenants.by_pattern.insert(pattern.stem().to_owned(), place);
            }
            tenants.by_name.insert(name.clone(), state);
        }
        let of_tenant = |key: &ApiKey| Some((key.id.clone(), Arc::clone(tenants.owner(key)?)));
        tenants.by_key = records.keys.values().filter_map(of_tenant).collect();
        tenants
    }

    /// Returns the tenant of a key by its patterns.
    fn owner(&self, key: &ApiKey) -> Option<&Arc<TenantState>> {
        // An administrator must be able to raise every limit.
        let (_, state) = self.before(key.namespaces.first()?.stem())?;
        (!key.is_admin() && state.tenant().has_key(key)).then_some(state)
    }

    /// Returns the last pattern that is not after a name, with its tenant.
    fn before(&self, name: &str) -> Option<&(NamespacePattern, Arc<TenantState>)> {
        let up_to = (Bound::Unbounded, Bound::Included(name));
        self.by_pattern.range::<str, _>(up_to).next_back().map(|(_, place)| place)
    }

    /// Returns a tenant by its name.
    pub(crate) fn get(&self, name: &TenantName) -> Option<&Arc<TenantState>> {
        self.by_name.get(name)
    }

    /// Returns all tenants.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<TenantState>> {
        self.by_name.values()
    }

    /// Returns the tenant of a key.
    pub(crate) fn of_key(&self, key: &KeyId) -> Option<&Arc<TenantState>> {
        self.by_key.get(key)
    }

    /// Returns the tenant of a namespace.
    pub(crate) fn of_namespace(&self, name: &str) -> Option<&Arc<TenantState>> {
        // Only the last pattern up to the name can match: one that begins as an earlier one would overlap it.
        self.before(name).filter(|(pattern, _)| pattern.matches(name)).map(|(_, state)| state)
    }
}

impl TenantState {
    fn new(tenant: Tenant) -> Self {
        Self {
            tenant: RwLock::new(Arc::new(tenant)),
            counts: Mutex::default(),
            calls: Default::default(),
            connections: Arc::default(),
            waiting: Arc::default(),
            budget: Mutex::default(),
            next_count: Mutex::new(Some(tokio::time::Instant::now())),
        }
    }

    /// Returns the tenant as it is now.
    pub(crate) fn tenant(&self) -> Arc<Tenant> {
        Arc::clone(&self.tenant.read())
    }

    /// Returns what the tenant uses.
    pub(crate) fn usage(&self) -> Usage {
        let counts = self.counts.lock();
        Usage {
            counted: counts.sum(),
            counted_at: counts.counted_at.map(|(at, _)| at),
            connections: self.connections.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            request_bytes: self.budget.lock().as_ref().map_or(0, Budget::used),
        }
    }

    /// Returns `true` if it is time for a count, which is under way then.
    pub(crate) fn begin_count(&self) -> bool {
        let mut next = self.next_count.lock();
        next.is_some_and(|at| at <= tokio::time::Instant::now()) && next.take().is_some()
    }

    /// Notes the end of a count, and the wait until the next one.
    pub(crate) fn end_count(&self, wait: Duration) {
        *self.next_count.lock() = Some(tokio::time::Instant::now() + wait);
    }

    /// Uses a new count of what the namespaces of the tenant have.
    pub(crate) fn use_count(&self, counted: Use, counted_at: Timestamp) {
        let mut counts = self.counts.lock();
        (counts.counted, counts.counted_at) = (counted, Some((counted_at, Instant::now())));
        (counts.since, counts.number) = (Use::default(), counts.number + 1);
    }

    /// Returns `true` if the tenant has a limit of the bytes of its pending timers.
    pub(crate) fn limits_bytes(&self) -> bool {
        self.tenant().limits[TenantLimit::MaxPendingBytes].is_some()
    }

    /// Returns `true` if the limit of bytes has room for a reason, which is added then.
    pub(crate) fn admit_reason(&self, bytes: u64) -> bool {
        let Some(most) = self.tenant().limits[TenantLimit::MaxPendingBytes] else { return true };
        let mut counts = self.counts.lock();
        let has_room = counts.sum().pending_bytes.saturating_add(bytes) <= most;
        if has_room {
            counts.since = counts.since.plus(Use { pending_bytes: bytes, ..Use::default() });
        }
        has_room
    }

    /// Adds bytes of pending timers that no admission knew.
    pub(crate) fn add_pending_bytes(&self, bytes: u64) {
        let mut counts = self.counts.lock();
        counts.since = counts.since.plus(Use { pending_bytes: bytes, ..Use::default() });
    }

    /// Admits a call at `now` by the boot-time clock.
    pub(crate) fn admit_call(&self, group: CallGroup, now: Duration) -> Result<(), Problem> {
        let limits = self.tenant().limits;
        let Some(rate) = rate(&limits, TenantLimit::CallPerSecond) else { return Ok(()) };
        let mut calls = self.calls[group as usize].lock();
        if calls.available(rate, now) == 0 {
            let wait = wait_of(calls.next_in(rate, now));
            return Err(self.problem(TenantLimit::CallPerSecond, Some(wait)));
        }
        calls.take(rate, now, 1);
        Ok(())
    }

    /// Admits a lease call or a stream that may wait.
    pub(crate) fn admit_waiting(&self) -> Result<Slot, Problem> {
        self.take_slot(&self.waiting, TenantLimit::MaxWaitingCalls)
    }

    fn take_slot(&self, used: &Arc<AtomicUsize>, limit: TenantLimit) -> Result<Slot, Problem> {
        let most = self.tenant().limits[limit].map_or(usize::MAX, to_usize);
        let is_free = |used: usize| (used < most).then_some(used + 1);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free)
            .map_err(|_| self.problem(limit, Some(WAIT)))?;
        Ok(Slot(Arc::clone(used)))
    }

    /// Returns the tenant's part of the request memory, if it has one.
    pub(crate) fn budget(&self, whole: &Budget) -> Option<Budget> {
        let most = to_usize(self.tenant().limits[TenantLimit::MaxRequestBytes]?);
        let mut budget = self.budget.lock();
        Some(match &*budget {
            Some(present) if present.bytes_max() == most => present.clone(),
            _ => budget.insert(whole.part(most, self.tenant().name.clone(), over_memory)).clone(),
        })
    }

    /// Returns the refusal at a limit.
    fn refusal(&self, limit: TenantLimit, retry_after: Option<Millis>) -> Refusal {
        let tenant = self.tenant();
        refusal(&tenant.name, limit, tenant.limits[limit].unwrap_or(u64::MAX), retry_after)
    }

    fn problem(&self, limit: TenantLimit, retry_after: Option<Millis>) -> Problem {
        problem(self.refusal(limit, retry_after))
    }
}

impl Usage {
    /// Returns the use of a limit; `None` for a rate.
    pub(crate) fn of(&self, limit: TenantLimit) -> Option<u64> {
        Some(match limit {
            TenantLimit::MaxNamespaces => self.counted.namespaces,
            TenantLimit::MaxPending => self.counted.pending,
            TenantLimit::MaxPendingBytes => self.counted.pending_bytes,
            TenantLimit::MaxDead => self.counted.dead,
            TenantLimit::MaxConnections => self.connections as u64,
            TenantLimit::MaxWaitingCalls => self.waiting as u64,
            TenantLimit::MaxRequestBytes => self.request_bytes as u64,
            TenantLimit::SchedulePerSecond | TenantLimit::CallPerSecond => return None,
        })
    }
}

impl Counts {
    /// Returns what was counted and let in since. What has ended since an old count is not known.
    fn sum(&self) -> Use {
        let is_old = self.counted_at.is_some_and(|(_, at)| at.elapsed() > COUNT_OLD);
        if is_old { self.counted } else { self.counted.plus(self.since) }
    }
}

impl Use {
    /// Returns the difference, or nothing.
    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Returns the sum of two.
    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            namespaces: of(self.namespaces, other.namespaces),
            pending: of(self.pending, other.pending),
            pending_bytes: of(self.pending_bytes, other.pending_bytes),
            dead: of(self.dead, other.dead),
            schedules: of(self.schedules, other.schedules),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ConnectionSlot {
    /// Counts the connection as one of a tenant.
    pub(crate) fn admit(&self, state: &TenantState) -> Result<(), Problem> {
        let mut slot = self.0.slot.lock();
        if slot.as_ref().is_none_or(|slot| !Arc::ptr_eq(&slot.0, &state.connections)) {
            let taken = state.take_slot(&state.connections, TenantLimit::MaxConnections);
            *slot = Some(taken.inspect_err(|_| self.refuse())?);
        }
        Ok(())
    }

    /// Lets the connection end in order: its calls under way get their responses.
    pub(crate) fn refuse(&self) {
        self.0.refused.notify_one();
    }

    /// Waits until the connection is refused, and must end.
    pub(crate) async fn refused(&self) {
        self.0.refused.notified().await;
    }
}

/// Returns the problem of a tenant that uses its request memory.
fn over_memory(tenant: &TenantName, max: u64) -> Problem {
    problem(refusal(tenant, TenantLimit::MaxRequestBytes, max, Some(WAIT)))
}

/// Returns the refusal at a limit, and counts it.
fn refusal(
    tenant: &TenantName,
    limit: TenantLimit,
    max: u64,
    retry_after: Option<Millis>,
) -> Refusal {
    telemetry::record_tenant_refusal(tenant, limit);
    Refusal::TenantLimit { tenant: tenant.clone(), limit, max, retry_after }
}

fn problem(refusal: Refusal) -> Problem {
    Problem::new(refusal.code(), refusal.to_string()).with(refusal)
}

fn rate(limits: &TenantLimits, limit: TenantLimit) -> Option<Rate> {
    limits[limit].map(|rate| Rate::by_the_second(u32::try_from(rate).unwrap_or(u32::MAX)))
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
