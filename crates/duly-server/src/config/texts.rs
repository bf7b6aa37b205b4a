//! Values of the configuration that are written as text: addresses, hosts, origins, networks, ports,
//! paths, names. Each type checks its values.
//!
//! Hosts and origins have the form in which requests carry them, because they are compared with
//! requests: a host with a port and an origin without a scheme are refused.

use std::{
    fmt,
    net::IpAddr,
    ops::{Deref, RangeInclusive},
    path::Path,
};

use duly_core::{
    Timestamp, access::NamespacePattern, destination::has_empty_label, invalid::shorten,
};
use duly_store_redis::Check;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use url::{Host as UrlHost, Url};

use super::urls::{may_be_shown, without_secrets};
use crate::{listen::Address, telemetry::logging};

/// The text in place of a refused value that may hold a secret.
pub(super) const NOT_SHOWN: &str = "another value (not shown: it may hold a password)";

/// A value that is written as text; `Display` is the form that is read again.
pub(super) trait TextValue: Sized + fmt::Display {
    /// `true`: a refused text may hold a password, and is shown by [`TextValue::shown`] only.
    const IS_SECRET: bool = false;

    /// Returns the allowed values, as the end of "the key must be …" or of "a list of …".
    fn allowed() -> String;

    /// Reads a text; `None` if it is not allowed.
    fn parse(text: &str) -> Option<Self>;

    /// Returns a refused text as it may be shown: a login in front of a host, or a query, may be a secret.
    fn shown(text: &str) -> String {
        shorten(&without_secrets(text))
    }
}

/// Implements serde and the schema by [`TextValue`].
macro_rules! written_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| D::Error::custom(Self::shown(&text)))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let (allowed, is_secret) = (Self::allowed(), Self::IS_SECRET);
                json_schema!({ "type": "string", "allowed": allowed, "writeOnly": is_secret })
            }
        }
    };
}

pub(super) use written_as_text;

