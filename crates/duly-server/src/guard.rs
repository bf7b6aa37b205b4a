//! Refuses callers that must not call: web pages of other origins, and webhooks.
//!
//! 1. A page's script can send requests to `127.0.0.1`, but their `Origin` names the page.
//! 2. A page can make its own name resolve to `127.0.0.1` (DNS rebinding), but `Host` then has that
//!    name. Both headers are checked on every request.
//! 3. A delivery that comes back as a call, through any proxy, has a header that only Duly sets (as in
//!    RFC 8586). Without this check, a caller could schedule a delivery that makes Duly call its own
//!    interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use duly_core::{Code, headers::LOOP, invalid::shorten};
use http::{HeaderMap, Request, Uri, Version, header::HOST, header::ORIGIN};
use ipnet::IpNet;

use crate::{auth::Peer, operations::probe_paths, problem::Problem};

/// Header in which proxies name the address of the caller.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Allowed values of `Host`, for messages.
const HOSTS_ALLOWED: &str = "localhost, a loopback address, an address the server listens on, or \
                             one of server.allowed_hosts";

/// The allowed values of `Host` and `Origin`.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Addresses that the server listens on.
    pub listen: Vec<IpAddr>,
    /// Further names that `Host` may have, without port.
    pub allowed_hosts: Vec<String>,
    /// Origins that may call, as `scheme://host:port`.
    pub allowed_origins: Vec<String>,
    /// Networks of proxies that name the address of their callers.
    pub trusted_proxies: Vec<IpNet>,
}

impl Guard {
    /// Checks a request.
    ///
    /// A health check of HTTP/1.0 names no host. It passes: no browser sends such a request, and it
    /// changes nothing.
    pub(crate) fn check_request<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let names_none = request.version() == Version::HTTP_10
            && request.uri().authority().is_none()
            && ![HOST.as_str(), ORIGIN.as_str(), LOOP]
                .iter()
                .any(|name| request.headers().contains_key(*name));
        if names_none && probe_paths().any(|probe| probe == request.uri().path()) {
            return Ok(());
        }
        self.check(request.uri(), request.headers())
    }

    /// Returns the other end with the address of the caller, whose connection comes from `peer`: the last one in
    /// `X-Forwarded-For` that is no proxy's, if the connection is a proxy's.
    pub(crate) fn behind_proxies(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if self.trusted_proxies.is_empty() {
            return peer;
        }
        let is_proxy = |address: Option<IpAddr>| {
            address.is_none_or(|address| {
                let address = address.to_canonical();
                self.trusted_proxies.iter().any(|network| network.contains(&address))
            })
        };
        let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().rev().collect();
        let hops = lines.into_iter().flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
        let mut address = peer.address;
        for hop in hops {
            if !is_proxy(address) {
                break;
            }
            // Some proxies add the port. The address of a proxy stands for no caller.
            let hop = hop.trim();
            let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
            address = hop.parse::<IpAddr>().ok().or_else(with_port);
            if address.is_none() {
                break;
            }
        }
        Peer { address, ..peer }
    }

    /// Checks the headers of a request.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        if headers.contains_key(LOOP) {
            return Err(looped());
        }
        let authority = self.check_host(uri, headers)?;
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let origin = origin.to_str().unwrap_or("unreadable");
        let is_own = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|own| own.eq_ignore_ascii_case(authority));
        if is_own || self.allows_origin(origin) {
            return Ok(());
        }
        let allowed = "the server's own origin, or one of server.allowed_origins";
        Err(refuse("origin", origin, allowed))
    }

    /// Returns `true` if pages of this origin may call, besides the server's own.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// Returns the host and port that the caller named.
    fn check_host<'r>(&self, uri: &'r Uri, headers: &'r HeaderMap) -> Result<&'r str, Problem> {
        let mut hosts = headers.get_all(HOST).iter();
        let header = hosts.next().map(|value| value.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            // Which header counts differs between programs; a proxy in front may choose another one.
            let detail = "a request names its host once: send one 'host' header";
            return Err(Problem::new(Code::InvalidArgument, detail).at("host", None, "given once"));
        }
        // A target in absolute form names a host too, and HTTP/2 has a field for it.
        let target = uri.authority().map(http::uri::Authority::as_str);
        let mut named = header.into_iter().chain(target);
        if let Some(refused) = named.find(|authority| !self.allows_host(authority)) {
            return Err(refuse("host", refused, HOSTS_ALLOWED));
        }
        header.or(target).ok_or_else(|| {
            let detail =
                "a request must name its host: send a header such as 'host: localhost:3859'";
            Problem::new(Code::InvalidArgument, detail).at("host", None, HOSTS_ALLOWED)
        })
    }

    fn allows_host(&self, authority: &str) -> bool {
        // A name may be made to resolve to any address; an address is what it is.
        let by_address = |address: IpAddr| {
            address.is_loopback()
                || self.listen.iter().any(|own| *own == address || own.is_unspecified())
        };
        match host_of(authority) {
            Some(RequestHost::Address(address)) => by_address(address),
            Some(RequestHost::Name(name)) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
            }
            None => false,
        }
    }
}

/// Refuses a delivery of Duly that came back as a call.
fn looped() -> Problem {
    let allowed = "left out: every delivery of Duly has it, and a delivery must not call Duly";
    let detail = format!(
        "{LOOP} must be {allowed}. Point the webhook at a receiver of its own; a receiver that calls \
         Duly does not forward the headers of a delivery"
    );
    Problem::new(Code::PermissionDenied, detail).at(LOOP, None, allowed)
}

fn refuse(header: &str, seen: &str, allowed: &str) -> Problem {
    let seen = shorten(seen);
    let detail = format!("{header} must be {allowed}; got {seen}");
    Problem::new(Code::PermissionDenied, detail).at(header, Some(seen), allowed)
}

