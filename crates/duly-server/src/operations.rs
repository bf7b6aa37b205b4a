//! The one table of operations: names, paths, rights, kinds, time limits, and repetitions.
//!
//! Each route of HTTP and each method of gRPC has a row: both fronts refuse a call that has none, and tests compare the
//! table with the routers and the descriptors. Rights, time limits, names in the audit log, `Allow`, and the `x-duly-…` fields of the OpenAPI
//! document are read from it.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use duly_api::lease::LEASE_WAIT_MAX;
use duly_core::access::Action::{
    self, Consume, Keys, Metrics, Namespace, Operate, Read, Schedule, Store, Transfer,
};
use http::Method;
use serde::Serialize;

/// Path of the health.
pub(crate) const HEALTHZ: &str = "/healthz";
/// Path of the readiness.
pub(crate) const READYZ: &str = "/readyz";
/// Path of the metrics.
pub(crate) const METRICS: &str = "/metrics";

/// Time limit of a backup or a repair, which may take long.
const BACKUP_MAX: Duration = Duration::from_secs(24 * 3_600);

/// An operation of the service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Name: that of the OpenAPI document.
    pub(crate) name: &'static str,
    /// Method and path of HTTP; `None`: gRPC alone has the operation.
    pub(crate) http: Option<(&'static str, &'static str)>,
    /// Path of gRPC; `None`: HTTP alone has the operation.
    pub(crate) grpc: Option<&'static str>,
    /// The right that a caller needs. A batch needs more for some of its items, and a namespace that a call creates
    /// implicitly needs `namespace`.
    pub(crate) right: Right,
    /// Kind.
    pub(crate) kind: CallKind,
    /// Time limit of the response.
    pub(crate) time_limit: TimeLimit,
    /// Effect of a repetition.
    pub(crate) repeat: Repeat,
    /// `true`: a call may be a dry run, which changes nothing.
    pub(crate) dry_run: bool,
    /// `true`: a call that does nothing but revoke a key passes while the audit log cannot be written.
    pub(crate) may_revoke: bool,
}

/// The right that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// None, not even a key.
    Open,
    /// Any valid key.
    AnyKey,
    /// An action.
    Needs(Action),
    /// Every action: no operation has this method.
    NeedsAll,
}

/// The kind of call that a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A call that changes nothing and can still be refused when its response is ready.
    Read,
    /// A change: once made, it cannot be refused any more.
    Change,
    /// Metrics, which must respond even when callers have filled the memory.
    Probe,
    /// Health and readiness, and what a browser asks before a call: short responses that are never refused.
    Health,
    /// A description of the interface, the same for every caller.
    Static,
}

impl CallKind {
    /// Returns `true` for health, readiness and metrics.
    pub(crate) const fn is_probe(self) -> bool {
        matches!(self, Self::Health | Self::Probe)
    }
}

/// The time limit of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TimeLimit {
    /// `server.request_timeout`.
    Usual,
    /// `server.request_timeout` and the longest wait of a lease call.
    Lease,
    /// A day.
    Backup,
    /// None.
    Stream,
}

/// The effect of a repetition of a call whose response was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Repeat {
    /// A second time does no harm.
    Yes,
    /// A second time may do harm.
    No,
    /// A schedule with an id, of its body or of `Idempotency-Key`, is made once.
    IfId,
    /// A call with `if_revision` is made at most once.
    IfRevision,
    /// A batch whose items are schedules and cancels, each with an id of its own, can be repeated.
    IfItems,
    /// A dry run can be repeated.
    IfDryRun,
    /// Settlements can be repeated. The firings that the call leases would be others.
    WithoutLease,
}

impl TimeLimit {
    /// Returns the time limit, from the one of a usual request; `None` for a stream.
    pub(crate) fn within(self, usual: Duration) -> Option<Duration> {
        match self {
            Self::Usual => Some(usual),
            Self::Lease => Some(usual.saturating_add(LEASE_WAIT_MAX.to_std())),
            Self::Backup => Some(BACKUP_MAX),
            Self::Stream => None,
        }
    }
}

