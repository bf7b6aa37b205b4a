//! Reads the manifests of the workspace members; checks that versions are in the root manifest only.

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Complaint;
use super::tree::File;

/// One entry of a dependency table.
#[derive(Debug)]
pub(super) struct Dependency {
    /// The package's name, even if the entry renames it.
    pub(super) name: String,
    /// `false`: only the crate's own tests, examples and benchmarks use it.
    pub(super) is_shipped: bool,
    /// `true`: the version comes from the root manifest alone.
    pub(super) inherited: bool,
}

/// Parses a manifest.
pub(super) fn parse(manifest: &File) -> Result<Table> {
    manifest.text.parse().with_context(|| format!("cannot parse {}", manifest.path))
}

/// Returns the package's name; empty if there is none.
pub(super) fn package_name(table: &Table) -> &str {
    table
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// Returns all dependencies, including platform-specific ones.
pub(super) fn dependencies(table: &Table) -> Vec<Dependency> {
    let platforms = table.get("target").and_then(Value::as_table);
    let scopes = platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(table).chain(scopes).flat_map(in_scope).collect()
}

fn in_scope(scope: &Table) -> Vec<Dependency> {
    let mut found = Vec::new();
    for key in ["dependencies", "build-dependencies", "dev-dependencies"] {
        let is_shipped = key != "dev-dependencies";
        let Some(entries) = scope.get(key).and_then(Value::as_table) else {
            continue;
        };
        for (key, entry) in entries {
            let own = |field: &str| entry.get(field);
            let name = own("package").and_then(Value::as_str).unwrap_or(key).to_owned();
            let inherited = own("workspace").and_then(Value::as_bool) == Some(true)
                && ["version", "path", "git"].iter().all(|field| own(field).is_none());
            found.push(Dependency { name, is_shipped, inherited });
        }
    }
    found
}

/// Complains of versions, paths and sources in a member's manifest.
pub(super) fn check(manifest: &File, table: &Table) -> Vec<Complaint> {
    let mut found = Vec::new();
    for dependency in dependencies(table).iter().filter(|dependency| !dependency.inherited) {
        let text = format!(
            "`{0}` must be `{0}.workspace = true`; versions, paths and sources stand in the root manifest",
            dependency.name
        );
        found.push(Complaint::about(&manifest.path, text));
    }
    let package = table.get("package");
    for field in ["version", "edition", "rust-version", "license"] {
        let inherited = package
            .and_then(|package| package.get(field))
            .and_then(|value| value.get("workspace"))
            .and_then(Value::as_bool);
        if inherited != Some(true) {
            let text = format!("the package needs `{field}.workspace = true`");
            found.push(Complaint::about(&manifest.path, text));
        }
    }
    found
}
