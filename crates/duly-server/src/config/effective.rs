//! The effective value of every key, with its origin, and the typed sections made from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::{
    Config, Error, Errors, Origin,
    keys::{KEYS, Key},
    remote::Shared,
    sections::{AllowLoopback, Bounds, Defaults, Delivery, Drain, Log, Server, Store, Webhook},
    value::{Value, Written},
};
use duly_sink::http::options::Resolves;
use duly_store_embedded::OnClockJump;

use crate::{
    http::{BackupLimits, ImplicitNamespaces},
    telemetry::logging,
};

/// A value in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// Values by key.
pub(super) type Values = BTreeMap<&'static str, Effective>;

/// What was found so far: a value for every key, and what is wrong.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The last allowed value of each key.
    pub(super) values: Values,
    /// In the order in which they were found.
    pub(super) errors: Vec<Error>,
    refused: BTreeSet<&'static str>,
}

impl Gathered {
    /// The defaults.
    pub(super) fn new() -> Self {
        let mut gathered = Self::default();
        for key in KEYS {
            gathered.set(key, &Written::Text(key.default.to_owned()), Origin::Default);
        }
        gathered
    }

    /// Puts a value in the place of what was there, if it is allowed.
    pub(super) fn set(&mut self, key: &'static Key, written: &Written, origin: Origin) {
        match key.kind.check(written) {
            Ok(value) => {
                self.values.insert(key.name, Effective { value, origin });
            }
            Err(allowed) => self.refuse(key, origin, key.kind.shown(written), allowed),
        }
    }

    /// Notes that a value is not allowed.
    pub(super) fn refuse(
        &mut self,
        key: &'static Key,
        origin: Origin,
        seen: String,
        allowed: String,
    ) {
        self.refused.insert(key.name);
        self.errors.push(Error::Value { key: key.name, origin, seen, allowed });
    }

    /// Whether some value of a key was not allowed.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.refused.contains(key)
    }

    /// Where a key's value comes from.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.values.get(key).map_or(Origin::Default, |effective| effective.origin.clone())
    }

    /// The configuration, if nothing is wrong.
    pub(super) fn finish(self) -> Result<Config, Errors> {
        if self.errors.is_empty() { Ok(config(self.values)) } else { Err(Errors(self.errors)) }
    }
}

