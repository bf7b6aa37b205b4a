//! Configuration: defaults, one file, the environment, flags; the origin of each value is known.
//!
//! * Every key is a field of one of the `sections`: its type is the check and the default, its doc
//!   comment the documentation. A new key is one edit.
//! * A later layer wins over an earlier one: default, file, environment, flag. Each value is checked
//!   on its own (`Layers`), then the values are compared with each other (`cross`).
//! * An error names the key, the place, the value seen and what is allowed; all errors are reported
//!   at once. Unknown names are refused.
//!
//! Called by the binary: [`load_with_files`] before anything starts, [`load`] and [`Config::show`] for
//! `config show`, [`example_toml`] for `config example`.

mod cross;
mod environment;
mod error;
mod file;
pub(crate) mod files;
pub mod keys;
mod numbers;
mod pages;
mod sections;
mod texts;
mod urls;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt::Write,
    path::PathBuf,
};

use duly_store_embedded::memory_limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use error::{Error, Errors, Origin};
pub use keys::key;
pub use numbers::{Bytes, Integer, TimeSpan};
pub use pages::{example_toml, reference_markdown};
pub use sections::{
    AllowLoopback, Audit, AuditLevel, Auth, AuthMode, Defaults, Delivery, Drain, Jwt, JwtAlgorithm,
    Limits, Log, Server, Store, Tls, TlsVersion, Tracing, Webhook,
};
pub use texts::{
    AbsolutePath, DataDir, DeploymentName, Host, ListenAddress, ListenAddresses, LogFilter,
    Network, NonEmpty, PortRange, ProxyUrl, Risk, WebOrigin,
};
pub use urls::{StoreUrl, without_secrets};

use keys::{Key, StoreKind};

/// The places that values come from.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The file, if one is named. It must be there.
    pub file: Option<PathBuf>,
    /// The environment: names and values, all of them.
    pub env: Vec<(String, String)>,
    /// Flags that were given.
    pub flags: Vec<Flag>,
}

impl Source {
    /// Returns the process's own environment, without file and flags. Bytes that are not UTF-8 are
    /// replaced by U+FFFD, which is refused in the value of a key.
    pub fn from_env() -> Self {
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        let pairs = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        Self { env: pairs.collect(), ..Self::default() }
    }
}

/// A flag of the command line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as the user knows it: `--listen`.
    pub flag: String,
    /// The key that it sets: `server.listen`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// A checked configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[auth]`.
    pub auth: Auth,
    /// `[jwt]`.
    pub jwt: Jwt,
    /// `[audit]`.
    pub audit: Audit,
    /// `[tls]`.
    pub tls: Tls,
    /// `[store]`.
    pub store: Store,
    /// `[delivery]`.
    pub delivery: Delivery,
    /// `[webhook]`.
    pub webhook: Webhook,
    /// `[defaults]`.
    pub defaults: Defaults,
    /// `[limits]`.
    pub limits: Limits,
    /// `[log]`.
    pub log: Log,
    /// `[tracing]`.
    pub tracing: Tracing,
    /// `[drain]`.
    pub drain: Drain,
    /// Origins by key name; a missing key has its default.
    #[serde(skip)]
    origins: BTreeMap<&'static str, Origin>,
}

/// A value in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The value: lists and numbers as such, sizes in bytes, everything else as its text, without
    /// secrets. A file may have it in this form.
    pub value: Value,
    /// The place that it comes from.
    pub origin: Origin,
}

/// Reads and checks a configuration.
///
/// # Errors
/// Returns all errors.
pub fn load(source: &Source) -> Result<Config, Errors> {
    load_and(source, |_, _| {})
}

/// Reads and checks a configuration, and the files and directories that it names, as a start would use
/// them.
///
/// # Errors
/// Returns all errors, including those of the files.
pub fn load_with_files(source: &Source) -> Result<Config, Errors> {
    load_and(source, files::check)
}

fn load_and(source: &Source, check_files: fn(&Config, &mut Layers)) -> Result<Config, Errors> {
    let mut layers = Layers::default();
    if let Some(path) = &source.file {
        file::read(path, &mut layers);
    }
    environment::read(&source.env, &mut layers);
    for flag in &source.flags {
        let origin = Origin::Flag(flag.flag.clone());
        match keys::find(flag.key) {
            Some(key) => layers.set(key, Ok(flag.value.as_str().into()), origin),
            None => layers.errors.push(Error::UnknownKey {
                key: flag.key.to_owned(),
                origin,
                similar: None,
                known: "a flag sets a key of the configuration".to_owned(),
            }),
        }
    }
    let mut config = layers.config();
    cross::check(&mut config, &mut layers);
    check_files(&config, &mut layers);
    layers.finish().map(|()| config)
}

