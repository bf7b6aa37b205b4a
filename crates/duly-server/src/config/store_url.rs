//! URL of the store that several nodes share.
//!
//! A URL may hold a password, which is never shown: accepted and refused URLs leave this file without
//! it, except by [`StoreUrl::reveal`].

use std::fmt;

use duly_core::invalid::shorten;
use duly_store_redis::check_url;

use super::texts::TextValue;

/// The text in place of a secret.
const HIDDEN: &str = "***";

/// The URL of a store. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// Returns the URL with its password.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

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

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl TextValue for StoreUrl {
    const IS_SECRET: bool = true;

    fn allowed() -> String {
        "redis://host:port, redis-cluster://host:port,host:port, the same with rediss for TLS, each \
         with user@ in front of the hosts where there is a user"
            .to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        check_url(text).ok().map(|()| Self(text.to_owned()))
    }

    fn shown(text: &str) -> String {
        let why = check_url(text).err().map_or_else(String::new, |error| format!(" ({error})"));
        format!("{}{why}", shorten(&redacted(text)))
    }
}

/// Returns a text that may be a URL, without the parts that may be a secret:
///
/// 1. the rest behind the first colon in front of an `@`,
/// 2. anything but a number in the place of a port,
/// 3. the rest behind a `?` or `#`.
fn redacted(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') => {
            (format!("{scheme}://"), rest)
        }
        _ => (String::new(), text),
    };
    let (login, hosts) = match rest.rsplit_once('@') {
        Some((login, hosts)) if !scheme.is_empty() => match login.split_once(':') {
            Some((user, _)) => (format!("{user}:{HIDDEN}@"), hosts),
            None => (format!("{login}@"), hosts),
        },
        Some((_, hosts)) => (format!("{HIDDEN}@"), hosts),
        None => (String::new(), rest),
    };
    let hosts = match hosts.split_once(['?', '#']) {
        Some((hosts, _)) => format!("{}?{HIDDEN}", ports_only(hosts)),
        None => ports_only(hosts),
    };
    format!("{scheme}{login}{hosts}")
}

fn ports_only(hosts: &str) -> String {
    let hosts = hosts.split(',').map(|host| match host.rsplit_once(':') {
        Some((_, port)) if port.ends_with(']') => host.to_owned(),
        Some((name, port)) if !port.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{name}:{HIDDEN}")
        }
        Some((name, port)) => {
            let number = port.trim_end_matches('/');
            let is_port = number.parse::<u16>().is_ok();
            format!("{name}:{}", if is_port { port } else { HIDDEN })
        }
        None => host.to_owned(),
    });
    hosts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("redis:/user:secret@h", "***@h"),
            ("user:secret@redis://h", "***@redis:***"),
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
