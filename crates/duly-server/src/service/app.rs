//! The shared state of the handlers: the store, the node, the clock, the bounds. Before the store is open, the state
//! of the start.

use std::{ops::Deref, sync::Arc, time::Duration};

use duly_api::cluster::Recovery;
use duly_core::{
    Code, Millis, Settings, Timestamp,
    access::TenantLimits,
    env::Clock,
    rate::{Gcra, Rate},
};
use duly_sink::http::AddressPolicy;
use duly_store::Store;
use http::HeaderMap;
use tokio::sync::{Mutex, watch};

use super::Backups;
use crate::{
    audit::Audit,
    auth::{Auth, Caller, Peer},
    guard::Guard,
    memory::budget::Budget,
    operations::{CallKind, Operation, Right},
    problem::Problem,
    telemetry::{Metrics, Routes},
    tenants::{CallGroup, ConnectionSlot},
};

/// Bytes of all responses of the service's own paths at once, such as `/metrics`. They have a budget of
/// their own: `/metrics` still responds when callers have filled theirs.
const PROBES_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of all health checks over gRPC at once.
const HEALTH_BYTES_MAX: usize = 1024 * 1024;

/// Burst of implicitly created namespaces, in seconds of their rate.
const IMPLICIT_BURST_SECONDS: u32 = 10;

/// Reaction to a schedule into a namespace that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImplicitNamespaces {
    /// The schedule creates the namespace.
    Create,
    /// The schedule is refused.
    Refuse,
}

/// Bounds of the HTTP interface.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one body.
    pub body_bytes_max: usize,
    /// Bytes of all bodies at once, those of responses included.
    pub request_memory_max: usize,
    /// Time to respond to a request, without the wait of a lease call.
    pub request_timeout: Duration,
    /// Namespaces that schedules create, in a second.
    pub implicit_namespaces_per_second: u32,
    /// The maxima of this server, which limits of tenants cannot exceed.
    pub tenant_limits_max: TenantLimits,
}

/// Parts that an [`App`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The node that delivers firings.
    pub node: duly_node::Handle,
    /// The clock for the current time and for new ids.
    pub clock: Arc<dyn Clock>,
    /// Reaction to a schedule into a namespace that does not exist.
    pub implicit_namespaces: ImplicitNamespaces,
    /// Settings of a namespace that sets none.
    pub defaults: Settings,
    /// The rules for callers.
    pub guard: Guard,
    /// The keys of callers.
    pub auth: Auth,
    /// The audit log.
    pub audit: Audit,
    /// The addresses that webhooks may reach.
    pub addresses: AddressPolicy,
    /// Bounds.
    pub limits: Limits,
    /// Backups of the store.
    pub backups: Backups,
    /// The recorder behind `/metrics`.
    pub metrics: Metrics,
}

/// The shared state of the handlers; cheap to clone.
#[derive(Debug, Clone)]
pub struct App(Arc<Inner>);

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}

#[derive(Debug)]
struct Inner {
    parts: Parts,
    routes: Routes,
    budget: Budget,
    probes: Budget,
    health: Budget,
    stopping: watch::Sender<bool>,
    patches: Mutex<()>,
    /// Use of the rate at which schedules create namespaces.
    implicit: parking_lot::Mutex<Gcra>,
}