/// The layers of a configuration, put over each other one key at a time, so that one wrong value does
/// not hide another: accepted values, and errors.
#[derive(Default)]
struct Layers {
    /// Accepted values by section and field; a later layer replaces the value of an earlier one.
    values: Map<String, Value>,
    origins: BTreeMap<&'static str, Origin>,
    /// Errors in the order in which they were found.
    errors: Vec<Error>,
    refused: BTreeSet<&'static str>,
}

impl Layers {
    /// Puts a value over that of an earlier layer, if it is allowed. An `Err` stands for a value that
    /// no key can have.
    fn set(&mut self, key: &'static Key, written: Result<Value, String>, origin: Origin) {
        match written.and_then(|value| key.check(&value)) {
            Ok(value) => {
                let section = self.values.entry(&key.section).or_insert_with(|| Map::new().into());
                section[&key.field] = value;
                self.origins.insert(&key.name, origin);
            }
            Err(seen) => self.refuse(&key.name, origin, seen, key.allowed.clone()),
        }
    }

    /// Notes that the value of a key is not allowed.
    fn refuse(&mut self, key: &'static str, origin: Origin, seen: String, allowed: String) {
        self.refused.insert(key);
        self.errors.push(Error::Value { key, origin, seen, allowed });
    }

    /// Returns `true` if some value of a key was not allowed.
    fn is_refused(&self, key: &str) -> bool {
        self.refused.contains(key)
    }

    /// Returns the configuration of the accepted values over the defaults.
    fn config(&self) -> Config {
        let config = Config::deserialize(Value::Object(self.values.clone()));
        let config = config.expect("each value was accepted on its own");
        Config { origins: self.origins.clone(), ..config }
    }

    /// Returns the errors, if there are any.
    fn finish(self) -> Result<(), Errors> {
        if self.errors.is_empty() { Ok(()) } else { Err(Errors(self.errors)) }
    }
}

impl Config {
    /// Returns every key with its effective value and the origin of that.
    pub fn effective(&self) -> impl Iterator<Item = (&'static Key, EffectiveValue)> {
        let values = keys::effective(self);
        values.map(|(key, value)| (key, EffectiveValue { value, origin: self.origin(&key.name) }))
    }

    /// Returns the origin of a key's value; [`key!`] spells the name.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).map_or(Origin::Default, Clone::clone)
    }

    /// Returns a sentence for each key of the embedded store that is set and not used, because
    /// `store.url` is set.
    pub fn unused(&self) -> Vec<String> {
        let embedded = self.effective().filter(|(key, effective)| {
            key.store == Some(StoreKind::Embedded) && effective.origin != Origin::Default
        });
        let sentences = embedded.map(|(Key { name, .. }, EffectiveValue { origin, .. })| {
            format!("{name} ({origin}) is ignored: the timers are in the store of store.url")
        });
        if self.store.data_dir().is_none() { sentences.collect() } else { Vec::new() }
    }

    /// Returns the configuration as a file has it, each line with its origin. A password in
    /// `store.url` is not shown.
    pub fn show(&self) -> String {
        let mut out = String::new();
        let mut section = "";
        for (key, EffectiveValue { value, origin }) in self.effective() {
            if key.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = &key.section;
                // Writing to a String cannot fail.
                writeln!(out, "{gap}[{section}]").ok();
            }
            writeln!(out, "{} = {} # {origin}", key.field, key.toml(&value)).ok();
        }
        out
    }
}

/// Returns the bytes that a key gives, or for `auto` an eighth of the memory that the process may
/// take: with the index, which may take 60 %, an eighth is left for everything else.
pub(crate) fn or_eighth<const LOW: u64, const HIGH: u64>(bytes: Option<Bytes<LOW, HIGH>>) -> usize {
    bytes.map_or_else(|| eighth_of(memory_limit()), Bytes::as_usize)
}

fn eighth_of(memory_limit: u64) -> usize {
    (memory_limit / 8).clamp(32 * numbers::MIB, 256 * numbers::MIB) as usize
}

#[cfg(test)]
mod tests;
