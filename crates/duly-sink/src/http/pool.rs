//! The pool of connections that wait for their next delivery.
//!
//! 1. Idle HTTP/1.1 connections are kept up to a number for each origin and a number in all. Above the
//!    latter the one that was idle longest is closed, regardless of its origin. So one namespace with
//!    many receivers cannot take all places for ever, and no connection is refused because of another.
//! 2. An HTTP/2 connection is shared by all deliveries to its origin. A second one is made when the
//!    receiver allows no further stream.
//! 3. A connection that has reached its age gets no further delivery. So the addresses of a name are looked
//!    up again under steady traffic too.
//! 4. A receiver may close each HTTP/1.1 connection after its response without announcing it, and a
//!    request that crosses the close is lost. So one delivery tries whether connections to an origin can
//!    be used again at once; until its success the others use only connections that stayed open for
//!    [`RESTED_AFTER`], or new ones.
//! 5. A connection is not kept if its exchange timed out, was aborted or left bytes unread, or if its
//!    request was not completely sent when the reply was read.
//! 6. Nothing waits while it holds the lock, and no method of a connection that may block is called
//!    under it (a connection may be writing). The lock is held for a few steps only. It is held for a
//!    visit of all origins if the number in all is exceeded, and on each sweep.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::OwnedMutexGuard, time::Instant};

use super::{
    connection::{Http1, Http2, Stream},
    options::{Bounds, Timeouts},
    unsent::Unsent,
};

/// Shortest time between two sweeps.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(100);
/// Idle time after which a connection that is still open can be used regardless of its receiver's habit.
const RESTED_AFTER: Duration = Duration::from_millis(50);
/// Time for which no connection is used at once to a receiver that closes connections after a response.
const NOT_AT_ONCE_FOR: Duration = Duration::from_secs(10);
/// Time for which a delivery waits for another one that connects, before it makes its own connection.
pub(super) const SINGLE_FLIGHT_WAIT: Duration = Duration::from_secs(1);

/// A connection taken from the pool.
#[derive(Debug)]
pub(super) enum PooledConnection {
    /// An HTTP/1.1 connection; this delivery is its only user.
    Http1(Http1),
    /// A stream of a shared HTTP/2 connection.
    Http2(Stream),
}

/// The pool.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<PoolState>,
    bounds: Bounds,
    timeouts: Timeouts,
}

#[derive(Debug, Default)]
struct PoolState {
    origins: HashMap<Box<str>, Origin>,
    /// Number of connections in all origins.
    kept: usize,
    sweeping: bool,
}

#[derive(Debug, Default)]
struct Origin {
    /// Idle connections; the front one was idle longest.
    idle: VecDeque<Idle>,
    shared: Vec<Arc<Http2>>,
    single_flight: Arc<SingleFlight>,
    habit: Habit,
}

/// The habit of a receiver after a response over HTTP/1.1, as far as known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Habit {
    #[default]
    Unknown,
    /// One delivery tries it: its connection is used again at once.
    Tried,
    /// It keeps the connection open.
    Keeps,
    /// It closes the connection; to be tried again at this time.
    Closes(Instant),
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
    until: Instant,
}

impl Idle {
    fn is_rested(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= RESTED_AFTER
    }
}

/// Single flight for connecting: one delivery connects to a new origin while the others wait. The new
/// connection may be one that all of them can share.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    /// Locked while a delivery connects, and until the receiver's settings are known.
    connecting: Arc<tokio::sync::Mutex<()>>,
    one_each: AtomicBool,
}

impl SingleFlight {
    /// Waits until no other delivery connects.
    pub(super) async fn connecting(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.connecting).lock_owned().await
    }

    /// Returns `true` if each delivery needs its own connection, as far as known.
    pub(super) fn is_one_each(&self) -> bool {
        self.one_each.load(Ordering::Relaxed)
    }

    /// Records the protocol of the last connection.
    pub(super) fn learn(&self, made: &PooledConnection) {
        self.one_each.store(matches!(made, PooledConnection::Http1(_)), Ordering::Relaxed);
    }
}

/// A reference to the single flight of an origin; when the last one is dropped, an origin without
/// connections is removed.
#[derive(Debug)]
pub(super) struct SingleFlightGuard<'a> {
    pool: &'a Pool,
    origin: &'a str,
    pub(super) single_flight: Arc<SingleFlight>,
}

