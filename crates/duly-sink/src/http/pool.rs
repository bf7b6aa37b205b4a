//! Connections that wait for their next delivery.
//!
//! * Idle HTTP/1.1 connections are kept up to a number for each origin and a number in all; past the
//!   latter the one that was idle longest is closed, whichever its origin. So one namespace with
//!   many receivers cannot take all places for good, and none is refused because of another.
//! * An HTTP/2 connection is shared by all deliveries to its origin; a second one is made when the
//!   receiver allows no further stream.
//! * Never kept: a connection whose exchange timed out, was cut off or left bytes unread,
//!   or whose request had not left when its answer was read.
//! * Nothing waits in here, no connection is asked anything under the lock (it may be writing), and
//!   the lock is held for a few steps only (a look at all origins where the
//!   number in all is exceeded, and on each sweep).

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    connection::{Http1, Http2, Stream},
    unsent::Unsent,
};

/// Shortest time between two sweeps.
const SWEEP_EVERY_MIN: Duration = Duration::from_millis(100);
/// How long a delivery waits for the connection of another one before it makes its own.
pub(super) const GATE_WITHIN: Duration = Duration::from_secs(1);

/// A connection out of the pool.
#[derive(Debug)]
pub(super) enum Lease {
    /// It is the only user.
    Http1(Http1),
    /// One of several.
    Http2(Stream),
}

/// The pool.
#[derive(Debug)]
pub(super) struct Pool {
    state: Mutex<State>,
    per_origin_max: usize,
    all_max: usize,
    idle_for: Duration,
}

#[derive(Debug, Default)]
struct State {
    origins: HashMap<Box<str>, Origin>,
    /// Connections in all origins.
    kept: usize,
    sweeping: bool,
}

#[derive(Debug, Default)]
struct Origin {
    /// The one that was idle longest first.
    idle: VecDeque<Idle>,
    shared: Vec<Arc<Http2>>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Idle {
    connection: Http1,
    since: Instant,
    until: Instant,
}

/// Lets one delivery connect to a new origin while the others wait: it may bring a connection that
/// all of them can share.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Held while the first one connects.
    pub(super) turn: tokio::sync::Mutex<()>,
    one_each: AtomicBool,
}

impl Gate {
    /// Whether each delivery needs a connection of its own, as far as is known.
    pub(super) fn is_one_each(&self) -> bool {
        self.one_each.load(Ordering::Relaxed)
    }

    /// Says what the last connection turned out to be.
    pub(super) fn learn(&self, made: &Lease) {
        self.one_each.store(matches!(made, Lease::Http1(_)), Ordering::Relaxed);
    }
}

/// A place at a gate; the origin is forgotten with the last one if nothing is kept for it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pool: &'a Pool,
    origin: &'a str,
    gate: Arc<Gate>,
}

impl Place<'_> {
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        drop(std::mem::take(&mut self.gate));
        if state.origins.get(self.origin).is_some_and(Origin::is_unused) {
            state.origins.remove(self.origin);
        }
    }
}

