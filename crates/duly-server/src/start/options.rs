//! Converts the configuration into the options of each part.

use std::{path::Path, sync::Arc};

use duly_sink::http::{
    AddressPolicy, Loopback, Options,
    options::{Bounds, Credentials, Proxy, Resolves, Timeouts},
};

use duly_core::{
    Millis, Settings,
    access::{TenantLimit, TenantLimits},
};
use duly_store::Store;

use super::error::StartError;
use crate::{
    audit::{Audit, AuditOptions},
    auth::{
        Auth, AuthModes,
        tokens::{KeysPlace, TokenOptions, Tokens},
    },
    config::{AllowLoopback, AuthMode, Config, Integer, NonEmpty, files, key, or_eighth},
    http::{BackupLimits, Backups, Guard, Limits, MakeBackup},
    listen::Address,
    scheduled_backups::Schedule,
    serve::{ConnectionSettings, Tls},
    telemetry::traces::TraceExport,
};

/// Returns the rules for callers.
pub(super) fn guard(config: &Config, listen: &[Address]) -> Guard {
    let server = &config.server;
    Guard {
        listen: listen.iter().filter_map(Address::tcp).map(|it| it.ip()).collect(),
        allowed_hosts: server.allowed_hosts.iter().map(|host| host.0.clone()).collect(),
        allowed_origins: server.allowed_origins.iter().map(|origin| origin.0.clone()).collect(),
        trusted_proxies: server.trusted_proxies.iter().map(|network| network.0).collect(),
    }
}

/// Returns the settings of a namespace that sets none.
pub(super) fn namespace_defaults(config: &Config) -> Settings {
    let (defaults, mut settings) = (&config.defaults, Settings::default());
    let limits = &mut settings.limits;
    limits.max_pending = defaults.max_pending.map(Integer::get);
    limits.max_dead = defaults.max_dead.get();
    limits.schedule_per_second = defaults.schedule_per_second.map(Integer::as_u32);
    limits.deliver_per_second = defaults.deliver_per_second.map(Integer::as_u32);
    settings
}

/// Returns the limits of connections.
pub(super) fn connections(config: &Config) -> ConnectionSettings {
    ConnectionSettings {
        connections_max: config.server.connections_max.as_usize(),
        per_address_max: config.server.connections_per_address_max.map_or_else(
            || per_address_within(config.server.connections_max.as_usize()),
            Integer::as_usize,
        ),
        trusted_proxies: config.server.trusted_proxies.iter().map(|network| network.0).collect(),
        request_memory_max: or_eighth(config.server.request_memory_max),
        header_timeout: config.server.header_timeout.to_std(),
        write_timeout: config.server.request_timeout.to_std(),
        drain_timeout: config.drain.timeout.to_std(),
    }
}

/// Returns the default of `server.connections_per_address_max`: an eighth of the connections is left to others.
const fn per_address_within(connections: usize) -> usize {
    connections - connections / 8
}

/// Returns the bounds of the HTTP interface.
pub(super) fn http_limits(config: &Config) -> Limits {
    Limits {
        implicit_namespaces_per_second: config.limits.implicit_namespaces_per_second.as_u32(),
        body_bytes_max: config.server.body_bytes_max.as_usize(),
        request_memory_max: or_eighth(config.server.request_memory_max),
        request_timeout: config.server.request_timeout.to_std(),
        tenant_limits_max: tenant_limits_max(config),
    }
}

/// Returns the maxima of limits of tenants: what the server has in all.
fn tenant_limits_max(config: &Config) -> TenantLimits {
    let request_memory = or_eighth(config.server.request_memory_max);
    let of = |number: usize| Some(number as u64);
    TenantLimits::default()
        .with(TenantLimit::MaxNamespaces, of(config.limits.namespaces_max.as_usize()))
        .with(TenantLimit::MaxConnections, of(config.server.connections_max.as_usize()))
        .with(TenantLimit::MaxWaitingCalls, of(config.delivery.pull_waiters_max.as_usize()))
        .with(TenantLimit::MaxRequestBytes, of(request_memory))
}

/// Returns the schedule of backups, if there is one.
pub(super) fn backup_schedule(config: &Config) -> Option<Schedule> {
    let store = &config.store;
    let (Some(every), Some(dir)) = (store.backup_every, &store.backup_dir) else {
        return None;
    };
    let every = Millis::from_ms(every.get());
    Some(Schedule { dir: dir.to_path_buf(), every, keep: store.backup_keep.as_usize() })
}

