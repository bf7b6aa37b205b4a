//! The URL of a store: parses it into servers, credentials and the protocol for each connection.

use std::{fmt, sync::Arc};

use redis::{Client, IntoConnectionInfo as _, RedisResult, TlsCertificates, io::tcp::TcpSettings};

use crate::{OpenError, Opened, Options};

/// Servers of a store, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Address {
    /// `true`: the servers form a Cluster.
    pub(crate) cluster: bool,
    /// `redis` or `rediss`.
    scheme: &'static str,
    /// `user:password@`, or empty.
    login: String,
    /// CA certificates to trust, in PEM.
    authorities: Option<Arc<[u8]>>,
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
        if let Some(path) = &options.tls_ca {
            let read = duly_tls::files::read(path).map_err(|error| {
                OpenError::Url(format!(
                    "cannot read the CA certificates in {}: {error}",
                    path.display()
                ))
            });
            address.authorities = Some(read?.into());
        }
        Ok(address)
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// When the URL does not have a supported form. The error does not show a password.
    pub(crate) fn parse(url: &str) -> Opened<Self> {
        let refused = |why: &str| Err(OpenError::Url(why.to_owned()));
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (cluster, scheme) = match scheme {
            "redis" => (false, "redis"),
            "rediss" => (false, "rediss"),
            "redis-cluster" => (true, "redis"),
            "rediss-cluster" => (true, "rediss"),
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
        Ok(Self { cluster, scheme, login, authorities: None, servers })
    }

    /// Returns a client for one server.
    pub(crate) fn client(&self, server: &str) -> RedisResult<Client> {
        self.client_of(self.of(server))
    }

    /// Returns a client for one server that receives pushed messages (RESP3).
    pub(crate) fn listener(&self, server: &str) -> RedisResult<Client> {
        self.client_of(format!("{}?protocol=resp3", self.of(server)))
    }

    fn client_of(&self, url: String) -> RedisResult<Client> {
        // Calls share connections. Without `TCP_NODELAY` a call waits in the kernel until the one
        // before it has been acknowledged, which takes as long as a reply.
        let at_once = TcpSettings::default().set_nodelay(true);
        let server = url.into_connection_info()?.set_tcp_settings(at_once);
        match &self.authorities {
            Some(pem) if self.scheme == "rediss" => {
                let root_cert = Some(pem.to_vec());
                Client::build_with_tls(server, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(server),
        }
    }

    /// Returns the URL of one server.
    fn of(&self, server: &str) -> String {
        format!("{}://{}{server}/", self.scheme, self.login)
    }
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
        assert_eq!(one.of("h:6379"), "redis://u:p@h:6379/");
        for whole in ["redis://h:6379/0", "redis://h:6379/", "redis://h/0"] {
            assert_eq!(Address::parse(whole).unwrap().servers, ["h:6379"], "{whole}");
        }
        let many = Address::parse("rediss-cluster://a:1,b,[::1]:7").unwrap();
        assert_eq!((many.cluster, many.servers.len()), (true, 3));
        for client in [one.client("h:6379").unwrap(), one.listener("h:6379").unwrap()] {
            assert!(client.get_connection_info().tcp_settings().nodelay());
        }
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
        let info = address.client("h:6379").unwrap().get_connection_info().clone();
        assert_eq!(info.redis_settings().username(), Some("u"));
        assert_eq!(info.redis_settings().password(), Some("a/b@c:d%#é"));
        assert!(!format!("{address:?} {options:?}").contains("a/b"));
        options.url = "redis://h".to_owned();
        let info = Address::new(&options).unwrap().client("h:6379").unwrap();
        assert_eq!(info.get_connection_info().redis_settings().username(), None);
        options.url = "redis://u:p@h".to_owned();
        assert!(Address::new(&options).is_err());
    }
}
