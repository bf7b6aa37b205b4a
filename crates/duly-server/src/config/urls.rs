//! URLs of services: the store that several nodes share, the keys of tokens, the collector of spans.
//!
//! A URL may hold a password or a token, which is never shown: accepted and refused URLs leave this file without it,
//! except by `reveal`. A key of the configuration that is the URL of a service has a type of this file.

use std::{fmt, net::IpAddr};

use duly_core::invalid::shorten;
use duly_store_redis::check_url;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use url::Url;

use super::texts::{TextValue, written_as_text};

/// The text in place of a secret.
const HIDDEN: &str = "***";

/// Declares a URL: its name, the allowed values, and the check of one, with the reason of a refusal.
macro_rules! service_url {
    ($(#[$doc:meta])* $name:ident, $allowed:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// Returns the URL with all that it holds.
            pub(crate) fn reveal(&self) -> &str {
                &self.0
            }

            fn check(text: &str) -> Result<(), String> {
                let check: fn(&str) -> Result<(), String> = $check;
                check(text.trim())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&redacted(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl TextValue for $name {
            const IS_SECRET: bool = true;

            fn allowed() -> String {
                $allowed.to_owned()
            }

            fn parse(text: &str) -> Option<Self> {
                Self::check(text).ok().map(|()| Self(text.trim().to_owned()))
            }

            fn shown(text: &str) -> String {
                let why = Self::check(text).err();
                let why = why.map_or_else(String::new, |error| format!(" ({error})"));
                format!("{}{why}", shorten(&redacted(text)))
            }
        }

        written_as_text!($name);
    };
}

service_url!(
    /// The URL of a store.
    StoreUrl,
    "redis://host:port, redis-cluster://host:port,host:port, the same with rediss for TLS, each with user@ in front of \
     the hosts where there is a user",
    |text| check_url(text).map_err(|error| error.to_string())
);

service_url!(
    /// URL of a set of keys.
    KeysUrl,
    "an https:// URL without a user, or http:// on a loopback address",
    |text| {
        let url = bare(text)?;
        let is_local = url.host_str().is_some_and(|host| {
            let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        });
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_local => Ok(()),
            _ => Err("without TLS, anybody on the way could send keys".to_owned()),
        }
    }
);

service_url!(
    /// URL of a collector of spans.
    CollectorUrl,
    "an http:// or https:// URL without a user and a query, such as http://127.0.0.1:4318",
    |text| {
        let url = bare(text)?;
        let is_allowed = matches!(url.scheme(), "http" | "https") && url.query().is_none();
        if is_allowed { Ok(()) } else { Err("it has another scheme, or a query".to_owned()) }
    }
);

impl StoreUrl {
    pub(super) fn has_password(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.0.starts_with("rediss")
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.0.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("-cluster"))
    }
}

/// Parses a URL that has neither a user nor a password.
fn bare(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let is_bare = url.username().is_empty() && url.password().is_none();
    if is_bare { Ok(url) } else { Err("it has a user or a password".to_owned()) }
}

/// Returns `true` for a text that is no URL, or a URL without a user, a password and a query.
pub(super) fn may_be_shown(text: &str) -> bool {
    !text.contains("://")
        || Url::parse(text).is_ok_and(|url| {
            url.username().is_empty() && url.password().is_none() && url.query().is_none()
        })
}

/// Returns a text for a message: if it may be a URL, without the parts that may be a secret.
pub fn without_secrets(text: &str) -> String {
    let may_be_url = text.contains("://") || text.find('@').is_some_and(|at| at > 0);
    if may_be_url { redacted(text) } else { text.to_owned() }
}

/// Returns a URL without the parts that may be a secret:
///
/// 1. the rest behind a `?` or `#`,
/// 2. the password, and at another scheme than those of Redis the user as well: it may be a token,
/// 3. anything but a number in the place of a port,
/// 4. a path with an `@`: a password may have had a `/`.
pub(super) fn redacted(text: &str) -> String {
    let (text, query) = match text.trim().split_once(['?', '#']) {
        Some((text, _)) => (text, "?***"),
        None => (text.trim(), ""),
    };
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(is_of_scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.contains('@') { "/***" } else { path };
    let is_redis = scheme.starts_with("redis");
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => match login.split_once(':') {
            Some((user, _)) if is_redis => (format!("{user}:{HIDDEN}@"), hosts),
            None if is_redis => (format!("{login}@"), hosts),
            _ => (format!("{HIDDEN}@"), hosts),
        },
        None => (String::new(), authority),
    };
    format!("{scheme}{login}{}{path}{query}", ports_only(hosts))
}

fn ports_only(hosts: &str) -> String {
    let hosts = hosts.split(',').map(|host| match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') && port.parse::<u16>().is_err() => {
            format!("{name}:{HIDDEN}")
        }
        _ => host.to_owned(),
    });
    hosts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_without_a_secret_may_be_shown() {
        for text in ["duly", "https://id.example/realm", "urn:duly:prod", "me@example"] {
            assert!(may_be_shown(text), "{text}");
        }
        for text in ["https://u:p@id.example", "https://u@id.example", "https://id.example?t=s"] {
            assert!(!may_be_shown(text), "{text}");
        }
    }

    #[test]
    fn possible_secrets_are_never_shown() {
        for (text, expected) in [
            ("redis://h", "redis://h"),
            ("redis://h:6379/", "redis://h:6379/"),
            ("rediss-cluster://a:1,b,[::1]:7", "rediss-cluster://a:1,b,[::1]:7"),
            ("redis://[::1]", "redis://[::1]"),
            ("redis://user@h:1", "redis://user@h:1"),
            ("redis://user:secret@h:1", "redis://user:***@h:1"),
            ("redis://:se:cret@h", "redis://:***@h"),
            ("redis://user:se@cret@h", "redis://user:***@h"),
            ("redis://user:secret", "redis://user:***"),
            ("redis://h:1secret", "redis://h:***"),
            ("redis://h:1/?password=secret", "redis://h:1/?***"),
            ("redis://h:1#secret", "redis://h:1?***"),
            ("redis:/user:secret@h", "redis:***/***"),
            ("redis://u:pa/secret@h", "redis://u:***/***"),
            ("redis://user:secret?x@h", "redis://user:***?***"),
            (" redis://user:secret", "redis://user:***"),
            ("h2c://user:secret", "h2c://user:***"),
            ("https://h:8443/keys/v1", "https://h:8443/keys/v1"),
            ("https://h/keys?token=secret", "https://h/keys?***"),
            ("https://user:secret@h:8443/keys", "https://***@h:8443/keys"),
            ("https://secret@h/keys", "https://***@h/keys"),
            ("https://id.example/keys?token=secret&u=me@x", "https://id.example/keys?***"),
            ("user:secret@redis://h", "***@redis:***//h"),
            ("user:secret@h:1", "***@h:1"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
            assert!(!StoreUrl::shown(text).contains("secret"), "{text}: {}", StoreUrl::shown(text));
        }
        let url = StoreUrl::parse("redis://user:secret@h").expect("a URL");
        assert_eq!(format!("{url:?} {url}"), "StoreUrl(redis://user:***@h) redis://user:***@h");
        assert_eq!(url.reveal(), "redis://user:secret@h");
    }
}