/// Returns the memory of bodies, and of attempts under way, where nothing is said about it and the process
/// may take so many bytes: with the index, which may take 60 %, an eighth is left for everything else.
pub(super) fn eighth_of(memory_limit: u64) -> usize {
    const MIB: u64 = 1024 * 1024;
    let bytes = (memory_limit / 8).clamp(32 * MIB, 256 * MIB);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The sections. Every key has a value of its kind: the defaults are there before anything else.
fn config(values: Values) -> Config {
    let of = |name: &str| values.get(name).map(|effective| &effective.value);
    let number = |name| match of(name) {
        Some(Value::Number(number)) => *number,
        _ => None,
    };
    let size = |name| usize::try_from(number(name).unwrap_or(0)).unwrap_or(usize::MAX);
    let size_or_eighth = |name| match number(name) {
        Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        None => eighth_of(duly_store_embedded::memory_limit()),
    };
    let texts = |name| match of(name) {
        Some(Value::Texts(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let duration = |name| match of(name) {
        Some(Value::Duration(duration)) => duration.to_std(),
        _ => Duration::ZERO,
    };
    let path = |name| match of(name) {
        Some(Value::Path(path)) if !path.as_os_str().is_empty() => Some(path.clone()),
        _ => None,
    };
    let word = |name| match of(name) {
        Some(Value::Word(word)) => word.as_str(),
        _ => "",
    };
    Config {
        server: Server {
            listen: match of("server.listen") {
                Some(Value::Address(address)) => *address,
                _ => ([127, 0, 0, 1], 0).into(),
            },
            admin_listen: match of("server.admin_listen") {
                Some(Value::Address(address)) => Some(*address),
                _ => None,
            },
            allowed_hosts: texts("server.allowed_hosts"),
            allowed_origins: texts("server.allowed_origins"),
            body_bytes_max: size("server.body_bytes_max"),
            request_memory_max: size_or_eighth("server.request_memory_max"),
            connections_max: size("server.connections_max"),
            request_timeout: duration("server.request_timeout"),
            header_timeout: duration("server.header_timeout"),
        },
        store: Store {
            data: match of("store.data") {
                Some(Value::Path(path)) => path.clone(),
                _ => PathBuf::new(),
            },
            backup_dir: path("store.backup_dir"),
            backup_limits: BackupLimits {
                count_max: size("store.backups_max"),
                interval: duration("store.backup_interval"),
            },
            segment_bytes: number("store.segment_bytes").unwrap_or(0),
            checkpoint_bytes: number("store.checkpoint_bytes").unwrap_or(0),
            young_bytes: number("store.young_bytes").unwrap_or(0),
            index_memory_max_bytes: number("store.index_memory_max"),
            on_clock_jump: match word("store.on_clock_jump") {
                "hold" => OnClockJump::Hold,
                _ => OnClockJump::Fire,
            },
            min_free_bytes: number("store.min_free_bytes").unwrap_or(0),
            min_free_percent: u8::try_from(size("store.min_free_percent")).unwrap_or(u8::MAX),
            shared: Shared::of(&values),
        },
        delivery: Delivery {
            workers_max: size("delivery.workers_max"),
            memory_max: size_or_eighth("delivery.memory_max") as u64,
            pull_waiters_max: size("delivery.pull_waiters_max"),
            allow_loopback: match word("delivery.allow_loopback") {
                "always" => AllowLoopback::Always,
                "never" => AllowLoopback::Never,
                _ => AllowLoopback::Auto,
            },
            allow_networks: match of("delivery.allow_networks") {
                Some(Value::Networks(networks)) => networks.clone(),
                _ => Vec::new(),
            },
        },
        webhook: Webhook {
            connect_timeout: duration("webhook.connect_timeout"),
            header_timeout: duration("webhook.header_timeout"),
            body_timeout: duration("webhook.body_timeout"),
            response_bytes_max: size("webhook.response_bytes_max"),
            idle_timeout: duration("webhook.idle_timeout"),
            idle_per_origin_max: size("webhook.idle_per_origin_max"),
            idle_max: size("webhook.idle_max"),
            allow_ports: match of("webhook.allow_ports") {
                Some(Value::Ports(ranges)) => ranges.clone(),
                _ => Vec::new(),
            },
            ca_file: path("webhook.ca_file"),
            client_certificate_file: path("webhook.client_certificate_file"),
            client_key_file: path("webhook.client_key_file"),
            proxy: match of("webhook.proxy") {
                Some(Value::Proxy(proxy)) => proxy.clone(),
                _ => None,
            },
            proxy_credentials_file: path("webhook.proxy_credentials_file"),
            proxy_resolves: match of("webhook.proxy_resolves") {
                Some(Value::Flag(true)) => Resolves::Proxy,
                _ => Resolves::Here,
            },
        },
        defaults: Defaults {
            implicit_namespaces: match of("defaults.implicit_namespaces") {
                Some(Value::Flag(false)) => ImplicitNamespaces::Refuse,
                _ => ImplicitNamespaces::Create,
            },
        },
        limits: Bounds {
            namespaces_max: number("limits.namespaces_max").unwrap_or(0),
            implicit_namespaces_per_second: u32::try_from(size(
                "limits.implicit_namespaces_per_second",
            ))
            .unwrap_or(u32::MAX),
        },
        log: Log {
            level: word("log.level").to_owned(),
            format: match word("log.format") {
                "json" => logging::Format::Json,
                _ => logging::Format::Text,
            },
        },
        drain: Drain { timeout: duration("drain.timeout") },
        values,
    }
}