impl Pool {
    pub(super) fn new(per_origin_max: usize, all_max: usize, idle_for: Duration) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), per_origin_max, all_max, idle_for })
    }

    /// A connection to `origin`, the one used last before others.
    pub(super) fn take(&self, origin: &str) -> Option<Lease> {
        let now = Instant::now();
        let shared = {
            let mut state = self.state.lock();
            let State { origins, kept, .. } = &mut *state;
            let origin = origins.get_mut(origin)?;
            while let Some(idle) = origin.idle.pop_back() {
                *kept -= 1;
                if idle.until > now && !idle.connection.is_closed() {
                    return Some(Lease::Http1(idle.connection));
                }
            }
            origin.shared.clone()
        };
        // Without the lock: how many streams a connection has is said by what writes to its socket.
        shared.iter().find_map(Http2::stream).map(Lease::Http2)
    }

    /// Keeps an idle connection for the next delivery, no longer than `for_at_most`.
    pub(super) fn keep(self: &Arc<Self>, origin: &str, connection: Http1, for_at_most: Duration) {
        let since = Instant::now();
        let until = since + self.idle_for.min(for_at_most);
        if connection.is_closed() || until <= since {
            return;
        }
        let mut state = self.state.lock();
        let State { origins, kept, .. } = &mut *state;
        let place = place_of(origins, origin);
        place.idle.push_back(Idle { connection, since, until });
        *kept += 1;
        if place.idle.len() > self.per_origin_max {
            place.idle.pop_front();
            *kept -= 1;
        }
        self.settle(&mut state);
    }

    /// Makes a new connection known to all, and takes the first place on it.
    pub(super) fn share(self: &Arc<Self>, origin: &str, connection: Http2) -> Option<Lease> {
        let connection = Arc::new(connection);
        let stream = connection.stream()?;
        let mut state = self.state.lock();
        place_of(&mut state.origins, origin).shared.push(connection);
        state.kept += 1;
        self.settle(&mut state);
        Some(Lease::Http2(stream))
    }

    /// Lets nobody use the connection again. What goes on over it may end, unless too much was left
    /// behind on it.
    pub(super) fn retire(&self, origin: &str, lease: Lease, unsent: Unsent) {
        let Lease::Http2(stream) = lease else { return };
        stream.connection().leave(unsent);
        let mut state = self.state.lock();
        let State { origins, kept, .. } = &mut *state;
        if let Some(place) = origins.get_mut(origin) {
            let before = place.shared.len();
            place.shared.retain(|shared| !Arc::ptr_eq(shared, stream.connection()));
            *kept -= before - place.shared.len();
        }
    }

    /// The gate before new connections to `origin`.
    pub(super) fn gate<'a>(&'a self, origin: &'a str) -> Place<'a> {
        let gate = Arc::clone(&place_of(&mut self.state.lock().origins, origin).gate);
        Place { pool: self, origin, gate }
    }

    /// Whether nobody holds the lock.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_some()
    }

    /// Connections kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.state.lock().kept
    }

    /// Origins that something is known of.
    #[cfg(test)]
    pub(super) fn origins(&self) -> usize {
        self.state.lock().origins.len()
    }

    /// Closes what is too much, and sees to it that what is too old will be closed.
    fn settle(self: &Arc<Self>, state: &mut State) {
        while state.kept > self.all_max && state.close_oldest() {}
        if !state.sweeping {
            state.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(self), (self.idle_for / 2).max(SWEEP_EVERY_MIN)));
        }
    }

    /// Closes what was idle for too long; says whether anything is left.
    fn close_old(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut kept = 0;
        state.origins.retain(|_, origin| {
            origin.idle.retain(|idle| idle.until > now && !idle.connection.is_closed());
            origin.shared.retain(|shared| {
                let old = shared.idle_since().is_some_and(|since| since + self.idle_for <= now);
                !old && !shared.is_closed()
            });
            kept += origin.idle.len() + origin.shared.len();
            !origin.is_unused()
        });
        state.kept = kept;
        state.sweeping = kept > 0;
        state.sweeping
    }
}

fn place_of<'a>(origins: &'a mut HashMap<Box<str>, Origin>, origin: &str) -> &'a mut Origin {
    // Looked up twice for a new origin only: its name is not copied for a known one.
    if !origins.contains_key(origin) {
        origins.insert(origin.into(), Origin::default());
    }
    origins.get_mut(origin).expect("it was put in if it was not there")
}

impl Origin {
    /// Whether nothing is kept, and nobody is at its gate.
    fn is_unused(&self) -> bool {
        self.idle.is_empty() && self.shared.is_empty() && Arc::strong_count(&self.gate) == 1
    }

    /// Since when its oldest connection is idle.
    fn oldest(&self) -> Option<Instant> {
        let shared = self.shared.iter().filter_map(|shared| shared.idle_since());
        self.idle.front().map(|idle| idle.since).into_iter().chain(shared).min()
    }

    /// Whether there was one: a shared connection may have been taken up meanwhile, without the lock.
    fn close_oldest(&mut self) -> bool {
        let Some(oldest) = self.oldest() else { return false };
        if self.idle.front().is_some_and(|idle| idle.since == oldest) {
            return self.idle.pop_front().is_some();
        }
        let at = self.shared.iter().position(|shared| shared.idle_since() == Some(oldest));
        at.map(|at| self.shared.swap_remove(at)).is_some()
    }
}

impl State {
    /// Closes the connection that was idle longest, and forgets an origin that has no other;
    /// `false` where all are in use, or have just been taken up.
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

/// Closes what was idle for too long, until nothing is left.
async fn sweep(pool: Weak<Pool>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.close_old() {
            return;
        }
    }
}
