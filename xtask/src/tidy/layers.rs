//! Checks the dependencies between crates: they point downward only.
//!
//! A crate may use the crates above it in [`LAYERS`], which is the table of ARCHITECTURE.md.
//! Dependencies of its own tests only are not checked.

use toml::Table;

use super::Complaint;
use super::manifests;
use super::tree::File;

/// All crates, the most basic first.
const LAYERS: &[&str] = &[
    "duly-core",
    "duly-record",
    "duly-wheel",
    "duly-tls",
    "duly-api",
    "duly-store",
    "duly-decide",
    "duly-store-embedded",
    "duly-store-redis",
    "duly-store-postgres",
    "duly-sink",
    "duly-node",
    "duly-server",
    "duly-client",
    "duly-checker",
    "duly-bench",
    "duly",
    "duly-redis-testkit",
    "duly-testkit",
    "duly-sim",
];

/// Exceptions to the order: crate, forbidden dependency, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("duly-core", "tokio", "it is pure logic without a runtime"),
    ("duly-wheel", "duly-core", "it is usable alone"),
    ("duly-wheel", "tokio", "it is pure logic without a runtime"),
    ("duly-store-redis", "duly-store-embedded", "no adapter knows another"),
    ("duly-store-postgres", "duly-store-embedded", "no adapter knows another"),
    ("duly-store-postgres", "duly-store-redis", "no adapter knows another"),
    ("duly-sink", "duly-store", "delivering must not depend on how timers are kept"),
    ("duly-sink", "duly-store-embedded", "delivering must not depend on how timers are kept"),
    ("duly-node", "duly-store-embedded", "it knows the port, not an adapter"),
    ("duly-node", "axum", "it has no HTTP"),
    ("duly-node", "hyper", "it has no HTTP"),
    ("duly-client", "duly-server", "it holds no server code"),
    ("duly-client", "duly-store", "it holds no server code"),
    ("duly-client", "duly-node", "it holds no server code"),
    ("duly-bench", "duly-server", "it measures a server from outside"),
    ("duly-checker", "duly-core", "one mistake must not be in both"),
    ("duly-checker", "duly-api", "one mistake must not be in both"),
    ("duly-bench", "duly-client", "nothing may hide latency"),
];

/// This crate, which uses none of the others.
const XTASK: &str = "xtask";

/// Complains of each dependency that is not allowed.
pub(super) fn check(manifest: &File, table: &Table) -> Vec<Complaint> {
    let name = manifests::package_name(table);
    let own = layer(name);
    if own.is_none() && name != XTASK {
        let text = format!("`{name}` has no place yet: put it into LAYERS and ARCHITECTURE.md");
        return vec![Complaint::about(&manifest.path, text)];
    }
    let objection = |used: String| {
        let exception = EXCEPTIONS.iter().find(|(from, to, _)| *from == name && *to == used);
        let reason = match layer(&used) {
            _ if name == XTASK && used.starts_with("duly") => "it builds the product from outside",
            other if other.is_some() && other >= own => {
                "a crate uses only those above it in LAYERS"
            }
            _ => exception?.2,
        };
        let text = format!("`{name}` must not use `{used}`: {reason}");
        Some(Complaint::about(&manifest.path, text))
    };
    let shipped = manifests::dependencies(table).into_iter().filter(|used| used.is_shipped);
    shipped.filter_map(|used| objection(used.name)).collect()
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|other| *other == name)
}
