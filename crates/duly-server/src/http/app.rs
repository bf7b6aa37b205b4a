//! What the handlers share: the store, the node, the clock, the bounds.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Millis, TimerId, Timestamp,
    env::Clock,
    rate::{Gcra, Rate},
};
use duly_sink::http::AddressPolicy;
use duly_store::Store;
use rand::RngCore;
use tokio::sync::{Mutex, watch};

use super::{Backups, budget::Budget, guard::Guard};
use crate::telemetry::{Metrics, Routes};

/// Bytes of all answers of the service's own paths, such as `/metrics`, at once. They have a budget
/// of their own: callers that fill theirs do not hide what goes on.
const PROBES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of all health checks over gRPC at once.
const HEALTH_BYTES_MAX: usize = 1024 * 1024;

/// Longest wait for the counts of a store that nodes share.
const RECOUNT_WITHIN: Duration = Duration::from_secs(2);

/// Namespaces of so many seconds may come into being by themselves at once.
const IMPLICIT_BURST_SECONDS: u32 = 10;

/// Whether a namespace comes into being at its first schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImplicitNamespaces {
    /// It does.
    Create,
    /// A schedule into a namespace that is not there is refused.
    Refuse,
}

/// Bounds of the HTTP interface.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body_bytes_max: usize,
    /// Bytes of all bodies at once, those of answers included.
    pub request_memory_max: usize,
    /// Time to answer a request, the wait of a lease call excluded.
    pub request_timeout: Duration,
    /// Namespaces that come into being by themselves, in a second.
    pub implicit_namespaces_per_second: u32,
}

/// Parts that an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The node that delivers.
    pub node: duly_node::Handle,
    /// The clock that ids are made from.
    pub clock: Arc<dyn Clock>,
    /// Whether namespaces come into being by themselves.
    pub implicit_namespaces: ImplicitNamespaces,
    /// Who may call.
    pub guard: Guard,
    /// Which addresses webhooks may reach.
    pub addresses: AddressPolicy,
    /// Bounds.
    pub limits: Limits,
    /// Backups of the store.
    pub backups: Backups,
    /// The recorder behind `/metrics`.
    pub metrics: Metrics,
}

/// What the handlers share; cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<Inner>);

/// Whether the server takes leave of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    NotYet,
    Now,
}

#[derive(Debug)]
struct Inner {
    parts: Parts,
    routes: Routes,
    budget: Budget,
    probes: Budget,
    health: Budget,
    stopping: watch::Sender<Stopping>,
    patches: Mutex<()>,
    /// What was taken of the rate at which namespaces come into being by themselves.
    implicit: parking_lot::Mutex<Gcra>,
}

impl App {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            budget: Budget::new(parts.limits.request_memory_max),
            probes: Budget::new(PROBES_BYTES_MAX),
            health: Budget::new(HEALTH_BYTES_MAX),
            stopping: watch::Sender::new(Stopping::NotYet),
            routes: Routes::default(),
            patches: Mutex::new(()),
            implicit: parking_lot::Mutex::default(),
            parts,
        }))
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.parts.store
    }

    /// Has the store counted again, and waits for that as long as a caller may.
    pub(crate) async fn recount(&self) {
        // What is not counted in time is as old as it is.
        let _in_time = tokio::time::timeout(RECOUNT_WITHIN, self.store().recount()).await;
    }

    /// The node.
    pub(crate) fn node(&self) -> &duly_node::Handle {
        &self.0.parts.node
    }

    /// Whether namespaces come into being by themselves.
    pub(crate) fn implicit_namespaces(&self) -> ImplicitNamespaces {
        self.0.parts.implicit_namespaces
    }

    /// Admits one more namespace that comes into being by itself.
    ///
    /// # Errors
    /// How long to wait.
    pub(super) fn admit_implicit(&self) -> Result<(), Millis> {
        let per_second = self.limits().implicit_namespaces_per_second;
        let rate = Rate::new(per_second, per_second.saturating_mul(IMPLICIT_BURST_SECONDS));
        let now = self.0.parts.clock.boot();
        let mut taken = self.0.implicit.lock();
        if taken.available(rate, now) == 0 {
            return Err(Millis::from_ms(1_000_u64.div_ceil(u64::from(rate.per_second()))));
        }
        taken.take(rate, now, 1);
        Ok(())
    }

    /// Who may call.
    pub(crate) fn guard(&self) -> &Guard {
        &self.0.parts.guard
    }

    /// Which addresses webhooks may reach.
    pub(super) fn addresses(&self) -> &AddressPolicy {
        &self.0.parts.addresses
    }

    /// The bounds.
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.parts.limits
    }

    /// Backups of the store.
    pub(crate) fn backups(&self) -> &Backups {
        &self.0.parts.backups
    }

    /// The recorder behind `/metrics`.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.parts.metrics
    }

    /// Metrics of the routes.
    pub(crate) fn routes(&self) -> &Routes {
        &self.0.routes
    }

    /// Held while a namespace is read, changed and written back, and while one is put or deleted:
    /// the store has no call that changes one field.
    pub(crate) fn patches(&self) -> &Mutex<()> {
        &self.0.patches
    }

    /// The present time, for what a caller leaves out.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.parts.clock.now()
    }

    /// An id for a timer whose caller chose none.
    pub(crate) fn make_id(&self) -> TimerId {
        let mut random = [0; 10];
        rand::rng().fill_bytes(&mut random);
        TimerId::generate(self.0.parts.clock.now(), random)
    }

    /// The memory of bodies and answers.
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The memory of answers of the service's own paths.
    pub(crate) fn probes(&self) -> &Budget {
        &self.0.probes
    }

    /// The memory of health checks over gRPC.
    pub(crate) fn health(&self) -> &Budget {
        &self.0.health
    }

    /// The server is about to stop: streams without an end of their own end here.
    pub fn stop(&self) {
        self.0.stopping.send_replace(Stopping::Now);
    }

    /// Done when the server is about to stop.
    pub(crate) async fn stopping(&self) {
        // The sender lives as long as this.
        self.0.stopping.subscribe().wait_for(|now| *now == Stopping::Now).await.ok();
    }

    /// Whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow() == Stopping::Now
    }
}
