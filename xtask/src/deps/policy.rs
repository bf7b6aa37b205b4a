//! The policy for dependencies, and its check against the crates of the lock file.
//!
//! The tables and keys are those of cargo-deny. A key that this check would not obey is refused, so a policy that looks
//! stricter than it is cannot be written. `advisories` and `output` are of cargo-deny alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The registry of crates.io, as the lock file names it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// `deny.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) graph: Graph,
    licenses: Licenses,
    bans: Bans,
    /// Read only to refuse other values: every crate comes from [`REGISTRY`].
    #[serde(rename = "sources")]
    _sources: Sources,
    /// Of cargo-deny alone.
    #[serde(default, rename = "advisories")]
    _advisories: toml::Table,
    /// Of cargo-deny alone.
    #[serde(default, rename = "output")]
    _output: toml::Table,
}

/// The crates that count.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Graph {
    /// The platforms Duly is built for.
    pub(super) targets: Vec<String>,
    #[serde(rename = "all-features")]
    _all_features: Always,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Licenses {
    /// SPDX identifiers.
    allow: BTreeSet<String>,
    /// Used by cargo-deny for texts of licences, which this check does not read.
    #[serde(rename = "confidence-threshold")]
    _confidence_threshold: f64,
    #[serde(rename = "private")]
    _private: Private,
    #[serde(default)]
    clarify: Vec<Clarification>,
}

/// The licence of a crate that has only a file with its text. cargo-deny compares the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Clarification {
    #[serde(rename = "crate")]
    name: String,
    expression: String,
    #[serde(rename = "license-files")]
    _license_files: toml::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Private {
    #[serde(rename = "ignore")]
    _ignore: Always,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Bans {
    deny: Vec<Ban>,
    #[serde(rename = "multiple-versions")]
    _multiple_versions: Warn,
    #[serde(rename = "wildcards")]
    _wildcards: Deny,
    #[serde(rename = "allow-wildcard-paths")]
    _allow_wildcard_paths: Always,
}

/// A crate that must not be among the dependencies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// The crates that may depend on it.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sources {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Deny,
    #[serde(rename = "unknown-git")]
    _unknown_git: Deny,
}

/// The only value that the check obeys.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Deny {
    Deny,
}

/// The only value that the check obeys.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Warn {
    Warn,
}

/// `true`, the only value that the check obeys.
#[derive(Deserialize)]
#[serde(try_from = "bool")]
struct Always;

impl TryFrom<bool> for Always {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        value.then_some(Self).ok_or("only `true` is checked")
    }
}

/// The part of `cargo metadata` that the check reads.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    resolve: Resolve,
}

/// A crate.
#[derive(Deserialize)]
pub(super) struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a crate of this checkout.
    source: Option<String>,
    dependencies: Vec<Dependency>,
    /// Each feature with the features and dependencies that it enables.
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    req: String,
    path: Option<String>,
    optional: bool,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
    /// The enabled features.
    features: Vec<String>,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl Policy {
    /// Returns a line for each crate that has several versions: they cost build time and binary size, but are often
    /// not ours to decide.
    pub(super) fn duplicates(&self, metadata: &Metadata) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in &metadata.packages {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        versions.retain(|_, versions| versions.len() > 1);
        versions
            .into_iter()
            .map(|(name, versions)| {
                format!("{name} has the versions {}", Vec::from_iter(versions).join(", "))
            })
            .collect()
    }

    /// Returns a line for each fault against the policy.
    pub(super) fn violations(&self, metadata: &Metadata) -> Result<Vec<String>> {
        let mut violations = Vec::new();
        for package in &metadata.packages {
            let dependents = metadata.dependents(package);
            violations.extend(self.banned(package, &dependents));
            violations.extend(wildcards(package));
            // The crates of this checkout are not published, so they need no licence of the list.
            if let Some(source) = &package.source {
                violations.extend(self.licence(package)?);
                violations.extend(
                    (source != REGISTRY).then(|| {
                        format!("{package} comes from {source}; only crates.io is allowed")
                    }),
                );
            }
        }
        Ok(violations)
    }

    fn banned(&self, package: &Package, dependents: &[&Package]) -> Option<String> {
        let ban = self.bans.deny.iter().find(|ban| ban.name == package.name)?;
        let is_wrapped = |dependent: &&&Package| !ban.wrappers.contains(&dependent.name);
        let unwrapped: Vec<_> =
            dependents.iter().filter(is_wrapped).map(|dependent| dependent.to_string()).collect();
        let is_allowed = !dependents.is_empty() && unwrapped.is_empty();
        (!is_allowed).then(|| {
            format!("{package} is banned ({}); used by {}", ban.reason, unwrapped.join(", "))
        })
    }

    fn licence(&self, package: &Package) -> Result<Option<String>> {
        let clarified = self.licenses.clarify.iter().find(|it| it.name == package.name);
        let stated = package.license.as_ref().or(clarified.map(|it| &it.expression));
        let Some(text) = stated else {
            return Ok(Some(format!("{package} names no licence: add it to `licenses.clarify`")));
        };
        let expression = spdx::Expression::parse_mode(text, spdx::ParseMode::LAX)
            .with_context(|| format!("the licence of {package}"))?;
        let is_allowed = expression.evaluate(|required| {
            let id = required.license.id();
            required.addition.is_none()
                && id.is_some_and(|id| self.licenses.allow.contains(id.name))
        });
        Ok((!is_allowed).then(|| {
            let allowed = Vec::from_iter(self.licenses.allow.iter().map(String::as_str));
            format!("{package} has the licence {text}; allowed are {}", allowed.join(", "))
        }))
    }
}