impl Right {
    /// Returns the name for readers of the OpenAPI document.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::AnyKey => "any_key",
            Self::Needs(action) => action.as_str(),
            Self::NeedsAll => "all",
        }
    }
}

impl Operation {
    const fn new(name: &'static str, right: Right, kind: CallKind) -> Self {
        Self {
            name,
            http: None,
            grpc: None,
            right,
            kind,
            time_limit: TimeLimit::Usual,
            repeat: Repeat::Yes,
            dry_run: false,
            may_revoke: false,
        }
    }

    const fn http(self, method: &'static str, path: &'static str) -> Self {
        Self { http: Some((method, path)), ..self }
    }

    const fn grpc(self, path: &'static str) -> Self {
        Self { grpc: Some(path), ..self }
    }

    const fn within(self, time_limit: TimeLimit) -> Self {
        Self { time_limit, ..self }
    }

    const fn repeat(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// Lets a call be a dry run. Another call cannot be repeated.
    const fn dry_run(self) -> Self {
        Self { dry_run: true, repeat: Repeat::IfDryRun, ..self }
    }

    const fn may_revoke(self) -> Self {
        Self { may_revoke: true, ..self }
    }
}

const fn reads(name: &'static str, action: Action) -> Operation {
    Operation::new(name, Right::Needs(action), CallKind::Read)
}

const fn changes(name: &'static str, action: Action) -> Operation {
    Operation::new(name, Right::Needs(action), CallKind::Change)
}

/// The operations.
pub(crate) static OPERATIONS: [Operation; 49] = [
    changes("schedule_timer", Schedule)
        .http("POST", "/v1/namespaces/{namespace}/timers")
        .grpc("/duly.v1.Timers/Schedule")
        .repeat(Repeat::IfId),
    reads("list_timers", Read)
        .http("GET", "/v1/namespaces/{namespace}/timers")
        .grpc("/duly.v1.Timers/List"),
    reads("get_timer", Read)
        .http("GET", "/v1/namespaces/{namespace}/timers/{id}")
        .grpc("/duly.v1.Timers/Get"),
    changes("reschedule_timer", Schedule)
        .http("PATCH", "/v1/namespaces/{namespace}/timers/{id}")
        .grpc("/duly.v1.Timers/Reschedule")
        .repeat(Repeat::IfRevision),
    changes("cancel_timer", Schedule)
        .http("DELETE", "/v1/namespaces/{namespace}/timers/{id}")
        .grpc("/duly.v1.Timers/Cancel"),
    changes("fire_timer", Operate)
        .http("POST", "/v1/namespaces/{namespace}/timers/{id}/fire")
        .grpc("/duly.v1.Timers/Fire")
        .repeat(Repeat::No),
    changes("forget_timer", Operate)
        .http("POST", "/v1/namespaces/{namespace}/timers/{id}/forget")
        .grpc("/duly.v1.Timers/Forget")
        .repeat(Repeat::No),
    changes("batch", Schedule)
        .http("POST", "/v1/namespaces/{namespace}/batch")
        .grpc("/duly.v1.Timers/Batch")
        .repeat(Repeat::IfItems),
    changes("cancel_by_filter", Operate)
        .http("POST", "/v1/namespaces/{namespace}/cancel")
        .grpc("/duly.v1.Timers/CancelMany")
        .dry_run(),
    changes("lease", Consume)
        .http("POST", "/v1/namespaces/{namespace}/lease")
        .grpc("/duly.v1.Timers/Lease")
        .within(TimeLimit::Lease)
        .repeat(Repeat::No),
    changes("settle", Consume)
        .http("POST", "/v1/namespaces/{namespace}/settle")
        .grpc("/duly.v1.Timers/Settle")
        .within(TimeLimit::Lease)
        .repeat(Repeat::WithoutLease),
    changes("consume", Consume)
        .grpc("/duly.v1.Timers/Consume")
        .within(TimeLimit::Stream)
        .repeat(Repeat::No),
    changes("redrive", Operate)
        .http("POST", "/v1/namespaces/{namespace}/dead/redrive")
        .grpc("/duly.v1.Timers/Redrive")
        .repeat(Repeat::No),
    changes("purge", Operate)
        .http("POST", "/v1/namespaces/{namespace}/dead/purge")
        .grpc("/duly.v1.Timers/Purge")
        .repeat(Repeat::No),
    changes("dead_letter_overdue", Operate)
        .http("POST", "/v1/namespaces/{namespace}/dead/overdue")
        .grpc("/duly.v1.Timers/DeadLetterOverdue")
        .repeat(Repeat::No),
    reads("export_timers", Transfer).http("GET", "/v1/namespaces/{namespace}/export"),
    changes("import_timers", Transfer).http("POST", "/v1/namespaces/{namespace}/import"),
    reads("list_namespaces", Read).http("GET", "/v1/namespaces").grpc("/duly.v1.Namespaces/List"),
    reads("get_namespace", Read)
        .http("GET", "/v1/namespaces/{namespace}")
        .grpc("/duly.v1.Namespaces/Get"),
    changes("put_namespace", Namespace)
        .http("PUT", "/v1/namespaces/{namespace}")
        .grpc("/duly.v1.Namespaces/Put"),
    changes("patch_namespace", Namespace)
        .http("PATCH", "/v1/namespaces/{namespace}")
        .grpc("/duly.v1.Namespaces/Patch"),
    changes("delete_namespace", Namespace)
        .http("DELETE", "/v1/namespaces/{namespace}")
        .grpc("/duly.v1.Namespaces/Delete")
        .repeat(Repeat::No),
    changes("pause_namespace", Operate)
        .http("POST", "/v1/namespaces/{namespace}/pause")
        .grpc("/duly.v1.Namespaces/Pause"),
    changes("resume_namespace", Operate)
        .http("POST", "/v1/namespaces/{namespace}/resume")
        .grpc("/duly.v1.Namespaces/Resume"),
    changes("repair_namespace", Store)
        .http("POST", "/v1/namespaces/{namespace}/repair")
        .grpc("/duly.v1.Namespaces/Repair")
        .repeat(Repeat::No),
    reads("namespace_stats", Read)
        .http("GET", "/v1/namespaces/{namespace}/stats")
        .grpc("/duly.v1.Namespaces/Stats"),
    reads("namespace_forecast", Read)
        .http("GET", "/v1/namespaces/{namespace}/forecast")
        .grpc("/duly.v1.Namespaces/Forecast"),
    reads("cluster", Store).http("GET", "/v1/cluster").grpc("/duly.v1.Cluster/Get"),
    changes("backup", Store)
        .http("POST", "/v1/store/backup")
        .within(TimeLimit::Backup)
        .repeat(Repeat::No),
    changes("repair", Store)
        .http("POST", "/v1/store/repair")
        .within(TimeLimit::Backup)
        .repeat(Repeat::No),
    changes("create_key", Keys).http("POST", "/v1/keys").repeat(Repeat::No),
    reads("list_keys", Keys).http("GET", "/v1/keys"),
    reads("get_key", Keys).http("GET", "/v1/keys/{id}"),
    changes("patch_key", Keys).http("PATCH", "/v1/keys/{id}").may_revoke(),
    changes("delete_key", Keys).http("DELETE", "/v1/keys/{id}").may_revoke(),
    changes("rotate_key", Keys).http("POST", "/v1/keys/{id}/rotate").repeat(Repeat::No),
    reads("list_tenants", Keys).http("GET", "/v1/tenants"),
    reads("get_tenant", Keys).http("GET", "/v1/tenants/{tenant}"),
    changes("put_tenant", Keys).http("PUT", "/v1/tenants/{tenant}"),
    changes("delete_tenant", Keys).http("DELETE", "/v1/tenants/{tenant}").repeat(Repeat::No),
    reads("list_audit", Keys).http("GET", "/v1/audit"),
    Operation::new("whoami", Right::AnyKey, CallKind::Read)
        .http("GET", "/v1/whoami")
        .grpc("/duly.v1.Cluster/Whoami"),
    Operation::new("healthz", Right::Open, CallKind::Health)
        .http("GET", HEALTHZ)
        .grpc("/grpc.health.v1.Health/Check"),
    Operation::new("watch_health", Right::Open, CallKind::Health)
        .grpc("/grpc.health.v1.Health/Watch")
        .within(TimeLimit::Stream),
    Operation::new("readyz", Right::Open, CallKind::Health).http("GET", READYZ),
    Operation::new("metrics", Right::Needs(Metrics), CallKind::Probe).http("GET", METRICS),
    Operation::new("openapi", Right::Open, CallKind::Static).http("GET", "/openapi.json"),
    Operation::new("reflection", Right::Needs(Metrics), CallKind::Static)
        .grpc("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        .within(TimeLimit::Stream),
    Operation::new("reflection_v1alpha", Right::Needs(Metrics), CallKind::Static)
        .grpc("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        .within(TimeLimit::Stream),
];

/// A call of a path that does not exist. It needs a key and no right.
pub(crate) static UNKNOWN_PATH: Operation =
    Operation::new("unmatched", Right::AnyKey, CallKind::Static);
/// A call of a path that does not have the method, or of a route that the table does not have.
pub(crate) static WRONG_METHOD: Operation =
    Operation::new("wrong_method", Right::NeedsAll, CallKind::Static);

/// A browser's question about a call of another origin. It is sent without a key.
pub(crate) static PREFLIGHT: Operation = Operation::new("preflight", Right::Open, CallKind::Health);

/// Returns the operation of HTTP with a method and a route.
pub(crate) fn of_http(method: &Method, route: &str) -> &'static Operation {
    static ROUTES: LazyLock<HashMap<&str, Vec<&Operation>>> = LazyLock::new(|| {
        let mut routes: HashMap<_, Vec<_>> = HashMap::new();
        for operation in &OPERATIONS {
            if let Some((_, path)) = operation.http {
                routes.entry(path).or_default().push(operation);
            }
        }
        routes
    });
    let Some(operations) = ROUTES.get(route) else { return &WRONG_METHOD };
    // A HEAD is a GET without its body.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let has_method = |it: &&&Operation| it.http.is_some_and(|(own, _)| own == method.as_str());
    operations.iter().find(has_method).copied().unwrap_or(&WRONG_METHOD)
}

/// Returns the routes of HTTP.
pub(crate) fn routes() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().filter_map(|operation| operation.http).map(|(_, route)| route)
}

/// Returns the operation of a method of gRPC, if there is one.
pub(crate) fn of_grpc(path: &str) -> Option<&'static Operation> {
    static METHODS: LazyLock<HashMap<&str, &Operation>> = LazyLock::new(|| {
        let methods = OPERATIONS.iter().filter_map(|operation| Some((operation.grpc?, operation)));
        methods.collect()
    });
    METHODS.get(path).copied()
}

