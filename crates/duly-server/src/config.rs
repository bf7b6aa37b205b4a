//! Configuration: defaults, one file, the environment, flags; each value knows where it is from.
//!
//! * Every key stands once, in [`keys::KEYS`], with its kind, default and meaning.
//! * A later place wins over an earlier one: default, file, environment, flag.
//! * An error names the key, the place, the value seen and what is allowed. Nothing unknown is
//!   passed over.
//!
//! Called by the binary: [`load`] before anything starts, [`Config::show`] for `config show`.

mod effective;
mod error;
mod file;
pub mod keys;
mod origin;
mod reach;
mod reference;
mod sections;
mod value;

use std::{fmt::Write, fs, path::PathBuf};

pub use effective::Effective;
pub use error::Error;
pub use origin::Origin;
pub use reach::ProxyUrl;
pub use reference::reference_markdown;
pub use sections::{AllowLoopback, Defaults, Delivery, Drain, Log, Server, Store, Webhook};
pub use value::{Kind, Value};

use effective::Values;
use keys::KEYS;
use value::Written;

/// What separates section and key in a variable; one without it is none of ours.
const VARIABLE_MARK: &str = "__";

/// Where values may come from.
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
    /// The process's own environment, without file and flags.
    pub fn from_env() -> Self {
        let pairs = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self { env: pairs.collect(), ..Self::default() }
    }
}

/// A flag of the command line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// As the user knows it: `--listen`.
    pub flag: String,
    /// The key that it sets: `server.listen`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[store]`.
    pub store: Store,
    /// `[delivery]`.
    pub delivery: Delivery,
    /// `[webhook]`.
    pub webhook: Webhook,
    /// `[defaults]`.
    pub defaults: Defaults,
    /// `[log]`.
    pub log: Log,
    /// `[drain]`.
    pub drain: Drain,
    values: Values,
}

/// Reads and checks a configuration.
///
/// # Errors
/// The first thing that is wrong.
pub fn load(source: &Source) -> Result<Config, Error> {
    let mut values = effective::defaults()?;
    if let Some(path) = &source.file {
        let text = fs::read_to_string(path)
            .map_err(|error| Error::Unreadable { path: path.clone(), reason: error.to_string() })?;
        for (key, written, origin) in file::read(path, &text)? {
            effective::set(&mut values, key, &written, origin)?;
        }
    }
    for (name, value) in &source.env {
        if !name.starts_with("DULY_") || !name.contains(VARIABLE_MARK) {
            continue;
        }
        let origin = Origin::Variable(name.clone());
        let Some(key) = KEYS.iter().find(|key| key.variable() == *name) else {
            let variables: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
            return Err(Error::UnknownKey {
                key: name.clone(),
                origin,
                known: format!("the variables are {}", variables.join(", ")),
            });
        };
        effective::set(&mut values, key, &Written::Text(value.clone()), origin)?;
    }
    for flag in &source.flags {
        let origin = Origin::Flag(flag.flag.clone());
        let Some(key) = keys::find(flag.key) else {
            return Err(Error::UnknownKey {
                key: flag.key.to_owned(),
                origin,
                known: "a flag sets a key of the configuration".to_owned(),
            });
        };
        effective::set(&mut values, key, &Written::Text(flag.value.clone()), origin)?;
    }
    check_segment(&values)?;
    check_pairs(&values)?;
    Ok(effective::config(values))
}

/// Reads and checks a configuration, and says nothing when it is right.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(source: &Source) -> Result<(), Error> {
    load(source).map(drop)
}

/// Segments are written in pages.
fn check_segment(values: &Values) -> Result<(), Error> {
    const PAGE_BYTES: u64 = 4096;
    match values.get("store.segment_bytes") {
        Some(Effective { value: Value::Number(Some(bytes)), origin })
            if !bytes.is_multiple_of(PAGE_BYTES) =>
        {
            Err(Error::Value {
                key: "store.segment_bytes",
                origin: origin.clone(),
                seen: bytes.to_string(),
                allowed: format!("a multiple of {PAGE_BYTES}"),
            })
        }
        _ => Ok(()),
    }
}

/// Keys that mean nothing without another one.
const PAIRS: [(&str, &str); 3] = [
    ("webhook.client_certificate_file", "webhook.client_key_file"),
    ("webhook.client_key_file", "webhook.client_certificate_file"),
    ("webhook.proxy_credentials_file", "webhook.proxy"),
];

fn check_pairs(values: &Values) -> Result<(), Error> {
    let is_set = |name: &str| match values.get(name).map(|effective| &effective.value) {
        Some(Value::Path(path)) => !path.as_os_str().is_empty(),
        Some(Value::Proxy(proxy)) => proxy.is_some(),
        _ => false,
    };
    match PAIRS.into_iter().find(|(key, other)| is_set(key) && !is_set(other)) {
        None => Ok(()),
        Some((key, other)) => Err(Error::Value {
            key,
            origin: values.get(key).map_or(Origin::Default, |effective| effective.origin.clone()),
            seen: "a file".to_owned(),
            allowed: format!("empty, or set together with {other}, which is empty"),
        }),
    }
}

impl Config {
    /// Every key with its effective value and where that comes from.
    pub fn effective(&self) -> impl Iterator<Item = (&'static keys::Key, &Effective)> {
        KEYS.iter().filter_map(|key| Some((key, self.values.get(key.name)?)))
    }

    /// Where a key's value comes from.
    pub fn origin(&self, key: &str) -> Origin {
        self.values.get(key).map_or(Origin::Default, |effective| effective.origin.clone())
    }

    /// The configuration as a file would have it, each line with its origin. No key holds a secret
    /// (they are in files of their own); one that will must be shown redacted here.
    pub fn show(&self) -> String {
        let mut out = String::new();
        let mut section = "";
        for (key, effective) in self.effective() {
            if key.section() != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = key.section();
                // Writing to a String cannot fail.
                writeln!(out, "{gap}[{section}]").ok();
            }
            let name = key.name.split_once('.').map_or(key.name, |(_, name)| name);
            let value = value::toml_text(key.kind, &effective.value);
            writeln!(out, "{name} = {value} # {}", effective.origin).ok();
        }
        out
    }
}

#[cfg(test)]
mod tests;
