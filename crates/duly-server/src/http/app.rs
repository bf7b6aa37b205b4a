//! What the handlers share: the store, the node, the clock, the bounds.

use std::{sync::Arc, time::Duration};

use duly_core::{TimerId, Timestamp, env::Clock};
use duly_store::Store;
use rand::RngCore;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::{
    Backups, Problem,
    body::{SHARE_BYTES, no_share},
    guard::Guard,
};
use crate::telemetry::{Metrics, Routes};

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
    /// Bytes of all large bodies at once.
    pub bodies_bytes_max: usize,
    /// Time to answer a request, the wait of a lease call excluded.
    pub request_timeout: Duration,
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

#[derive(Debug)]
struct Inner {
    parts: Parts,
    routes: Routes,
    bodies: Arc<Semaphore>,
    patches: Mutex<()>,
}

impl App {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        let shares = parts.limits.bodies_bytes_max / SHARE_BYTES;
        Self(Arc::new(Inner {
            bodies: Arc::new(Semaphore::new(shares.min(Semaphore::MAX_PERMITS))),
            routes: Routes::default(),
            patches: Mutex::new(()),
            parts,
        }))
    }

    /// The store.
    pub(super) fn store(&self) -> &dyn Store {
        &*self.0.parts.store
    }

    /// The node.
    pub(super) fn node(&self) -> &duly_node::Handle {
        &self.0.parts.node
    }

    /// Whether namespaces come into being by themselves.
    pub(super) fn implicit_namespaces(&self) -> ImplicitNamespaces {
        self.0.parts.implicit_namespaces
    }

    /// Who may call.
    pub(super) fn guard(&self) -> &Guard {
        &self.0.parts.guard
    }

    /// The bounds.
    pub(super) fn limits(&self) -> &Limits {
        &self.0.parts.limits
    }

    /// Backups of the store.
    pub(super) fn backups(&self) -> &Backups {
        &self.0.parts.backups
    }

    /// The recorder behind `/metrics`.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.parts.metrics
    }

    /// Metrics of the routes.
    pub(super) fn routes(&self) -> &Routes {
        &self.0.routes
    }

    /// Held while a namespace is read, changed and written back, and while one is put or deleted:
    /// the store has no call that changes one field.
    pub(super) fn patches(&self) -> &Mutex<()> {
        &self.0.patches
    }

    /// The present time, for what a caller leaves out.
    pub(super) fn now(&self) -> Timestamp {
        self.0.parts.clock.now()
    }

    /// An id for a timer whose caller chose none.
    pub(super) fn make_id(&self) -> TimerId {
        let mut random = [0; 10];
        rand::rng().fill_bytes(&mut random);
        TimerId::generate(self.0.parts.clock.now(), random)
    }

    /// A share of the memory for large bodies.
    pub(super) fn share_of_bodies(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let shares = u32::try_from(bytes.div_ceil(SHARE_BYTES)).map_err(|_| no_share())?;
        Arc::clone(&self.0.bodies).try_acquire_many_owned(shares).map_err(|_| no_share())
    }
}