/// Returns the methods of a route, as `Allow` lists them.
pub(crate) fn methods_of(route: &str) -> Option<String> {
    let methods = OPERATIONS.iter().filter_map(|operation| operation.http);
    let mut methods: Vec<_> =
        methods.filter(|(_, path)| *path == route).map(|(method, _)| method).collect();
    methods.sort_by_key(|method| {
        ["GET", "POST", "PUT", "PATCH", "DELETE"].iter().position(|it| it == method)
    });
    if let Some(place) = methods.iter().position(|method| *method == "GET") {
        methods.insert(place + 1, "HEAD");
    }
    Some(methods.join(", ")).filter(|text| !text.is_empty())
}

/// Returns the paths of health, readiness and metrics over HTTP.
pub(crate) fn probe_paths() -> impl Iterator<Item = &'static str> {
    let probes = OPERATIONS.iter().filter(|operation| operation.kind.is_probe());
    probes.filter_map(|operation| operation.http).map(|(_, path)| path)
}

/// Returns `true` for the path of health, readiness or metrics, over HTTP or gRPC.
pub(crate) fn is_probe(path: &str) -> bool {
    probe_paths().any(|probe| probe == path) || of_grpc(path).is_some_and(|it| it.kind.is_probe())
}

#[cfg(test)]
mod tests;
