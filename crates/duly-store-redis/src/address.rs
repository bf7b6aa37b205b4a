//! The URL of a store: parses it into servers, credentials and the protocol for each connection.

use std::{fmt, path::Path, sync::Arc};

use duly_tls::{
    client::{client_config, system_authorities},
    files,
};
use redis::{ConnectionInfo, IntoConnectionInfo as _, RedisResult};
use rustls::RootCertStore;
use tokio_rustls::TlsConnector;

use crate::{OpenError, Opened, Options};

/// Servers of a store, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Address {
    /// `true`: the servers form a Cluster.
    pub(crate) cluster: bool,
    /// `true`: connections use TLS.
    is_tls: bool,
    /// `user:password@`, or empty.
    login: String,
    /// Makes TLS connections, if they use TLS.
    pub(crate) tls: Option<TlsConnector>,
    /// `host:port` of the servers named in the URL.
    pub(crate) servers: Vec<String>,
}

/// Leaves out the login.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Checks that a URL is one of a store.
///
/// # Errors
/// When it is not. The error shows no part of the URL.
pub fn check_url(url: &str) -> Opened<()> {
    Address::parse(url).map(drop)
}

const PORT: &str = "6379";

impl Address {
    /// Returns the address that these options name, with the password and CA certificates given beside
    /// the URL.
    ///
    /// # Errors
    /// When the URL is invalid, or the CA certificates cannot be read.
    pub(crate) fn new(options: &Options) -> Opened<Self> {
        let mut address = Self::parse(&options.url)?;
        if let Some(password) = &options.password {
            address.login = login(address.login.trim_end_matches('@'), password)?;
        }
        if address.is_tls {
            let connector = connector(options.tls_ca.as_deref());
            let failed = |reason| OpenError::Tls { address: address.servers[0].clone(), reason };
            address.tls = Some(connector.map_err(failed)?);
        }
        Ok(address)
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// When the URL does not have a supported form. The error does not show a password.
    fn parse(url: &str) -> Opened<Self> {
        let refused = |why: &str| Err(OpenError::Url(why.to_owned()));
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (cluster, is_tls) = match scheme {
            "redis" => (false, false),
            "rediss" => (false, true),
            "redis-cluster" => (true, false),
            "rediss-cluster" => (true, true),
            _ => {
                return refused(
                    "it must begin with redis://, rediss://, redis-cluster:// or \
                            rediss-cluster://",
                );
            }
        };
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), rest),
        };
        if login.contains(['/', '?', '#', '[', ']']) || login.matches('@').count() > 1 {
            return refused(
                "user and password must be percent-encoded: %40 for @, %2F for /, %23 for #",
            );
        }
        let hosts = hosts.strip_suffix("/0").or(hosts.strip_suffix('/')).unwrap_or(hosts);
        if hosts.contains(['/', '?', '#']) {
            return refused(
                "it must end after host and port: a deployment has a server, or a Cluster, \
                        of its own, and uses database 0",
            );
        }
        let mut servers = Vec::new();
        for host in hosts.split(',') {
            let named = if host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']')) {
                host.to_owned()
            } else {
                format!("{host}:{PORT}")
            };
            let whole = format!("redis://{named}/");
            let known = url::Url::parse(&whole).ok().filter(|url| url.host_str().is_some());
            if known.is_none() || named.starts_with(':') {
                return refused(
                    "one of its servers is no host and port, such as redis.example:6379",
                );
            }
            servers.push(named);
        }
        if !cluster && servers.len() > 1 {
            return refused("several servers are a Cluster: use redis-cluster://");
        }
        Ok(Self { cluster, is_tls, login, tls: None, servers })
    }

    /// Returns the host, port and login of one server.
    pub(crate) fn info(&self, server: &str) -> RedisResult<ConnectionInfo> {
        // TLS is not the client library's work: see `connect.rs`.
        format!("redis://{}{server}/", self.login).into_connection_info()
    }
}

/// Returns what makes TLS connections to servers that the system's authorities vouch for, or those of a file.
fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let trusted = match authorities {
        None => system_authorities().map_err(|error| error.to_string())?,
        Some(path) => {
            let unusable = |reason| format!("the CA certificates in {}: {reason}", path.display());
            let mut trusted = RootCertStore::empty();
            for certificate in files::certificates(path).map_err(unusable)? {
                trusted.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            trusted
        }
    };
    let config = client_config(trusted, None).map_err(|error| error.to_string())?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns `user:password@` with the password percent-encoded.
fn login(user: &str, password: &str) -> Opened<String> {
    if user.contains(':') {
        return Err(OpenError::Url(
            "it has a password, and the password option is set too; remove one of them".to_owned(),
        ));
    }
    let encoded = url::Url::parse("redis://h/").ok().and_then(|mut url| {
        url.set_password(Some(password)).ok()?;
        url.password().map(str::to_owned)
    });
    let encoded = encoded.ok_or_else(|| OpenError::Url("the password is empty".to_owned()))?;
    Ok(format!("{user}:{encoded}@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused_with_the_allowed_forms() {
        let one = Address::parse("redis://u:p@h").unwrap();
        assert_eq!((one.cluster, one.servers.clone()), (false, vec!["h:6379".to_owned()]));
        for whole in ["redis://h:6379/0", "redis://h:6379/", "redis://h/0"] {
            assert_eq!(Address::parse(whole).unwrap().servers, ["h:6379"], "{whole}");
        }
        let many = Address::parse("rediss-cluster://a:1,b,[::1]:7").unwrap();
        assert_eq!((many.cluster, many.servers.len()), (true, 3));
        for (url, part) in [
            ("http://h", "redis-cluster://"),
            ("h:6379", "redis://"),
            ("redis://h/3", "database 0"),
            ("redis://a,b", "redis-cluster://"),
            ("redis://", "no host"),
            ("redis://h:x", "no host"),
            ("redis://u:a/b@h", "percent-encoded"),
            ("redis://u:a@b@h", "percent-encoded"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
        let error = Address::parse("redis://u:secret@h/1").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn password_option_is_percent_encoded_and_excludes_one_in_url() {
        let mut options = Options::new("redis://u@h");
        options.password = Some("a/b@c:d%#é".to_owned());
        let address = Address::new(&options).unwrap();
        let info = address.info("h:6379").unwrap();
        assert_eq!(info.redis_settings().username(), Some("u"));
        assert_eq!(info.redis_settings().password(), Some("a/b@c:d%#é"));
        assert!(!format!("{address:?} {options:?}").contains("a/b"));
        options.url = "redis://h".to_owned();
        let info = Address::new(&options).unwrap().info("h:6379").unwrap();
        assert_eq!(info.redis_settings().username(), None);
        options.url = "redis://u:p@h".to_owned();
        assert!(Address::new(&options).is_err());
    }
}
