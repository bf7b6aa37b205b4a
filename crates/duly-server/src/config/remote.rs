//! The store that nodes share: where it is, and what is asked of it.
//!
//! A password may stand in its URL, and is never shown: neither what is taken nor what is refused
//! leaves this file with one, but for [`StoreUrl::reveal`].

use std::{fmt, path::PathBuf, time::Duration};

use duly_core::invalid::shorten;
use duly_store_redis::{Check, Create, OnRollback, check_url};

use super::{Origin, effective::Values, keys::KEYS, value::Value};

/// What stands in place of a secret.
const HIDDEN: &str = "***";

/// Keys that only the embedded store has.
const EMBEDDED: [&str; 11] = [
    "store.data",
    "store.backup_dir",
    "store.backups_max",
    "store.backup_interval",
    "store.segment_bytes",
    "store.checkpoint_bytes",
    "store.young_bytes",
    "store.index_memory_max",
    "store.on_clock_jump",
    "store.min_free_bytes",
    "store.min_free_percent",
];

/// The URL of a store. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// Why it is none, without anything that may be a secret.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        check_url(text).map_err(|error| error.to_string())?;
        Ok(Self(text.to_owned()))
    }

    /// With its password.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn has_password(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.0.starts_with("rediss")
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.0.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("-cluster"))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// A URL that was refused, and why.
pub(super) fn refused(text: &str) -> String {
    let why = check_url(text).err().map_or_else(String::new, |error| format!(" ({error})"));
    format!("{}{why}", shorten(&redacted(text)))
}

/// A text that may be a URL, without what may be a secret in it: what is behind the first colon in
/// front of an `@`, what stands where a port should, and what follows a `?` or `#`.
fn redacted(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') => {
            (format!("{scheme}://"), rest)
        }
        _ => (String::new(), text),
    };
    let (login, hosts) = match rest.rsplit_once('@') {
        Some((login, hosts)) if !scheme.is_empty() => match login.split_once(':') {
            Some((user, _)) => (format!("{user}:{HIDDEN}@"), hosts),
            None => (format!("{login}@"), hosts),
        },
        Some((_, hosts)) => (format!("{HIDDEN}@"), hosts),
        None => (String::new(), rest),
    };
    let hosts = match hosts.split_once(['?', '#']) {
        Some((hosts, _)) => format!("{}?{HIDDEN}", ports_only(hosts)),
        None => ports_only(hosts),
    };
    format!("{scheme}{login}{hosts}")
}

fn ports_only(hosts: &str) -> String {
    let hosts = hosts.split(',').map(|host| match host.rsplit_once(':') {
        Some((_, port)) if port.ends_with(']') => host.to_owned(),
        Some((name, port)) if !port.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{name}:{HIDDEN}")
        }
        Some((name, port)) => {
            let number = port.trim_end_matches('/');
            let is_port = number.parse::<u16>().is_ok();
            format!("{name}:{}", if is_port { port } else { HIDDEN })
        }
        None => host.to_owned(),
    });
    hosts.collect::<Vec<_>>().join(",")
}

/// What is asked of the store that nodes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Where it is.
    pub url: StoreUrl,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Authorities that its servers are trusted by.
    pub ca_file: Option<PathBuf>,
    /// Name of the deployment.
    pub deployment: Option<String>,
    /// Shards of a new deployment.
    pub shards: u16,
    /// Whether an empty database gets a new deployment.
    pub create: Create,
    /// What follows when a shard comes back with older data.
    pub on_rollback: OnRollback,
    /// Replicas that must have a change.
    pub min_replicas: u32,
    /// Whether a change must be on disks.
    pub on_disk: bool,
    /// Time for both.
    pub replication_timeout: Duration,
    /// Connections to each server.
    pub connections: usize,
    /// Settings that lose timers and are allowed.
    pub allow: Vec<Check>,
}

impl Shared {
    /// What the values say, if there is a URL.
    pub(super) fn of(values: &Values) -> Option<Self> {
        let of = |name: &str| values.get(name).map(|effective| &effective.value);
        let Some(Value::Store(Some(url))) = of("store.url") else {
            return None;
        };
        let path = |name| match of(name) {
            Some(Value::Path(path)) if !path.as_os_str().is_empty() => Some(path.clone()),
            _ => None,
        };
        let number = |name| match of(name) {
            Some(Value::Number(Some(number))) => u32::try_from(*number).unwrap_or(u32::MAX),
            _ => 0,
        };
        Some(Self {
            url: url.clone(),
            password_file: path("store.password_file"),
            ca_file: path("store.ca_file"),
            deployment: match of("store.deployment") {
                Some(Value::Word(name)) if !name.is_empty() => Some(name.clone()),
                _ => None,
            },
            shards: u16::try_from(number("store.shards")).unwrap_or(u16::MAX),
            create: match of("store.create") {
                Some(Value::Word(word)) if word == "never" => Create::Never,
                _ => Create::WhenEmpty,
            },
            on_rollback: match of("store.on_rollback") {
                Some(Value::Word(word)) if word == "pause" => OnRollback::Pause,
                _ => OnRollback::Warn,
            },
            min_replicas: number("store.min_replicas"),
            on_disk: matches!(of("store.on_disk"), Some(Value::Flag(true))),
            replication_timeout: match of("store.replication_timeout") {
                Some(Value::Duration(duration)) => duration.to_std(),
                _ => Duration::ZERO,
            },
            connections: number("store.connections") as usize,
            allow: match of("store.allow") {
                Some(Value::Texts(names)) => {
                    let is_named = |check: &Check| names.iter().any(|it| it == check.as_str());
                    Check::ALL.into_iter().filter(is_named).collect()
                }
                _ => Vec::new(),
            },
        })
    }
}

/// Keys that were set and mean nothing beside a URL.
pub(super) fn unused(values: &Values) -> Vec<String> {
    let Some(Value::Store(Some(_))) = values.get("store.url").map(|it| &it.value) else {
        return Vec::new();
    };
    let keys = KEYS.iter().filter(|key| EMBEDDED.contains(&key.name));
    let said = keys.filter_map(|key| {
        let origin = &values.get(key.name)?.origin;
        let sentence =
            format!("{} ({origin}) is not used: timers are kept where store.url says", key.name);
        (*origin != Origin::Default).then_some(sentence)
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_never_shown() {
        for (text, expected) in [
            ("redis://h", "redis://h"),
            ("redis://h:6379/", "redis://h:6379/"),
            ("rediss-cluster://a:1,b,[::1]:7", "rediss-cluster://a:1,b,[::1]:7"),
            ("redis://[::1]", "redis://[::1]"),
            ("redis://user@h:1", "redis://user@h:1"),
            ("redis://user:secret@h:1", "redis://user:***@h:1"),
            ("redis://:se:cret@h", "redis://:***@h"),
            ("redis://user:se@cret@h", "redis://user:***@h"),
            ("redis://user:secret", "redis://user:***"),
            ("redis://h:1secret", "redis://h:***"),
            ("redis://h:1/?password=secret", "redis://h:1/?***"),
            ("redis://h:1#secret", "redis://h:1?***"),
            ("redis:/user:secret@h", "***@h"),
            ("user:secret@redis://h", "***@redis:***"),
            ("user:secret@h:1", "***@h:1"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
            assert!(!refused(text).contains("secret"), "{text}: {}", refused(text));
        }
        let url = StoreUrl::parse("redis://user:secret@h").expect("a URL");
        assert_eq!(format!("{url:?} {url}"), "StoreUrl(redis://user:***@h) redis://user:***@h");
        assert_eq!(url.reveal(), "redis://user:secret@h");
    }
}