impl App {
    /// Creates the state from its parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            budget: Budget::new(parts.limits.request_memory_max),
            probes: Budget::new(PROBES_BYTES_MAX),
            health: Budget::new(HEALTH_BYTES_MAX),
            stopping: watch::Sender::new(false),
            routes: Routes::default(),
            patches: Mutex::new(()),
            implicit: parking_lot::Mutex::default(),
            parts,
        }))
    }

    /// Admits one implicitly created namespace.
    ///
    /// # Errors
    /// The time to wait.
    pub(super) fn admit_implicit(&self) -> Result<(), Millis> {
        let per_second = self.limits.implicit_namespaces_per_second;
        let rate = Rate::new(per_second, per_second.saturating_mul(IMPLICIT_BURST_SECONDS));
        let now = self.clock.boot();
        let mut taken = self.0.implicit.lock();
        if taken.available(rate, now) == 0 {
            return Err(Millis::from_ms(1_000_u64.div_ceil(u64::from(rate.per_second()))));
        }
        taken.take(rate, now, 1);
        Ok(())
    }

    /// Returns the metrics of the routes.
    pub(crate) fn routes(&self) -> &Routes {
        &self.0.routes
    }

    /// Returns the lock of namespace changes: held while a namespace is read, changed and written back,
    /// and while one is put or deleted. The store has no call that changes one field.
    pub(super) fn patches(&self) -> &Mutex<()> {
        &self.0.patches
    }

    /// Returns the current time, for values that a caller leaves out.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the memory budget of requests and responses of a caller.
    pub(crate) fn budget_of(&self, caller: &Caller) -> Budget {
        let part = caller.tenant().and_then(|tenant| tenant.budget(&self.0.budget));
        part.unwrap_or_else(|| self.0.budget.clone())
    }

    /// Returns the caller of a request, who has a valid key or needs none. A failed proof is not counted.
    ///
    /// # Errors
    /// `unauthenticated` without a valid key; another code if this node cannot look at keys.
    pub(crate) fn caller_of(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Problem> {
        if !self.auth.is_required() {
            return Ok(Caller::Anyone);
        }
        let peer = self.guard.behind_proxies(peer.clone(), headers);
        self.auth.authenticate(headers, peer, self.now())
    }

    /// Admits a call on a connection within the limits of the caller's tenant. Health is always admitted. Metrics,
    /// `whoami` and paths that do not exist use none of the tenant's connections, and have a rate of their own.
    pub(crate) fn check_tenant(
        &self,
        operation: &Operation,
        caller: &Caller,
        connection: &ConnectionSlot,
    ) -> Result<(), Problem> {
        let Some(tenant) = caller.tenant() else { return Ok(()) };
        let group = match (operation.right, operation.kind) {
            (Right::Open, _) => return Ok(()),
            (Right::AnyKey, _) | (_, CallKind::Probe | CallKind::Static) => CallGroup::Others,
            _ => CallGroup::Operations,
        };
        if group == CallGroup::Operations {
            connection.admit(tenant)?;
        }
        tenant.admit_call(group, self.clock.boot())
    }

    /// Returns the memory budget of responses of the service's own paths.
    pub(crate) fn probes(&self) -> &Budget {
        &self.0.probes
    }

    /// Returns the memory budget of health checks over gRPC.
    pub(crate) fn health(&self) -> &Budget {
        &self.0.health
    }

    /// Announces the stop of the server: streams without an end of their own end.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Waits until the server is about to stop.
    pub(crate) async fn stopping(&self) {
        // The sender lives as long as `self`.
        self.0.stopping.subscribe().wait_for(|now| *now).await.ok();
    }

    /// Returns `true` if the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }
}

/// The step of the startup that the server waits for.
#[derive(Debug, Clone)]
pub(crate) struct StartupProgress {
    /// The step as a sentence without its full stop.
    pub(crate) sentence: String,
    /// The progress, once something is read.
    pub(crate) progress: Option<Recovery>,
}

/// State for requests while the store opens; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StartupState {
    /// The rules for callers.
    pub(crate) guard: Guard,
    /// The step that the server waits for.
    pub(crate) progress: watch::Receiver<StartupProgress>,
    /// The recorder behind `/metrics`.
    pub(crate) metrics: Metrics,
    /// `true`: callers need a key, and the keys are not known yet. No caller gets reasons or metrics.
    pub(crate) is_guarded: bool,
}

impl StartupState {
    /// Returns the problem of a call that needs the store.
    pub(crate) fn not_yet(&self) -> Problem {
        let mut detail = "the server is starting".to_owned();
        if !self.is_guarded {
            detail.push_str(": ");
            detail.push_str(&self.progress.borrow().sentence);
        }
        detail.push_str("; nothing was done, repeat the call");
        Problem::temporary(Code::Unavailable, detail)
    }
}