impl Drop for SingleFlightGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        drop(std::mem::take(&mut self.single_flight));
        if state.origins.get(self.origin).is_some_and(Origin::is_unused) {
            state.origins.remove(self.origin);
        }
    }
}

impl Pool {
    pub(super) fn new(bounds: Bounds, timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), bounds, timeouts })
    }

    /// Takes a connection to `origin`, the most recently used one first.
    pub(super) fn take(&self, origin: &str) -> Option<PooledConnection> {
        let now = Instant::now();
        let shared = {
            let mut state = self.state.lock();
            let PoolState { origins, kept, .. } = &mut *state;
            let origin = origins.get_mut(origin)?;
            while let Some(idle) = origin.take_idle(now) {
                *kept -= 1;
                if idle.connection.is_closed() {
                    origin.found_closed(idle.is_rested(now), now);
                } else if idle.until > now {
                    return Some(PooledConnection::Http1(idle.connection));
                }
            }
            origin.shared.clone()
        };
        // Without the lock: the number of streams is read from the task that writes to the connection's
        // socket.
        let mut usable = shared.iter().filter(|shared| !self.is_aged(shared.made_at, now));
        usable.find_map(Http2::stream).map(PooledConnection::Http2)
    }

    /// Returns `true` if a connection that was made at this time gets no further delivery.
    fn is_aged(&self, made_at: Instant, now: Instant) -> bool {
        now.saturating_duration_since(made_at) >= self.timeouts.connection_age
    }

    /// Keeps an idle connection for the next delivery, no longer than `for_at_most`.
    pub(super) fn keep(self: &Arc<Self>, origin: &str, connection: Http1, for_at_most: Duration) {
        let since = Instant::now();
        let aged_at = connection.made_at + self.timeouts.connection_age;
        let until = aged_at.min(since + self.timeouts.idle.min(for_at_most));
        if connection.is_closed() || until <= since {
            return;
        }
        let mut state = self.state.lock();
        let PoolState { origins, kept, .. } = &mut *state;
        let entry = origin_entry(origins, origin);
        if connection.exchanges > 1 && !matches!(entry.habit, Habit::Closes(_)) {
            entry.habit = Habit::Keeps;
        }
        entry.idle.push_back(Idle { connection, since, until });
        *kept += 1;
        if entry.idle.len() > self.bounds.idle_per_origin_max {
            entry.idle.pop_front();
            *kept -= 1;
        }
        self.enforce_limits(&mut state);
    }

    /// Learns that the receiver closed a kept connection, and the request on it is lost.
    pub(super) fn lost(&self, origin: &str) {
        if let Some(entry) = self.state.lock().origins.get_mut(origin) {
            entry.found_closed(false, Instant::now());
        }
    }

    /// Adds a new connection for all deliveries, and takes the first stream on it.
    pub(super) fn share(
        self: &Arc<Self>,
        origin: &str,
        connection: Http2,
    ) -> Option<PooledConnection> {
        let connection = Arc::new(connection);
        let stream = connection.stream()?;
        let mut state = self.state.lock();
        origin_entry(&mut state.origins, origin).shared.push(connection);
        state.kept += 1;
        self.enforce_limits(&mut state);
        Some(PooledConnection::Http2(stream))
    }

    /// Removes a connection, so that no delivery uses it again. Exchanges under way on it may end,
    /// unless too many unsent bytes are left on it.
    pub(super) fn retire(&self, origin: &str, pooled: PooledConnection, unsent: Unsent) {
        let PooledConnection::Http2(stream) = pooled else { return };
        stream.0.add_unsent(unsent);
        let mut state = self.state.lock();
        let PoolState { origins, kept, .. } = &mut *state;
        if let Some(entry) = origins.get_mut(origin) {
            let before = entry.shared.len();
            entry.shared.retain(|shared| !Arc::ptr_eq(shared, &stream.0));
            *kept -= before - entry.shared.len();
        }
    }

    /// Returns the single flight for new connections to `origin`.
    pub(super) fn single_flight<'a>(&'a self, origin: &'a str) -> SingleFlightGuard<'a> {
        let single_flight =
            Arc::clone(&origin_entry(&mut self.state.lock().origins, origin).single_flight);
        SingleFlightGuard { pool: self, origin, single_flight }
    }

    /// Returns `true` if the lock is free.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_some()
    }

    /// Returns the number of connections kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.state.lock().kept
    }

    /// Returns the number of origins that are remembered.
    #[cfg(test)]
    pub(super) fn origins(&self) -> usize {
        self.state.lock().origins.len()
    }

    /// Closes the connections above the limit, and starts the sweep of old ones.
    fn enforce_limits(self: &Arc<Self>, state: &mut PoolState) {
        while state.kept > self.bounds.idle_max && state.close_oldest() {}
        if !state.sweeping {
            state.sweeping = true;
            let shorter = self.timeouts.idle.min(self.timeouts.connection_age);
            tokio::spawn(sweep(Arc::downgrade(self), (shorter / 2).max(SWEEP_EVERY_MIN)));
        }
    }

    /// Closes the connections that were idle for too long; returns `true` if any is left.
    fn close_old(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut kept = 0;
        state.origins.retain(|_, origin| {
            origin.idle.retain(|idle| idle.until > now && !idle.connection.is_closed());
            origin.shared.retain(|shared| {
                let idle_for = self.timeouts.idle;
                let is_idle = shared.idle_since().is_some_and(|since| since + idle_for <= now);
                !is_idle && !self.is_aged(shared.made_at, now) && !shared.is_closed()
            });
            kept += origin.idle.len() + origin.shared.len();
            !origin.is_unused()
        });
        state.kept = kept;
        state.sweeping = kept > 0;
        state.sweeping
    }
}