fn wildcards(package: &Package) -> impl Iterator<Item = String> {
    // Paths inside the checkout carry no version.
    let any = package.dependencies.iter().filter(|it| it.req == "*" && it.path.is_none());
    // Published crates are as they are.
    any.filter(|_| package.source.is_none())
        .map(move |it| format!("{package} takes any version of {}: name one", it.name))
}

impl Metadata {
    /// Returns the crates that depend on a crate directly.
    fn dependents(&self, package: &Package) -> Vec<&Package> {
        let nodes = self.resolve.nodes.iter();
        let users: BTreeMap<_, _> = nodes
            .filter(|node| node.dependencies.contains(&package.id))
            .map(|node| (node.id.as_str(), node))
            .collect();
        let uses = |other: &&Package| {
            users.get(other.id.as_str()).is_some_and(|node| other.enables(package, &node.features))
        };
        self.packages.iter().filter(uses).collect()
    }
}

impl Package {
    /// Returns `true` if these features enable the dependency on a crate. `cargo metadata` also lists an optional
    /// dependency to which a feature would only pass something on (`chrono?/std`).
    fn enables(&self, dependency: &Package, features: &[String]) -> bool {
        let names = self.dependencies.iter().filter(|it| it.name == dependency.name);
        names.into_iter().any(|it| {
            let name = it.rename.as_ref().unwrap_or(&it.name);
            let enabled = features.iter().filter_map(|feature| self.features.get(feature));
            let is_enabled = enabled.flatten().any(|part| {
                part.strip_prefix("dep:").unwrap_or(part).split('/').next() == Some(name)
            });
            !it.optional || is_enabled
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const POLICY: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        all-features = true
        [licenses]
        confidence-threshold = 0.9
        allow = ["MIT", "ISC"]
        private.ignore = true
        clarify = [{ crate = "only-a-file", expression = "ISC", license-files = [] }]
        [bans]
        multiple-versions = "warn"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [
            { crate = "openssl", reason = "one TLS stack" },
            { crate = "chrono", reason = "jiff is enough", wrappers = ["sdk"] },
        ]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn policy() -> Policy {
        toml::from_str(POLICY).unwrap()
    }

    /// A crate `a`, which depends on a crate with these properties.
    fn check(name: &str, license: Option<&str>, source: &str) -> Vec<String> {
        of("a", name, license, source)
    }

    fn of(dependent: &str, name: &str, license: Option<&str>, source: &str) -> Vec<String> {
        let metadata = graph(dependent, name, license, source);
        policy().violations(&serde_json::from_value(metadata).unwrap()).unwrap()
    }

    fn graph(dependent: &str, name: &str, license: Option<&str>, source: &str) -> Value {
        let package = |name: &str, license: Option<&str>, source: Option<&str>, uses: &[&str]| {
            let dependencies: Vec<_> = uses
                .iter()
                .map(|name| json!({"name": name, "req": "^1", "optional": false}))
                .collect();
            json!({"id": name, "name": name, "version": "1.0.0", "license": license, "source": source,
                   "dependencies": dependencies, "features": {}})
        };
        let packages =
            [package(dependent, None, None, &[name]), package(name, license, Some(source), &[])];
        let nodes = [
            json!({"id": dependent, "dependencies": [name], "features": []}),
            json!({"id": name, "dependencies": [], "features": []}),
        ];
        json!({"packages": packages, "resolve": {"nodes": nodes}})
    }

    #[test]
    fn a_feature_that_would_only_pass_something_on_is_no_use() {
        for (part, is_used) in
            [("dep:chrono", true), ("chrono", true), ("chrono/std", true), ("chrono?/std", false)]
        {
            let mut metadata = graph("a", "chrono", Some("MIT"), REGISTRY);
            metadata["packages"][0]["dependencies"][0]["optional"] = true.into();
            metadata["packages"][0]["features"] = json!({"std": [part]});
            metadata["resolve"]["nodes"][0]["features"] = json!(["std"]);
            let metadata: Metadata = serde_json::from_value(metadata).unwrap();
            assert_eq!(
                metadata.dependents(&metadata.packages[1]).len(),
                usize::from(is_used),
                "{part}"
            );
        }
    }

    #[test]
    fn licences_are_those_of_the_list() {
        for (license, allowed) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("MIT AND ISC", true),
            ("MIT AND Apache-2.0", false),
            ("Apache-2.0", false),
            ("MIT WITH LLVM-exception", false),
            ("(GPL-3.0-only OR MIT) AND ISC", true),
        ] {
            assert_eq!(check("b", Some(license), REGISTRY).is_empty(), allowed, "{license}");
        }
        let unnamed = check("b", None, REGISTRY);
        assert_eq!(unnamed, ["b 1.0.0 names no licence: add it to `licenses.clarify`"]);
        assert!(check("only-a-file", None, REGISTRY).is_empty());
    }

    #[test]
    fn a_banned_crate_is_refused_unless_its_wrapper_uses_it() {
        let openssl = check("openssl", Some("MIT"), REGISTRY);
        assert_eq!(openssl, ["openssl 1.0.0 is banned (one TLS stack); used by a 1.0.0"]);
        assert_eq!(check("chrono", Some("MIT"), REGISTRY).len(), 1);
        assert!(of("sdk", "chrono", Some("MIT"), REGISTRY).is_empty());
    }

    #[test]
    fn crates_come_from_one_registry() {
        let from_git = check("b", Some("MIT"), "git+https://example.com/b");
        assert_eq!(
            from_git,
            ["b 1.0.0 comes from git+https://example.com/b; only crates.io is allowed"]
        );
    }

    #[test]
    fn our_dependencies_name_a_version() {
        let wildcard = |source: Option<&str>, path: Option<&str>| {
            let dependency = json!({"name": "b", "req": "*", "path": path, "optional": false});
            let package = json!({"id": "a", "name": "a", "version": "1.0.0", "license": "MIT", "features": {},
                                 "source": source, "dependencies": [dependency]});
            let metadata = json!({"packages": [package], "resolve": {"nodes": []}});
            policy().violations(&serde_json::from_value(metadata).unwrap()).unwrap()
        };
        assert_eq!(wildcard(None, None), ["a 1.0.0 takes any version of b: name one"]);
        assert!(wildcard(None, Some("/b")).is_empty());
        assert!(wildcard(Some(REGISTRY), None).is_empty());
    }

    #[test]
    fn several_versions_are_named() {
        let package = |version: &str| {
            json!({"id": version, "name": "b", "version": version, "license": "MIT",
                   "source": REGISTRY, "dependencies": [], "features": {}})
        };
        let metadata =
            json!({"packages": [package("1.0.0"), package("2.0.0")], "resolve": {"nodes": []}});
        let lines = policy().duplicates(&serde_json::from_value(metadata).unwrap());
        assert_eq!(lines, ["b has the versions 1.0.0, 2.0.0"]);
    }

    #[test]
    fn a_policy_that_is_not_checked_is_refused() {
        for (from, to) in [
            ("wildcards = \"deny\"", "wildcards = \"allow\""),
            ("all-features = true", "all-features = false"),
            ("[sources]", "[sources]\nallow-git = []"),
            ("[sources]", "[source]\n[sources]"),
            ("reason = \"one TLS stack\"", "reason = \"one TLS stack\", use-instead = \"rustls\""),
        ] {
            let changed = POLICY.replace(from, to);
            assert_ne!(changed, POLICY);
            assert!(toml::from_str::<Policy>(&changed).is_err(), "{to}");
        }
    }
}