/// Returns the part that makes the backups of a store.
pub(super) fn backups(config: &Config, store: &Arc<dyn Store>) -> Backups {
    let limits = BackupLimits {
        count_max: config.store.backups_max.as_usize(),
        interval: config.store.backup_interval.to_std(),
    };
    let make = store.backups().is_some().then(|| {
        let store = Arc::clone(store);
        let make = move |path: &Path| {
            store.backups().expect("a store keeps its capabilities").back_up(path)
        };
        Arc::new(make) as Arc<MakeBackup>
    });
    Backups::new(config.store.backup_dir.as_deref().map(Path::to_owned), limits, make)
}

pub(super) fn node_options(
    config: &Config,
    listen: &[Address],
) -> Result<(duly_node::Options, TraceExport), StartError> {
    let uname = rustix::system::uname();
    let machine = uname.nodename().to_string_lossy();
    let place = match &listen[0] {
        Address::Tcp(address) => address.port().to_string(),
        Address::Unix(path) => path.display().to_string(),
    };
    let name = format!("{machine}:{place}");
    let endpoint = config.tracing.otlp_endpoint.as_ref().map(|url| url.reveal());
    let sample_percent = config.tracing.sample_percent.as_u32();
    let (export, traces) =
        TraceExport::start(endpoint, sample_percent, &name).map_err(StartError::Traces)?;
    let options = duly_node::Options {
        name,
        traces,
        workers_max: config.delivery.workers_max.as_usize(),
        bytes_max: or_eighth(config.delivery.memory_max) as u64,
        pull_waiters_max: config.delivery.pull_waiters_max.as_usize(),
        drain_timeout: config.drain.timeout.to_std(),
        ..duly_node::Options::default()
    };
    Ok((options, export))
}

/// Reads the proxy's credentials; the sink reads the other files.
pub(super) fn sink_options(
    config: &Config,
    listen: &[Address],
    admin_listen: Option<&Address>,
) -> Result<Options, StartError> {
    // With names set for `Host`, a proxy stands in front and lets other machines call this one. A
    // webhook to loopback would reach services that those callers cannot reach themselves.
    let allows = match config.delivery.allow_loopback {
        AllowLoopback::Auto => {
            listen.iter().all(Address::is_local) && config.server.allowed_hosts.is_empty()
        }
        AllowLoopback::Always => true,
        AllowLoopback::Never => false,
    };
    let webhook = &config.webhook;
    Ok(Options {
        addresses: AddressPolicy {
            loopback: if allows { Loopback::Allowed } else { Loopback::Refused },
            allow: config.delivery.allow_networks.iter().map(|network| network.0).collect(),
            ports: webhook.allow_ports.iter().map(|range| range.0.clone()).collect(),
            own: listen.iter().chain(admin_listen).filter_map(Address::tcp).collect(),
        },
        timeouts: Timeouts {
            connect: webhook.connect_timeout.to_std(),
            header: webhook.header_timeout.to_std(),
            body: webhook.body_timeout.to_std(),
            idle: webhook.idle_timeout.to_std(),
            connection_age: webhook.connection_age_max.to_std(),
        },
        bounds: Bounds {
            response_bytes_max: webhook.response_bytes_max.as_usize(),
            idle_per_origin_max: webhook.idle_per_origin_max.as_usize(),
            idle_max: webhook.idle_max.as_usize(),
        },
        tls: files::tls_files(config),
        proxy: match &webhook.proxy {
            None => None,
            Some(proxy) => Some(Proxy {
                host: proxy.host.clone(),
                port: proxy.port,
                credentials: credentials(config)?,
                resolves: match webhook.proxy_resolves {
                    true => Resolves::Proxy,
                    false => Resolves::Here,
                },
            }),
        },
    })
}

fn credentials(config: &Config) -> Result<Option<Credentials>, StartError> {
    let Some(path) = config.webhook.proxy_credentials_file.as_deref() else {
        return Ok(None);
    };
    files::credentials(path).map(Some).map_err(|reason| {
        let key = key!(webhook.proxy_credentials_file);
        unusable_file(config, "proxy's credentials", key, path, reason)
    })
}

/// Starts the audit log.
pub(super) fn audit(config: &Config, store: &Arc<dyn Store>) -> Result<Audit, StartError> {
    let audit = &config.audit;
    let options = AuditOptions {
        file: audit.file.as_deref().map(Path::to_owned),
        level: audit.level,
        is_required: audit.required,
        file_bytes_max: audit.file_bytes_max.get(),
        files_max: audit.files_max.as_usize(),
    };
    Audit::start(options, Arc::clone(store)).map_err(|error| {
        let path = audit.file.as_deref().unwrap_or_else(|| Path::new(""));
        unusable_file(config, "audit log", key!(audit.file), path, error.to_string())
    })
}

