//! The table of gRPC methods: the time limit of each, and its kind of call.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use duly_api::{lease::LEASE_WAIT_MAX, v1::FILE_DESCRIPTOR_SET};
use prost::Message;
use prost_types::FileDescriptorSet;

use crate::http::{App, Made};

/// A method of a service.
#[derive(Debug)]
pub(super) struct Known {
    /// Path, which is the name in metrics.
    pub(super) path: String,
    /// The kind of call.
    pub(super) made: Made,
    /// The kind of time limit.
    pub(super) takes: Takes,
}

/// Time limit of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// The time limit of a request.
    Usual,
    /// The time limit of a request and the wait of a lease.
    Lease,
    /// No limit.
    Stream,
}

/// Returns the method at a path, if there is one.
pub(super) fn known(path: &str) -> Option<&'static Known> {
    static KNOWN: LazyLock<HashMap<String, Known>> = LazyLock::new(all);
    KNOWN.get(path)
}

impl Known {
    /// Returns the time limit of the response; `None` for a stream.
    pub(super) fn limit(&self, app: &App) -> Option<Duration> {
        let limit = app.limits().request_timeout;
        match self.takes {
            Takes::Usual => Some(limit),
            Takes::Lease => Some(limit.saturating_add(LEASE_WAIT_MAX.to_std())),
            Takes::Stream => None,
        }
    }
}

fn all() -> HashMap<String, Known> {
    let mut all = HashMap::new();
    for encoded in [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        let set = FileDescriptorSet::decode(encoded).expect("the committed descriptors are whole");
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let streams = method.server_streaming() || method.client_streaming();
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let takes = match path.as_str() {
                        _ if streams => Takes::Stream,
                        "/duly.v1.Timers/Lease" | "/duly.v1.Timers/Settle" => Takes::Lease,
                        _ => Takes::Usual,
                    };
                    let made = made(&path);
                    all.insert(path.clone(), Known { path, made, takes });
                }
            }
        }
    }
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let known = Known { path, made: Made::Probe, takes: Takes::Stream };
        all.insert(known.path.clone(), known);
    }
    all
}

/// Returns the kind of call. Every method that is not known to read is a change, like every HTTP method
/// except GET.
fn made(path: &str) -> Made {
    match path {
        "/duly.v1.Timers/Get"
        | "/duly.v1.Timers/List"
        | "/duly.v1.Namespaces/Get"
        | "/duly.v1.Namespaces/List"
        | "/duly.v1.Namespaces/Stats"
        | "/duly.v1.Namespaces/Forecast"
        | "/duly.v1.Cluster/Get" => Made::Reading,
        _ if path.starts_with("/duly.v1.") => Made::Change,
        _ if path.starts_with("/grpc.health.v1.") => Made::Health,
        _ => Made::Probe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_methods_count_as_changes() {
        for (path, made) in [
            ("/duly.v1.Timers/Get", Made::Reading),
            ("/duly.v1.Namespaces/Forecast", Made::Reading),
            ("/duly.v1.Cluster/Get", Made::Reading),
            ("/duly.v1.Timers/Schedule", Made::Change),
            ("/duly.v1.Timers/Lease", Made::Change),
            ("/duly.v1.Timers/Consume", Made::Change),
            ("/grpc.health.v1.Health/Check", Made::Health),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Made::Probe),
        ] {
            assert_eq!(known(path).map(|known| known.made), Some(made), "{path}");
        }
    }

    #[test]
    fn streams_have_no_limit_and_a_lease_may_wait() {
        for (path, takes) in [
            ("/duly.v1.Timers/Schedule", Takes::Usual),
            ("/duly.v1.Timers/Lease", Takes::Lease),
            ("/duly.v1.Timers/Settle", Takes::Lease),
            ("/duly.v1.Timers/Consume", Takes::Stream),
            ("/duly.v1.Cluster/Get", Takes::Usual),
            ("/grpc.health.v1.Health/Check", Takes::Usual),
            ("/grpc.health.v1.Health/Watch", Takes::Stream),
            ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Takes::Stream),
        ] {
            assert_eq!(known(path).map(|known| known.takes), Some(takes), "{path}");
        }
        assert!(known("/duly.v1.Timers/Nothing").is_none());
    }
}