fn origin_entry<'a>(origins: &'a mut HashMap<Box<str>, Origin>, origin: &str) -> &'a mut Origin {
    // Two look-ups for a new origin only: the name of a known origin is not copied.
    if !origins.contains_key(origin) {
        origins.insert(origin.into(), Origin::default());
    }
    origins.get_mut(origin).expect("it was put in if it was not there")
}

impl Origin {
    /// Returns `true` if no connection is kept and no delivery waits to connect.
    fn is_unused(&self) -> bool {
        self.idle.is_empty()
            && self.shared.is_empty()
            && Arc::strong_count(&self.single_flight) == 1
    }

    /// Takes the most recently used idle connection if the receiver keeps connections open, or to try
    /// whether it does; otherwise the one that was idle longest, if it is rested.
    fn take_idle(&mut self, now: Instant) -> Option<Idle> {
        match self.habit {
            Habit::Closes(until) if until > now => {}
            Habit::Tried => {}
            Habit::Keeps => return self.idle.pop_back(),
            Habit::Unknown | Habit::Closes(_) => {
                self.habit = if self.idle.is_empty() { Habit::Unknown } else { Habit::Tried };
                return self.idle.pop_back();
            }
        }
        if self.idle.front()?.is_rested(now) { self.idle.pop_front() } else { None }
    }

    /// Learns from a kept connection that the receiver has closed.
    fn found_closed(&mut self, is_rested: bool, now: Instant) {
        if !is_rested {
            self.habit = Habit::Closes(now + NOT_AT_ONCE_FOR);
        } else if self.habit == Habit::Tried {
            self.habit = Habit::Unknown;
        }
    }

    /// Returns the time since which its oldest connection is idle.
    fn oldest(&self) -> Option<Instant> {
        let shared = self.shared.iter().filter_map(|shared| shared.idle_since());
        self.idle.front().map(|idle| idle.since).into_iter().chain(shared).min()
    }

    /// Closes the oldest connection. Returns `false` if there is none: a delivery may have taken a
    /// shared connection meanwhile, without the lock.
    fn close_oldest(&mut self) -> bool {
        let Some(oldest) = self.oldest() else { return false };
        if self.idle.front().is_some_and(|idle| idle.since == oldest) {
            return self.idle.pop_front().is_some();
        }
        let at = self.shared.iter().position(|shared| shared.idle_since() == Some(oldest));
        at.map(|at| self.shared.swap_remove(at)).is_some()
    }
}

impl PoolState {
    /// Closes the connection that was idle longest, and removes an origin that has no other. Returns
    /// `false` if all are in use, or were just taken.
    fn close_oldest(&mut self) -> bool {
        let ages = self.origins.iter().filter_map(|(name, o)| Some((o.oldest()?, name)));
        let Some((_, name)) = ages.min_by_key(|(since, _)| *since) else { return false };
        let name = name.clone();
        let Some(origin) = self.origins.get_mut(&name) else { return false };
        let is_closed = origin.close_oldest();
        if origin.is_unused() {
            self.origins.remove(&name);
        }
        self.kept -= usize::from(is_closed);
        is_closed
    }
}

/// Closes connections that were idle for too long, until none is left.
async fn sweep(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.close_old() {
            return;
        }
    }
}