/// Declares a text with one value in it: its name, the allowed values, the function that reads it.
///
/// With a default (`=`) or `as it is`, its `Display` is that of its value.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident($value:ty), $allowed:expr, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(
            /// The checked value.
            pub $value
        );

        impl TextValue for $name {
            fn allowed() -> String {
                $allowed.into()
            }

            fn parse(text: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<$value> = $parse;
                parse(text).map(Self)
            }
        }

        written_as_text!($name);
    };
    ($(#[$doc:meta])* $name:ident($value:ty) = $default:expr, $($rest:tt)*) => {
        text!($(#[$doc])* $name($value) as it is, $($rest)*);

        impl Default for $name {
            fn default() -> Self {
                Self($default.into())
            }
        }
    };
    ($(#[$doc:meta])* $name:ident($value:ty) as it is, $($rest:tt)*) => {
        text!($(#[$doc])* $name($value), $($rest)*);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text!(
    /// An address to listen on.
    ListenAddress(Address) as it is,
    "addresses with a port, such as 127.0.0.1:3859 or [::1]:3859, or files of Unix sockets, such as \
     unix:/run/duly.sock",
    |text| text.trim().parse().ok()
);

/// The addresses of `server.listen`, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(with = "Vec<ListenAddress>")]
pub struct ListenAddresses(
    /// The addresses.
    #[serde(deserialize_with = "at_least_one")]
    pub Vec<ListenAddress>,
);

impl Default for ListenAddresses {
    fn default() -> Self {
        Self(vec![ListenAddress(Address::Tcp(([127, 0, 0, 1], 3859).into()))])
    }
}

fn at_least_one<'de, D>(deserializer: D) -> Result<Vec<ListenAddress>, D::Error>
where
    D: Deserializer<'de>,
{
    let addresses = Vec::deserialize(deserializer)?;
    if addresses.is_empty() { Err(D::Error::custom("no address")) } else { Ok(addresses) }
}

text!(
    /// Name or address of a host, without port and brackets.
    Host(String) as it is,
    "host names or addresses without scheme and port, such as duly.example.com",
    |text| {
        let address = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = address.parse::<IpAddr>() {
            return Some(address.to_string());
        }
        let UrlHost::Domain(name) = UrlHost::parse(text).ok()? else {
            return None;
        };
        // A name holds no other characters; a pattern such as *.example.com is refused.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (name.chars().all(is_plain) && !has_empty_label(&name)).then_some(name)
    }
);

text!(
    /// Origin of a web page as browsers write it: in lower case, without the scheme's own port.
    WebOrigin(String) as it is,
    "origins of web pages, scheme://name or scheme://name:port without a path, such as \
     https://console.example.com",
    |text| {
        let url = Url::parse(text).ok()?;
        let (scheme, rest) = text.split_once("://")?;
        // Host and port are the end: even the slash of a page's address is refused.
        let is_bare = !rest.contains(['/', '?', '#', '@', '\\']);
        if !is_bare || !scheme.eq_ignore_ascii_case(url.scheme()) || url.scheme() == "file" {
            return None;
        }
        if let UrlHost::Domain(name) = url.host()? {
            Host::parse(name)?;
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let host = url.host_str()?.to_ascii_lowercase();
        Some(format!("{}://{host}{port}", url.scheme()))
    }
);

text!(
    /// Network of addresses.
    Network(IpNet) as it is,
    "networks such as 10.1.0.0/16 or fd00::/8",
    |text| text.parse().ok()
);

text!(
    /// Short name of a deployment.
    DeploymentName(String) as it is,
    "1 to 64 letters, digits, '-', '_' and '.', such as orders-prod",
    |text| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = (1..=64).contains(&text.len()) && text.chars().all(fits);
        is_name.then(|| text.to_owned())
    }
);

text!(
    /// A text that is not empty.
    NonEmpty(String) as it is,
    "a text of 1 to 1000 bytes without control characters; a URL has no user, password or query",
    |text| {
        let fits = (1..=1_000).contains(&text.len()) && !text.chars().any(char::is_control);
        (fits && may_be_shown(text)).then(|| text.to_owned())
    }
);

text!(
    /// Name of a claim of a token.
    GroupsClaim(String) = "groups",
    "the name of a claim; a URL has no user, password or query",
    |text| (!text.is_empty() && may_be_shown(text)).then(|| text.to_owned())
);

text!(
    /// Pattern of namespaces.
    Namespaces(NamespacePattern),
    "namespaces: names, beginnings of names with *, or *",
    |text| NamespacePattern::new(text).ok()
);

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

text!(
    /// Point in time.
    Instant(Timestamp) as it is,
    "a time of RFC 3339 such as 2026-11-24T08:00:00Z",
    |text| Timestamp::parse(text).ok()
);

text!(
    /// Filter of log lines.
    LogFilter(String) = "info",
    "a level (error, warn, info, debug, trace) or a filter such as info,duly_node=debug",
    |text| logging::is_filter(text).then(|| text.to_owned())
);

text!(
    /// Path of the data directory; a relative one starts at the working directory of the process.
    DataDir(String) = "./duly-data",
    "a path; the URL of a store goes into store.url",
    |text| (!text.is_empty() && !text.contains("://")).then(|| text.to_owned())
);

text!(
    /// An absolute path.
    AbsolutePath(String) as it is,
    "an absolute path",
    |text| Path::new(text).is_absolute().then(|| text.to_owned())
);

impl Deref for DataDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.as_ref()
    }
}

impl Deref for AbsolutePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.as_ref()
    }
}

text!(
    /// One port, or a range of ports.
    PortRange(RangeInclusive<u16>),
    "ports from 1 to 65535 and ranges of them such as 8000-8999",
    |text| {
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (port(first)?, port(last)?);
        (first <= last).then_some(first..=last)
    }
);

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => first.fmt(f),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

text!(
    /// A setting of Redis that loses timers, and is allowed by its name.
    Risk(Check),
    format!("some of {}", Check::ALL.map(Check::as_str).join(", ")),
    |text| Check::ALL.into_iter().find(|check| check.as_str() == text)
);

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Address of an HTTP proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// Name or address; an address without brackets.
    pub host: String,
    /// Port; 80 if none was given.
    pub port: u16,
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "http://[{host}]:{port}")
        } else {
            write!(f, "http://{host}:{port}")
        }
    }
}

impl TextValue for ProxyUrl {
    const IS_SECRET: bool = true;

    fn allowed() -> String {
        "http://host:port of an HTTP proxy, without user name and password (they go into the file \
         of webhook.proxy_credentials_file)"
            .to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text.trim()).ok()?;
        let is_plain = url.scheme() == "http"
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().filter(|port| *port != 0)?;
        is_plain.then(|| Self { host: host.to_owned(), port })
    }

    fn shown(_: &str) -> String {
        NOT_SHOWN.to_owned()
    }
}

written_as_text!(ProxyUrl);

#[cfg(test)]
mod tests;