/// Returns the authentication of callers, without the keys of the store.
pub(super) fn auth(config: &Config, admin_listen: Option<&Address>) -> Result<Auth, StartError> {
    let root = config.auth.root_key_file.as_deref().map(|path| {
        files::root_key(path).map_err(|reason| {
            unusable_file(config, "root key", key!(auth.root_key_file), path, reason)
        })
    });
    let guards_admin = admin_listen.is_some_and(|address| !address.is_local());
    let auth = Auth::new(!config.auth.mode.is_empty(), root.transpose()?.as_ref(), guards_admin);
    let modes = &config.auth.mode;
    let auth = auth.with_modes(AuthModes {
        keys: modes.is_empty() || modes.contains(&AuthMode::Keys),
        certificates: modes.contains(&AuthMode::Mtls),
        tokens: match modes.contains(&AuthMode::Jwt) {
            true => Some(Arc::new(tokens(config)?)),
            false => None,
        },
    });
    let auth = auth.failures_per_second(config.auth.failures_per_second.as_u32());
    Ok(match &config.auth.not_before {
        Some(time) => auth.not_before(time.0),
        None => auth,
    })
}

/// Reads the certificate of the server, if it has one.
/// Returns the tokens of the issuer of `[jwt]`.
fn tokens(config: &Config) -> Result<Tokens, StartError> {
    let jwt = &config.jwt;
    let text = |text: &Option<NonEmpty>| text.as_ref().map(|it| it.0.clone()).unwrap_or_default();
    let file = jwt.jwks_file.as_deref();
    let options = TokenOptions {
        issuer: text(&jwt.issuer),
        audience: text(&jwt.audience),
        keys: match (&jwt.jwks_url, file) {
            (Some(url), _) => {
                KeysPlace::Url { url: url.reveal().to_owned(), shown: url.to_string() }
            }
            (None, file) => KeysPlace::File(file.unwrap_or_else(|| Path::new("")).to_owned()),
        },
        algorithms: files::jwt_algorithms(config),
        groups_claim: jwt.groups_claim.0.clone(),
        reload: jwt.reload.to_std(),
    };
    Tokens::new(options).map_err(|reason| {
        let path = file.unwrap_or_else(|| Path::new(""));
        unusable_file(config, "keys of the token issuer", key!(jwt.jwks_file), path, reason)
    })
}

pub(super) fn tls(config: &Config) -> Result<Option<Tls>, StartError> {
    let tls = files::server_tls(config).map(Tls::new).transpose();
    tls.map_err(|error| {
        unusable_file(config, "server's certificate", error.key, &error.path, error.reason)
    })
}

pub(super) fn unusable_file(
    config: &Config,
    what: &'static str,
    key: &'static str,
    path: &Path,
    reason: String,
) -> StartError {
    StartError::File { what, key, path: path.to_owned(), origin: config.origin(key), reason }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Source, load};

    fn options(text: &str) -> Result<Options, StartError> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("credentials");
        fs::write(&file, text).expect("written");
        let env = [
            ("DULY_WEBHOOK__PROXY", "http://proxy.example:3128"),
            ("DULY_WEBHOOK__PROXY_CREDENTIALS_FILE", file.to_str().expect("text")),
            ("DULY_WEBHOOK__PROXY_RESOLVES", "true"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let config = load(&Source { env, ..Source::default() }).expect("a configuration");
        sink_options(&config, &[Address::Tcp(([127, 0, 0, 1], 0).into())], None)
    }

    #[test]
    fn s5_loopback_is_allowed_only_while_nothing_stands_in_front() {
        let policy = |env: &[(&str, &str)]| {
            let env = env.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            let config = load(&Source { env, ..Source::default() }).expect("a configuration");
            let local = |port| Address::Tcp(([127, 0, 0, 1], port).into());
            let admin = local(3860);
            let options = sink_options(&config, &[local(3859)], Some(&admin));
            options.expect("options").addresses
        };
        let hosts = ("DULY_SERVER__ALLOWED_HOSTS", "duly.example.com");
        assert_eq!(policy(&[]).loopback, Loopback::Allowed);
        assert_eq!(policy(&[hosts]).loopback, Loopback::Refused);
        assert_eq!(policy(&[]).own, [3859, 3860].map(|port| ([127, 0, 0, 1], port).into()));
    }

    #[test]
    fn proxy_credentials_are_read_from_a_file_and_never_shown() {
        let found = options("user:top-secret\n").expect("options");
        assert!(!format!("{found:?}").contains("secret"));
        let proxy = found.proxy.expect("a proxy");
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3128));
        assert_eq!(proxy.credentials, Credentials::new("user:top-secret"));
        for bad in ["top-secret", "user:top\nsecret", ""] {
            let error = options(bad).expect_err("refused").to_string();
            assert!(error.contains("webhook.proxy_credentials_file"), "{error}");
            assert!(error.contains("user:password") && !error.contains("secret"), "{error}");
        }
    }
}
