//! Values that say what webhooks reach and by what way: ports, a proxy.

use std::{fmt, ops::RangeInclusive};

use url::Url;

/// Reads `443` or `8000-8999`.
pub(super) fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    (first <= last).then_some(first..=last)
}

/// Ports as they are written.
pub(super) fn ports_text(range: &RangeInclusive<u16>) -> String {
    let (first, last) = (range.start(), range.end());
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Where an HTTP proxy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// Name or address, the latter without brackets.
    pub host: String,
    /// Port; 80 where none was given.
    pub port: u16,
}

impl ProxyUrl {
    /// Reads `http://host:port`; nothing else may stand in it, a password least of all.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let plain = url.scheme() == "http"
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().filter(|port| *port != 0)?;
        plain.then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "http://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "http://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range_that_goes_up() {
        for (text, expected) in [
            ("443", Some(443..=443)),
            (" 8000 - 8999 ", Some(8000..=8999)),
            ("1-65535", Some(1..=65535)),
            ("0", None),
            ("0-5", None),
            ("9-8", None),
            ("65536", None),
            ("http", None),
            ("-5", None),
        ] {
            assert_eq!(ports(text), expected, "{text:?}");
        }
        assert_eq!(ports_text(&(443..=443)), "443");
        assert_eq!(ports_text(&(1..=2)), "1-2");
    }

    #[test]
    fn a_proxy_is_host_and_port_and_no_password() {
        for (text, expected) in [
            ("http://proxy.example:3128", Some("http://proxy.example:3128")),
            ("http://PROXY.example/", Some("http://proxy.example:80")),
            ("http://[fd00::1]:3128", Some("http://[fd00::1]:3128")),
            ("http://user:password@proxy.example:3128", None),
            ("http://user@proxy.example:3128", None),
            ("https://proxy.example:3128", None),
            ("socks5://proxy.example:1080", None),
            ("proxy.example:3128", None),
            ("http://proxy.example/path", None),
            ("http://proxy.example:0", None),
        ] {
            let read = ProxyUrl::parse(text).map(|proxy| proxy.to_string());
            assert_eq!(read.as_deref(), expected, "{text:?}");
        }
    }
}
