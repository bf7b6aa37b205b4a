//! The table of gRPC methods: the time limit of each, and its kind of call.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use duly_api::{lease::LEASE_WAIT_MAX, v1::FILE_DESCRIPTOR_SET};
use prost::Message;
use prost_types::FileDescriptorSet;

use crate::http::{App, CallKind};

/// A method of a service.
#[derive(Debug)]
pub(super) struct MethodInfo {
    /// Path, which is the name in metrics.
    pub(super) path: String,
    /// The kind of call.
    pub(super) kind: CallKind,
    /// The kind of time limit.
    pub(super) time_limit: TimeLimit,
}

/// Time limit of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeLimit {
    /// The time limit of a request.
    Usual,
    /// The time limit of a request and the wait of a lease.
    Lease,
    /// No limit.
    Stream,
}

/// Returns the method at a path, if there is one.
pub(super) fn find(path: &str) -> Option<&'static MethodInfo> {
    static METHODS: LazyLock<HashMap<String, MethodInfo>> = LazyLock::new(all);
    METHODS.get(path)
}

/// Returns the paths of all methods, sorted.
#[cfg(test)]
pub(crate) fn paths() -> Vec<String> {
    let mut paths: Vec<_> = all().into_keys().collect();
    paths.sort();
    paths
}

impl MethodInfo {
    /// Returns the time limit of the response; `None` for a stream.
    pub(super) fn limit(&self, app: &App) -> Option<Duration> {
        let limit = app.limits.request_timeout;
        match self.time_limit {
            TimeLimit::Usual => Some(limit),
            TimeLimit::Lease => Some(limit.saturating_add(LEASE_WAIT_MAX.to_std())),
            TimeLimit::Stream => None,
        }
    }
}

fn all() -> HashMap<String, MethodInfo> {
    let mut all = HashMap::new();
    for encoded in [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        let set = FileDescriptorSet::decode(encoded).expect("the committed descriptors are whole");
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let streams = method.server_streaming() || method.client_streaming();
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let time_limit = match path.as_str() {
                        _ if streams => TimeLimit::Stream,
                        "/duly.v1.Timers/Lease" | "/duly.v1.Timers/Settle" => TimeLimit::Lease,
                        _ => TimeLimit::Usual,
                    };
                    let kind = call_kind(&path);
                    all.insert(path.clone(), MethodInfo { path, kind, time_limit });
                }
            }
        }
    }
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let method = MethodInfo { path, kind: CallKind::Probe, time_limit: TimeLimit::Stream };
        all.insert(method.path.clone(), method);
    }
    all
}

/// Returns the kind of call. Every method that is not known to read is a change, like every HTTP method
/// except GET.
fn call_kind(path: &str) -> CallKind {
    match path {
        "/duly.v1.Timers/Get"
        | "/duly.v1.Timers/List"
        | "/duly.v1.Namespaces/Get"
        | "/duly.v1.Namespaces/List"
        | "/duly.v1.Namespaces/Stats"
        | "/duly.v1.Namespaces/Forecast"
        | "/duly.v1.Cluster/Get" => CallKind::Reading,
        _ if path.starts_with("/duly.v1.") => CallKind::Change,
        _ if path.starts_with("/grpc.health.v1.") => CallKind::Health,
        _ => CallKind::Probe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_count_as_changes() {
        for (path, kind) in [
            ("/duly.v1.Timers/Get", CallKind::Reading),
            ("/duly.v1.Namespaces/Forecast", CallKind::Reading),
            ("/duly.v1.Cluster/Get", CallKind::Reading),
            ("/duly.v1.Timers/Schedule", CallKind::Change),
            ("/duly.v1.Timers/Lease", CallKind::Change),
            ("/duly.v1.Timers/Consume", CallKind::Change),
            ("/grpc.health.v1.Health/Check", CallKind::Health),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", CallKind::Probe),
        ] {
            assert_eq!(find(path).map(|method| method.kind), Some(kind), "{path}");
        }
    }

    #[test]
    fn streams_have_no_limit_and_a_lease_may_wait() {
        for (path, time_limit) in [
            ("/duly.v1.Timers/Schedule", TimeLimit::Usual),
            ("/duly.v1.Timers/Lease", TimeLimit::Lease),
            ("/duly.v1.Timers/Settle", TimeLimit::Lease),
            ("/duly.v1.Timers/Consume", TimeLimit::Stream),
            ("/duly.v1.Cluster/Get", TimeLimit::Usual),
            ("/grpc.health.v1.Health/Check", TimeLimit::Usual),
            ("/grpc.health.v1.Health/Watch", TimeLimit::Stream),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", TimeLimit::Stream),
        ] {
            assert_eq!(find(path).map(|method| method.time_limit), Some(time_limit), "{path}");
        }
        assert!(find("/duly.v1.Timers/Nothing").is_none());
    }
}
