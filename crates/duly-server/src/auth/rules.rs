//! The one table of operations and the rights that they need.

use duly_core::access::Action::{
    self, Consume, Keys, Metrics, Namespace, Operate, Read, Schedule, Store, Transfer,
};
use http::Method;

/// The right that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// None, not even a key.
    Open,
    /// Any valid key.
    AnyKey,
    /// An action.
    Needs(Action),
    /// Every action: the operation has no row.
    NeedsAll,
}

/// The operations of HTTP. A batch needs more for some of its operations, and a namespace that a call
/// creates implicitly needs `namespace`.
pub(super) const HTTP: &[(&str, &str, Rule)] = &[
    ("POST", "/v1/namespaces/{namespace}/timers", Rule::Needs(Schedule)),
    ("GET", "/v1/namespaces/{namespace}/timers", Rule::Needs(Read)),
    ("GET", "/v1/namespaces/{namespace}/timers/{id}", Rule::Needs(Read)),
    ("PATCH", "/v1/namespaces/{namespace}/timers/{id}", Rule::Needs(Schedule)),
    ("DELETE", "/v1/namespaces/{namespace}/timers/{id}", Rule::Needs(Schedule)),
    ("POST", "/v1/namespaces/{namespace}/timers/{id}/fire", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/timers/{id}/forget", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/batch", Rule::Needs(Schedule)),
    ("POST", "/v1/namespaces/{namespace}/cancel", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/lease", Rule::Needs(Consume)),
    ("POST", "/v1/namespaces/{namespace}/settle", Rule::Needs(Consume)),
    ("POST", "/v1/namespaces/{namespace}/dead/redrive", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/dead/purge", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/dead/overdue", Rule::Needs(Operate)),
    ("GET", "/v1/namespaces/{namespace}/export", Rule::Needs(Transfer)),
    ("POST", "/v1/namespaces/{namespace}/import", Rule::Needs(Transfer)),
    ("GET", "/v1/namespaces", Rule::Needs(Read)),
    ("GET", "/v1/namespaces/{namespace}", Rule::Needs(Read)),
    ("PUT", "/v1/namespaces/{namespace}", Rule::Needs(Namespace)),
    ("PATCH", "/v1/namespaces/{namespace}", Rule::Needs(Namespace)),
    ("DELETE", "/v1/namespaces/{namespace}", Rule::Needs(Namespace)),
    ("POST", "/v1/namespaces/{namespace}/pause", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/resume", Rule::Needs(Operate)),
    ("POST", "/v1/namespaces/{namespace}/repair", Rule::Needs(Store)),
    ("GET", "/v1/namespaces/{namespace}/stats", Rule::Needs(Read)),
    ("GET", "/v1/namespaces/{namespace}/forecast", Rule::Needs(Read)),
    ("GET", "/v1/cluster", Rule::Needs(Store)),
    ("POST", "/v1/store/backup", Rule::Needs(Store)),
    ("POST", "/v1/store/repair", Rule::Needs(Store)),
    ("POST", "/v1/keys", Rule::Needs(Keys)),
    ("GET", "/v1/keys", Rule::Needs(Keys)),
    ("GET", "/v1/keys/{id}", Rule::Needs(Keys)),
    ("PATCH", "/v1/keys/{id}", Rule::Needs(Keys)),
    ("DELETE", "/v1/keys/{id}", Rule::Needs(Keys)),
    ("POST", "/v1/keys/{id}/rotate", Rule::Needs(Keys)),
    ("GET", "/v1/tenants", Rule::Needs(Keys)),
    ("GET", "/v1/tenants/{tenant}", Rule::Needs(Keys)),
    ("PUT", "/v1/tenants/{tenant}", Rule::Needs(Keys)),
    ("DELETE", "/v1/tenants/{tenant}", Rule::Needs(Keys)),
    ("GET", "/v1/audit", Rule::Needs(Keys)),
    ("GET", "/v1/whoami", Rule::AnyKey),
    ("GET", "/healthz", Rule::Open),
    ("GET", "/readyz", Rule::Open),
    ("GET", "/metrics", Rule::Needs(Metrics)),
    ("GET", "/openapi.json", Rule::Open),
];

/// The methods of gRPC.
pub(super) const GRPC: &[(&str, Rule)] = &[
    ("/duly.v1.Timers/Schedule", Rule::Needs(Schedule)),
    ("/duly.v1.Timers/Get", Rule::Needs(Read)),
    ("/duly.v1.Timers/Reschedule", Rule::Needs(Schedule)),
    ("/duly.v1.Timers/Cancel", Rule::Needs(Schedule)),
    ("/duly.v1.Timers/Fire", Rule::Needs(Operate)),
    ("/duly.v1.Timers/List", Rule::Needs(Read)),
    ("/duly.v1.Timers/Batch", Rule::Needs(Schedule)),
    ("/duly.v1.Timers/Lease", Rule::Needs(Consume)),
    ("/duly.v1.Timers/Settle", Rule::Needs(Consume)),
    ("/duly.v1.Timers/Consume", Rule::Needs(Consume)),
    ("/duly.v1.Timers/CancelMany", Rule::Needs(Operate)),
    ("/duly.v1.Timers/Redrive", Rule::Needs(Operate)),
    ("/duly.v1.Timers/Purge", Rule::Needs(Operate)),
    ("/duly.v1.Timers/Forget", Rule::Needs(Operate)),
    ("/duly.v1.Timers/DeadLetterOverdue", Rule::Needs(Operate)),
    ("/duly.v1.Namespaces/Put", Rule::Needs(Namespace)),
    ("/duly.v1.Namespaces/Patch", Rule::Needs(Namespace)),
    ("/duly.v1.Namespaces/Get", Rule::Needs(Read)),
    ("/duly.v1.Namespaces/List", Rule::Needs(Read)),
    ("/duly.v1.Namespaces/Delete", Rule::Needs(Namespace)),
    ("/duly.v1.Namespaces/Pause", Rule::Needs(Operate)),
    ("/duly.v1.Namespaces/Resume", Rule::Needs(Operate)),
    ("/duly.v1.Namespaces/Repair", Rule::Needs(Store)),
    ("/duly.v1.Namespaces/Stats", Rule::Needs(Read)),
    ("/duly.v1.Namespaces/Forecast", Rule::Needs(Read)),
    ("/duly.v1.Cluster/Get", Rule::Needs(Store)),
    ("/grpc.health.v1.Health/Check", Rule::Open),
    ("/grpc.health.v1.Health/Watch", Rule::Open),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Rule::Needs(Metrics)),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Rule::Needs(Metrics)),
];

/// Returns the rule of an operation of HTTP.
pub(crate) fn http(method: &Method, route: &str) -> Rule {
    // A HEAD is a GET without its body.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let row = HTTP.iter().find(|(known, path, _)| *path == route && *known == method.as_str());
    row.map_or(Rule::NeedsAll, |(_, _, rule)| *rule)
}

/// Returns the rule of a method of gRPC.
pub(crate) fn grpc(path: &str) -> Rule {
    let row = GRPC.iter().find(|(known, _)| *known == path);
    row.map_or(Rule::NeedsAll, |(_, rule)| *rule)
}
