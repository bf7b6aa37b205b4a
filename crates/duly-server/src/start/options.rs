//! The options of the parts, from the configuration.

use std::net::SocketAddr;

use duly_sink::http::{
    AddressPolicy, Loopback, Options,
    options::{Bounds, ClientFiles, Credentials, Proxy, Timeouts, TlsFiles},
};

use super::error::StartError;
use crate::config::{AllowLoopback, Config, files};

pub(super) fn store_options(config: &Config) -> duly_store_embedded::Options {
    let defaults = duly_store_embedded::Options::default();
    duly_store_embedded::Options {
        segment_bytes: config.store.segment_bytes,
        checkpoint_bytes: config.store.checkpoint_bytes,
        young_bytes: config.store.young_bytes,
        on_clock_jump: config.store.on_clock_jump,
        min_free_bytes: config.store.min_free_bytes,
        min_free_percent: config.store.min_free_percent,
        namespaces_max: config.limits.namespaces_max,
        index_memory_max_bytes: config
            .store
            .index_memory_max_bytes
            .unwrap_or(defaults.index_memory_max_bytes),
        ..defaults
    }
}

pub(super) fn node_options(config: &Config, listen: SocketAddr) -> duly_node::Options {
    let uname = rustix::system::uname();
    let machine = uname.nodename().to_string_lossy();
    duly_node::Options {
        name: format!("{machine}:{}", listen.port()),
        workers_max: config.delivery.workers_max,
        bytes_max: config.delivery.memory_max,
        pull_waiters_max: config.delivery.pull_waiters_max,
        drain_timeout: config.drain.timeout,
        ..duly_node::Options::default()
    }
}

/// Reads the proxy's credentials; what is in the other files is read by the sink.
pub(super) fn sink_options(
    config: &Config,
    listen: SocketAddr,
    admin_listen: Option<SocketAddr>,
) -> Result<Options, StartError> {
    // Names that a `Host` may have are for a proxy in front, which makes of this machine one that
    // others call: a webhook to loopback would reach what they do not.
    let allows = match config.delivery.allow_loopback {
        AllowLoopback::Auto => listen.ip().is_loopback() && config.server.allowed_hosts.is_empty(),
        AllowLoopback::Always => true,
        AllowLoopback::Never => false,
    };
    let webhook = &config.webhook;
    let client = webhook.client_certificate_file.clone().zip(webhook.client_key_file.clone());
    Ok(Options {
        addresses: AddressPolicy {
            loopback: if allows { Loopback::Allowed } else { Loopback::Refused },
            allow: config.delivery.allow_networks.clone(),
            ports: webhook.allow_ports.clone(),
            own: std::iter::once(listen).chain(admin_listen).collect(),
        },
        timeouts: Timeouts {
            connect: webhook.connect_timeout,
            header: webhook.header_timeout,
            body: webhook.body_timeout,
            idle: webhook.idle_timeout,
        },
        bounds: Bounds {
            response_bytes_max: webhook.response_bytes_max,
            idle_per_origin_max: webhook.idle_per_origin_max,
            idle_max: webhook.idle_max,
        },
        tls: TlsFiles {
            ca: webhook.ca_file.clone(),
            client: client.map(|(certificate, key)| ClientFiles { certificate, key }),
        },
        proxy: match &webhook.proxy {
            None => None,
            Some(proxy) => Some(Proxy {
                host: proxy.host.clone(),
                port: proxy.port,
                credentials: credentials(config)?,
                resolves: webhook.proxy_resolves,
            }),
        },
    })
}

fn credentials(config: &Config) -> Result<Option<Credentials>, StartError> {
    let Some(path) = &config.webhook.proxy_credentials_file else {
        return Ok(None);
    };
    let refuse = |reason: String| StartError::ProxyCredentials {
        path: path.clone(),
        origin: config.origin("webhook.proxy_credentials_file"),
        reason,
    };
    files::credentials(path).map(Some).map_err(refuse)
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
        sink_options(&config, ([127, 0, 0, 1], 0).into(), None)
    }

    #[test]
    fn s5_loopback_is_allowed_only_while_nothing_stands_in_front() {
        let policy = |env: &[(&str, &str)]| {
            let env = env.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            let config = load(&Source { env, ..Source::default() }).expect("a configuration");
            let admin = Some(([127, 0, 0, 1], 3860).into());
            let options = sink_options(&config, ([127, 0, 0, 1], 3859).into(), admin);
            options.expect("options").addresses
        };
        let hosts = ("DULY_SERVER__ALLOWED_HOSTS", "duly.example.com");
        assert_eq!(policy(&[]).loopback, Loopback::Allowed);
        assert_eq!(policy(&[hosts]).loopback, Loopback::Refused);
        assert_eq!(policy(&[]).own, [3859, 3860].map(|port| ([127, 0, 0, 1], port).into()));
    }

    #[test]
    fn the_proxys_credentials_come_from_their_file_and_are_never_shown() {
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
