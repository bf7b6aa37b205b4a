//! Configuration: defaults, one file, the environment, flags; each value knows where it is from.
//!
//! * Every key stands once, in [`keys::KEYS`], with its kind, default and meaning.
//! * A later place wins over an earlier one: default, file, environment, flag.
//! * An error names the key, the place, the value seen and what is allowed; all errors are found
//!   at once. Nothing unknown is passed over.
//!
//! Called by the binary: [`load_with_files`] before anything starts, [`load`] and [`Config::show`] for `config show`,
//! [`example_toml`] for `config example`.

mod cross;
mod effective;
mod environment;
mod error;
mod example;
mod file;
pub(crate) mod files;
pub mod keys;
mod origin;
mod reach;
mod reference;
mod remote;
mod sections;
mod value;
mod web;

use std::{ffi::OsString, fmt::Write, path::PathBuf};

pub use effective::Effective;
pub use error::{Error, Errors};
pub use example::example_toml;
pub use origin::Origin;
pub use reach::ProxyUrl;
pub use reference::reference_markdown;
pub use remote::{Shared, StoreUrl};
pub use sections::{AllowLoopback, Bounds, Defaults, Delivery, Drain, Log, Server, Store, Webhook};
pub use value::{Kind, Value};

use effective::{Gathered, Values};
use keys::KEYS;
use value::Written;

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
    /// The process's own environment, without file and flags. What is no text in it is replaced by
    /// U+FFFD, and then refused where it is a value of ours.
    pub fn from_env() -> Self {
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        let pairs = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
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
    /// `[limits]`.
    pub limits: Bounds,
    /// `[log]`.
    pub log: Log,
    /// `[drain]`.
    pub drain: Drain,
    values: Values,
}

/// Reads and checks a configuration.
///
/// # Errors
/// Everything that is wrong.
pub fn load(source: &Source) -> Result<Config, Errors> {
    gather(source).finish()
}

/// [`load`], and a look at the files and directories that are named, as a start would use them.
///
/// # Errors
/// Everything that is wrong, that of the files too.
pub fn load_with_files(source: &Source) -> Result<Config, Errors> {
    let mut gathered = gather(source);
    files::check(&mut gathered);
    gathered.finish()
}

fn gather(source: &Source) -> Gathered {
    let mut gathered = Gathered::new();
    if let Some(path) = &source.file {
        file::read(path, &mut gathered);
    }
    environment::read(&source.env, &mut gathered);
    for flag in &source.flags {
        let origin = Origin::Flag(flag.flag.clone());
        match keys::find(flag.key) {
            Some(key) => gathered.set(key, &Written::Text(flag.value.clone()), origin),
            None => gathered.errors.push(Error::UnknownKey {
                key: flag.key.to_owned(),
                origin,
                near: None,
                known: "a flag sets a key of the configuration".to_owned(),
            }),
        }
    }
    cross::check(&mut gathered);
    gathered
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

    /// What was said and means nothing: keys of the embedded store beside `store.url`, a sentence
    /// each.
    pub fn unused(&self) -> Vec<String> {
        remote::unused(&self.values)
    }

    /// The configuration as a file would have it, each line with its origin. Secrets are in files of
    /// their own; a password that stands in `store.url` all the same is not shown.
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
            let value = value::toml_text(key.kind, &effective.value);
            writeln!(out, "{} = {value} # {}", key.bare_name(), effective.origin).ok();
        }
        out
    }
}

#[cfg(test)]
mod tests;
