//! Checks conflicts between values that are allowed on their own.
//!
//! A check is skipped if one of its keys is invalid by itself: the configuration has the default then.

use std::path::{PathBuf, absolute};

use duly_store_embedded::memory_limit;
use duly_store_redis::Check;

use super::{
    AbsolutePath, AllowLoopback, AuthMode, Config, Layers, ListenAddress, Origin, Risk, StoreUrl,
    keys::{StoreKind, key, shown},
    numbers::bytes_text,
};
use crate::serve::HEAD_BYTES_MAX;

/// Segments are written in pages.
const PAGE_BYTES: u64 = 4096;

/// Notes conflicts of a configuration.
struct Conflicts<'a> {
    config: &'a Config,
    layers: &'a mut Layers,
}

impl Conflicts<'_> {
    /// Notes that a key has a value that is not allowed beside that of another one.
    fn note(&mut self, [key, other]: [&'static str; 2], seen: impl Into<String>, allowed: String) {
        if !self.layers.is_refused(key) && !self.layers.is_refused(other) {
            self.layers.refuse(key, self.config.origin(key), seen.into(), allowed);
        }
    }

    /// Notes that a key has no effect while another one is empty.
    fn note_alone(&mut self, [key, other]: [&'static str; 2], [seen, unset]: [&str; 2]) {
        let allowed = format!("{unset}, or set together with {other}, which is empty");
        self.note([key, other], seen, allowed);
    }
}

/// Notes conflicts, and lowers defaults that would not fit another value.
pub(super) fn check(config: &mut Config, layers: &mut Layers) {
    if config.is_default(key!(server.connections_max)) {
        config.server.connections_max.lower_to(connections_within(memory_limit()));
    }
    let mut conflicts = Conflicts { config, layers };
    check_addresses(config, &mut conflicts);
    if let Some(path) =
        config.auth.root_key_file.as_ref().filter(|_| !config.auth.mode.contains(&AuthMode::Keys))
    {
        let keys = [key!(auth.root_key_file), key!(auth.mode)];
        let seen = shown(&path.0.as_str().into());
        let allowed = format!("left out, or set together with \"keys\" in {}", key!(auth.mode));
        conflicts.note(keys, seen, allowed);
    }
    check_modes(config, &mut conflicts);
    check_bounds(config, &mut conflicts);
    check_directories(config, &mut conflicts);
    check_webhooks(config, &mut conflicts);
    check_pair(
        [key!(tls.certificate_file), key!(tls.key_file)],
        [&config.tls.certificate_file, &config.tls.key_file],
        &mut conflicts,
    );
    match &config.store.url {
        Some(url) => check_shared_store(config, url, &mut conflicts),
        None => check_embedded_store(config, &mut conflicts),
    }
    if config.is_default(key!(delivery.pull_waiters_max)) {
        let most = waiters_within(config.server.connections_max.get());
        config.delivery.pull_waiters_max.lower_to(most);
    }
}

impl Config {
    fn is_default(&self, key: &str) -> bool {
        self.origin(key) == Origin::Default
    }
}

/// Returns the number of connections whose heads of requests fit an eighth of a memory limit, at
/// least 256.
pub(super) fn connections_within(memory_limit: u64) -> u64 {
    (memory_limit / 8 / u64::from(HEAD_BYTES_MAX)).max(256)
}

/// Returns the number of lease calls that may wait on some connections: over HTTP/1.1 each holds one.
fn waiters_within(connections: u64) -> u64 {
    (connections - connections.div_ceil(4)).max(1)
}

/// Each means by which callers prove who they are needs its settings, and these have no effect without it.
fn check_modes(config: &Config, conflicts: &mut Conflicts<'_>) {
    let (mode, jwt) = (key!(auth.mode), &config.jwt);
    let keys = if jwt.jwks_file.is_some() { key!(jwt.jwks_file) } else { key!(jwt.jwks_url) };
    let has_keys = jwt.jwks_file.is_some() || jwt.jwks_url.is_some();
    let mtls = [(key!(tls.client_ca_file), config.tls.client_ca_file.is_some())];
    let tokens = [
        (key!(jwt.issuer), jwt.issuer.is_some()),
        (key!(jwt.audience), jwt.audience.is_some()),
        (keys, has_keys),
    ];
    let means = [("mtls", AuthMode::Mtls, &mtls[..]), ("jwt", AuthMode::Jwt, &tokens[..])];
    for (name, wanted, settings) in means {
        if config.auth.mode.contains(&wanted) {
            let missing: Vec<_> =
                settings.iter().filter(|(_, is_set)| !is_set).map(|(key, _)| *key).collect();
            if let Some(first) = missing.first() {
                let missing = missing.join(", ");
                let allowed = format!("without {name:?}, or set together with {missing}");
                conflicts.note([mode, first], name, allowed);
            }
        } else {
            for (key, _) in settings.iter().filter(|(_, is_set)| *is_set) {
                let allowed = format!("left out, or set together with {name:?} in {mode}");
                conflicts.note([key, mode], "set", allowed);
            }
        }
    }
    if jwt.jwks_file.is_some() && jwt.jwks_url.is_some() {
        let (key, other) = (key!(jwt.jwks_file), key!(jwt.jwks_url));
        conflicts.note([key, other], "set", format!("left out beside {other}"));
    }
    if config.tls.client_ca_file.is_some() && config.tls.certificate_file.is_none() {
        let keys = [key!(tls.client_ca_file), key!(tls.certificate_file)];
        conflicts.note_alone(keys, ["set", "left out"]);
    }
}

/// Without encryption and authentication, other machines must not reach the server.
fn check_addresses(config: &Config, conflicts: &mut Conflicts<'_>) {
    let is_secure = config.tls.certificate_file.is_some() && !config.auth.mode.is_empty();
    if is_secure || config.auth.external {
        return;
    }
    let listen = config.server.listen.0.iter().map(|address| (key!(server.listen), address));
    let admin = config.server.admin_listen.iter().map(|it| (key!(server.admin_listen), it));
    for (key, ListenAddress(address)) in listen.chain(admin) {
        if !address.is_local() {
            let other = key!(auth.external);
            let allowed = format!(
                "a loopback address or a Unix socket, because other machines reach {address}: set \
                 tls.certificate_file, tls.key_file and auth.mode = [\"keys\"]; or, where a proxy or \
                 service mesh encrypts connections and checks callers, {other} = true"
            );
            conflicts.note([key, other], shown(&address.to_string().into()), allowed);
        }
    }
}

/// Checks numbers that other values bound. A default that is too large is no conflict: it is lowered, or
/// the other bound applies.
fn check_bounds(config: &Config, conflicts: &mut Conflicts<'_>) {
    let (key, other) = (key!(server.body_bytes_max), key!(server.request_memory_max));
    if let Some(all) = config.server.request_memory_max {
        // A quarter is kept for small bodies.
        let (largest, most) = (config.server.body_bytes_max.get(), all.get() - all.get() / 4);
        if largest > most && !config.is_default(key) {
            let (most, all) = (bytes_text(most), bytes_text(all.get()));
            let allowed = format!("at most {most}, three quarters of {other}, which is {all}");
            conflicts.note([key, other], bytes_text(largest), allowed);
        }
    }
    let (key, other) = (key!(delivery.pull_waiters_max), key!(server.connections_max));
    let waiters = config.delivery.pull_waiters_max.get();
    let connections = config.server.connections_max.get();
    let most = waiters_within(connections);
    if waiters > most && !config.is_default(key) {
        let allowed = format!(
            "at most {most}, three quarters of {other}, which is {connections}: calls that wait \
             must leave connections for everything else"
        );
        conflicts.note([key, other], waiters.to_string(), allowed);
    }
    let (key, bytes) = (key!(store.segment_bytes), config.store.segment_bytes.get());
    if !bytes.is_multiple_of(PAGE_BYTES) {
        conflicts.note([key, key], bytes.to_string(), format!("a multiple of {PAGE_BYTES}"));
    }
}

/// Backups are outside of the data directory, and scheduled ones have a directory.
fn check_directories(config: &Config, conflicts: &mut Conflicts<'_>) {
    if config.store.backup_every.is_some() {
        let (every, keep, most) =
            (key!(store.backup_every), key!(store.backup_keep), key!(store.backups_max));
        if config.store.backup_dir.is_none() && config.store.data_dir().is_some() {
            conflicts.note_alone([every, key!(store.backup_dir)], ["set", "left out"]);
        }
        let (kept, max) = (config.store.backup_keep.get(), config.store.backups_max.get());
        if kept >= max {
            let allowed = format!("less than {most}, which is {max}: the next one is made first");
            conflicts.note([keep, most], kept.to_string(), allowed);
        }
    }
    let (key, other) = (key!(store.backup_dir), key!(store.data));
    if let (Some(backups), Ok(data)) = (&config.store.backup_dir, absolute(&*config.store.data)) {
        let without_dots: PathBuf = backups.components().collect();
        if without_dots.starts_with(&data) {
            let allowed = format!("outside of {other}, which is {}", data.display());
            conflicts.note([key, other], shown(&backups.0.as_str().into()), allowed);
        }
    }
}

/// A file that is named, and the value that it must have.
const FILE: [&str; 2] = ["a file", "empty"];

/// A certificate and its key are named together.
fn check_pair(
    [certificate, key]: [&'static str; 2],
    files: [&Option<AbsolutePath>; 2],
    conflicts: &mut Conflicts<'_>,
) {
    match files {
        [Some(_), None] => conflicts.note_alone([certificate, key], FILE),
        [None, Some(_)] => conflicts.note_alone([key, certificate], FILE),
        _ => {}
    }
}

fn check_webhooks(config: &Config, conflicts: &mut Conflicts<'_>) {
    let (key, other) = (key!(delivery.allow_loopback), key!(server.allowed_hosts));
    let is_open = config.delivery.allow_loopback == AllowLoopback::Always;
    if is_open && !config.server.allowed_hosts.is_empty() {
        // A proxy in front lets other machines call, which would reach loopback by a webhook.
        let allowed = format!(
            "\"auto\" or \"never\" where {other} is set; for receivers on this machine name their \
             addresses in {}",
            key!(delivery.allow_networks)
        );
        conflicts.note([key, other], "\"always\"", allowed);
    }
    let webhook = &config.webhook;
    check_pair(
        [key!(webhook.client_certificate_file), key!(webhook.client_key_file)],
        [&webhook.client_certificate_file, &webhook.client_key_file],
        conflicts,
    );
    let certificate = key!(webhook.client_certificate_file);
    let namespaces = key!(webhook.client_certificate_namespaces);
    let is_for_none = webhook.client_certificate_namespaces.is_empty();
    match (&webhook.client_certificate_file, is_for_none) {
        (Some(_), true) => {
            let allowed = format!(
                "left out, or set together with {namespaces}, the list of namespaces whose deliveries show it, \
                 such as [\"billing\", \"orders-*\"], or [\"*\"] for all"
            );
            conflicts.note([certificate, namespaces], "a file", allowed);
        }
        (None, false) => conflicts.note_alone([namespaces, certificate], ["a list", "left out"]),
        _ => {}
    }
    let proxy = key!(webhook.proxy);
    if webhook.proxy.is_none() && webhook.proxy_credentials_file.is_some() {
        conflicts.note_alone([key!(webhook.proxy_credentials_file), proxy], FILE);
    }
    if webhook.proxy.is_none() && webhook.proxy_resolves {
        conflicts.note_alone([key!(webhook.proxy_resolves), proxy], ["true", "false"]);
    }
}

fn check_shared_store(config: &Config, url: &StoreUrl, conflicts: &mut Conflicts<'_>) {
    let (store, other) = (&config.store, key!(store.url));
    // The file may name a directory for when there is no URL; a flag asks for the embedded store.
    if matches!(config.origin(key!(store.data)), Origin::Flag(_)) {
        let allowed = format!("left out: {other} is {url}, where there is no data directory");
        conflicts.note([key!(store.data), other], "a directory", allowed);
    }
    if url.has_password() && store.password_file.is_some() {
        let allowed = format!("empty where {other} has a password already");
        conflicts.note([key!(store.password_file), other], "a file", allowed);
    }
    if !url.is_tls() && store.ca_file.is_some() {
        let allowed = format!("empty where {other} begins with redis, or that with rediss");
        conflicts.note([key!(store.ca_file), other], "a file", allowed);
    }
    let (key, other, name) = (key!(store.min_replicas), key!(store.allow), Check::NoReplicas);
    if url.is_cluster() && store.min_replicas.get() == 0 && !store.allow.contains(&Risk(name)) {
        let name = name.as_str();
        let allowed = format!(
            "at least 1 on a Cluster, whose failover otherwise loses acknowledged changes; if you \
             accept that, add {name:?} to {other}"
        );
        conflicts.note([key, other], "0", allowed);
    }
}

/// Keys of the store that nodes share mean nothing without a URL.
fn check_embedded_store(config: &Config, conflicts: &mut Conflicts<'_>) {
    for (key, effective) in config.effective() {
        if key.store == Some(StoreKind::Shared) && effective.value != key.default {
            let seen = key.toml(&effective.value);
            conflicts.note_alone([&key.name, key!(store.url)], [&seen, "left out"]);
        }
    }
}
