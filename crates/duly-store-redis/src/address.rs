//! The URL of a store, taken apart: which servers, and how to speak to each.

use crate::OpenError;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Whether it is a Cluster.
    pub(crate) cluster: bool,
    /// `redis` or `rediss`.
    scheme: &'static str,
    /// `user:password@`, or nothing.
    login: String,
    /// `host:port` of the servers that were named.
    pub(crate) servers: Vec<String>,
}

const PORT: &str = "6379";

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is not of a form that this store understands; a password in it is not shown.
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (cluster, scheme) = match scheme {
            "redis" => (false, "redis"),
            "rediss" => (false, "rediss"),
            "redis-cluster" => (true, "redis"),
            "rediss-cluster" => (true, "rediss"),
            other => {
                return Err(OpenError::Url(format!(
                    "it must begin with redis://, rediss://, redis-cluster:// or \
                     rediss-cluster://; got {other:?}"
                )));
            }
        };
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), rest),
        };
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        if hosts.contains(['/', '?', '#']) {
            let text = "it must end after host and port: a deployment has a server, or a Cluster, \
                        of its own, and uses database 0";
            return Err(OpenError::Url(text.to_owned()));
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
                return Err(OpenError::Url(format!("{host:?} is no host and port")));
            }
            servers.push(named);
        }
        if !cluster && servers.len() > 1 {
            let text = "several servers are a Cluster: use redis-cluster://";
            return Err(OpenError::Url(text.to_owned()));
        }
        Ok(Self { cluster, scheme, login, servers })
    }

    /// The URL of one server.
    pub(crate) fn of(&self, server: &str) -> String {
        format!("{}://{}{server}/", self.scheme, self.login)
    }

    /// The URL of one server, for a connection on which the server may speak first.
    pub(crate) fn pushed(&self, server: &str) -> String {
        format!("{}?protocol=resp3", self.of(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood_or_refused_with_what_is_allowed() {
        let one = Address::parse("redis://u:p@h").unwrap();
        assert_eq!((one.cluster, one.servers.clone()), (false, vec!["h:6379".to_owned()]));
        assert_eq!(one.of("h:6379"), "redis://u:p@h:6379/");
        let many = Address::parse("rediss-cluster://a:1,b,[::1]:7").unwrap();
        assert_eq!((many.cluster, many.servers.len()), (true, 3));
        assert_eq!(many.pushed("a:1"), "rediss://a:1/?protocol=resp3");
        for (url, part) in [
            ("http://h", "redis-cluster://"),
            ("h:6379", "redis://"),
            ("redis://h/3", "database 0"),
            ("redis://a,b", "redis-cluster://"),
            ("redis://", "no host"),
            ("redis://h:x", "no host"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
        let error = Address::parse("redis://u:secret@h/1").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
