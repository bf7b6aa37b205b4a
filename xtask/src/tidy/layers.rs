//! Checks the dependencies between crates: they point downward only.
//!
//! A crate may use the crates above it in [`LAYERS`], which is the table of ARCHITECTURE.md.
//! Dependencies of its own tests only are not checked.

use toml::Table;

use super::Complaint;
use super::manifests::{self, DependencyKind};
use super::tree::File;

/// All crates, the most basic first.
const LAYERS: &[&str] = &[
    "duly-core",
    "duly-wheel",
    "duly-api",
    "duly-store",
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
    ("duly-checker", "duly-core", "a mistake must not be made twice in the same way"),
    ("duly-checker", "duly-api", "a mistake must not be made twice in the same way"),
    ("duly-bench", "duly-client", "nothing may hide latency"),
];

/// Complains of each dependency that is not allowed.
pub(super) fn check(manifest: &File, table: &Table) -> Vec<Complaint> {
    let name = manifests::package_name(table);
    if name == "xtask" {
        return used(table)
            .filter(|used| used.starts_with("duly"))
            .map(|used| {
                Complaint::about(
                    &manifest.path,
                    format!("xtask must not use `{used}`: it builds the product from outside"),
                )
            })
            .collect();
    }
    let Some(own) = layer(name) else {
        let text = format!("`{name}` has no place yet: put it into LAYERS and ARCHITECTURE.md");
        return vec![Complaint::about(&manifest.path, text)];
    };
    used(table)
        .filter_map(|used| {
            let reason = match layer(&used) {
                Some(other) if other >= own => Some("a crate uses only those above it in LAYERS"),
                _ => EXCEPTIONS
                    .iter()
                    .find(|(from, to, _)| *from == name && *to == used)
                    .map(|(_, _, reason)| *reason),
            }?;
            let text = format!("`{name}` must not use `{used}`: {reason}");
            Some(Complaint::about(&manifest.path, text))
        })
        .collect()
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|other| *other == name)
}

fn used(table: &Table) -> impl Iterator<Item = String> {
    manifests::dependencies(table)
        .into_iter()
        .filter(|dependency| dependency.kind == DependencyKind::Shipped)
        .map(|dependency| dependency.name)
}