/// The host that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestHost<'a> {
    Address(IpAddr),
    Name(&'a str),
}

/// Reads `host` or `host:port` (RFC 9110, 7.2): an IPv6 address in brackets, an IPv4 address, or a name.
/// Returns `None` for any other text.
fn host_of(authority: &str) -> Option<RequestHost<'_>> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return is_whole.then_some(RequestHost::Address(address.into()));
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let host = host
        .parse::<Ipv4Addr>()
        .map_or(RequestHost::Name(host), |ip| RequestHost::Address(ip.into()));
    is_port(port).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            listen: vec![IpAddr::from([127, 0, 0, 1])],
            allowed_hosts: vec!["duly.internal".into()],
            allowed_origins: vec!["https://console.example".into()],
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        }
    }

    #[test]
    fn only_trusted_proxies_name_the_address_of_a_caller() {
        let check = |connection: Option<&str>, forwarded: &[&str], expected: Option<&str>| {
            let peer = |text: Option<&str>| Peer {
                address: text.map(|text| text.parse().unwrap()),
                certificate: None,
            };
            let lines = forwarded.iter().map(|line| (FORWARDED_FOR.parse().unwrap(), *line));
            let lines =
                lines.map(|(name, line): (http::HeaderName, _)| (name, line.parse().unwrap()));
            let mut headers = HeaderMap::new();
            headers.extend(lines);
            let found = guard().behind_proxies(peer(connection), &headers);
            assert_eq!(found, peer(expected), "{connection:?} {forwarded:?}");
        };
        check(Some("192.0.2.1"), &["198.51.100.7"], Some("192.0.2.1"));
        check(Some("10.0.0.1"), &[], Some("10.0.0.1"));
        check(Some("10.0.0.1"), &["198.51.100.7"], Some("198.51.100.7"));
        check(Some("::ffff:10.0.0.1"), &["198.51.100.7"], Some("198.51.100.7"));
        check(None, &["198.51.100.7"], Some("198.51.100.7"));
        // What the caller itself has sent comes first, and is not believed.
        check(Some("10.0.0.1"), &["10.9.9.9, 198.51.100.7"], Some("198.51.100.7"));
        check(Some("10.0.0.1"), &["10.9.9.9", "198.51.100.7"], Some("198.51.100.7"));
        check(Some("10.0.0.1"), &["x, 198.51.100.7,10.0.0.2"], Some("198.51.100.7"));
        check(Some("10.0.0.1"), &["2001:db8::7, fd00::1"], Some("2001:db8::7"));
        check(Some("10.0.0.1"), &["198.51.100.7:5678"], Some("198.51.100.7"));
        check(Some("10.0.0.1"), &["198.51.100.7, unknown"], None);
    }

    fn check(host: Option<&str>, origin: Option<&str>) -> Result<(), Code> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard().check(&Uri::from_static("/"), &headers).map_err(|problem| problem.code())
    }

    #[test]
    fn only_known_hosts() {
        let denied = Err(Code::PermissionDenied);
        for host in [
            "localhost",
            "LOCALHOST:3859",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:3859",
            "[::1]",
            "duly.internal:80",
        ] {
            assert_eq!(check(Some(host), None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "[::2]",
            "[127.0.0.1]evil",
            "[127.0.0.1]",
            "[::1]evil",
            "[::1]:80evil",
            "[::1",
            "::1",
            "localhost:80evil",
            "localhost:80:80",
            "evil@localhost",
            "localhost@evil",
            "localhost,evil",
        ] {
            assert_eq!(check(Some(host), None), denied, "{host}");
        }
        assert_eq!(check(None, None), Err(Code::InvalidArgument));
    }

    #[test]
    fn a_request_names_its_host_once() {
        let check = |uri: &'static str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().unwrap());
            }
            let checked = guard().check(&Uri::from_static(uri), &headers);
            checked.map_err(|problem| problem.code())
        };
        let (twice, denied) = (Err(Code::InvalidArgument), Err(Code::PermissionDenied));
        assert_eq!(check("/", &["localhost"]), Ok(()));
        for hosts in [["localhost", "localhost"], ["localhost", "evil"], ["evil", "localhost"]] {
            assert_eq!(check("/", &hosts), twice, "{hosts:?}");
        }
        assert_eq!(check("http://localhost/", &[]), Ok(()));
        assert_eq!(check("http://localhost/", &["localhost:80"]), Ok(()));
        assert_eq!(check("http://evil/", &["localhost"]), denied);
        assert_eq!(check("http://localhost/", &["evil"]), denied);
    }

    #[test]
    fn a_delivery_that_comes_back_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost".parse().unwrap());
        let check = |headers: &HeaderMap| guard().check(&Uri::from_static("/"), headers);
        assert!(check(&headers).is_ok());
        for value in ["duly", "", "anything"] {
            headers.insert(LOOP, value.parse().unwrap());
            let problem = check(&headers).expect_err("refused").into_body();
            assert_eq!(
                (&problem.code[..], problem.field.as_deref()),
                (Code::PermissionDenied.as_str(), Some(LOOP))
            );
        }
    }

    #[test]
    fn only_known_origins() {
        let denied = Err(Code::PermissionDenied);
        let with = |origin| check(Some("localhost:3859"), Some(origin));
        assert_eq!(with("http://localhost:3859"), Ok(()));
        assert_eq!(with("https://console.example"), Ok(()));
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost",
            "http://localhost:3860",
            "http://127.0.0.1:3859",
            "https://console.example.evil",
        ] {
            assert_eq!(with(origin), denied, "{origin}");
        }
    }
}
