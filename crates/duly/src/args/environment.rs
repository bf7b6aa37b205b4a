//! Variables of the environment that look as if they were meant for Duly and are read by no command.
//!
//! A variable with `__` in its name is checked by the configuration of a server. Variables that Kubernetes sets for a
//! service named `duly` are like no known name, and are passed over.

use std::env;

use duly_core::similar_name::most_similar;
use duly_server::config::keys::KEYS;

/// The beginning of every name.
const PREFIX: &str = "DULY_";
/// The names that commands read.
const KNOWN: [&str; 10] = [
    "DULY_API_KEY",
    "DULY_API_KEY_FILE",
    "DULY_CA_FILE",
    "DULY_CERT_FILE",
    "DULY_COMPLETE",
    "DULY_CONTEXT",
    "DULY_CONTEXTS",
    "DULY_SERVER",
    "DULY_WEBHOOK_SECRET",
    "DULY_WEBHOOK_SECRETS",
];
/// The variable of the log level.
const LOG_LEVEL: &str = "DULY_LOG__LEVEL";
/// Names that are no typing errors, and the known names.
const HABITS: [(&str, &str); 6] = [
    ("DULY_LOG", LOG_LEVEL),
    ("DULY_LOG_LEVEL", LOG_LEVEL),
    ("DULY_URL", "DULY_SERVER"),
    ("DULY_KEY", "DULY_API_KEY"),
    ("DULY_KEY_FILE", "DULY_API_KEY_FILE"),
    ("DULY_TOKEN", "DULY_API_KEY"),
];

/// A variable that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Its name.
    pub(crate) name: String,
    /// The known name that it is like.
    pub(crate) meant: String,
}

/// Returns the variables of this process that are like known ones. `serves`: the command starts a server.
pub(crate) fn unread(serves: bool) -> Vec<Unread> {
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<_> = set.filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort_unstable();
    let unread = names.into_iter();
    unread.filter_map(|name| Some(Unread { meant: meant(&name, serves)?, name })).collect()
}

/// Returns the known name that a variable is like; none if it is known itself, or like none.
fn meant(name: &str, serves: bool) -> Option<String> {
    if serves && name == "RUST_LOG" {
        return Some(LOG_LEVEL.to_owned());
    }
    let own = name.strip_prefix(PREFIX).filter(|own| !own.contains("__"))?;
    if KNOWN.contains(&name) {
        return None;
    }
    if let Some((_, meant)) = HABITS.iter().find(|(habit, _)| *habit == name) {
        return Some((*meant).to_owned());
    }
    let known = KNOWN.iter().filter_map(|known| known.strip_prefix(PREFIX));
    let key = KEYS.iter().find(|key| key.field == own.to_lowercase());
    let similar = most_similar(own, known).map(|similar| format!("{PREFIX}{similar}"));
    similar.or_else(|| key.map(|key| key.variable()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_are_like_known_ones_are_named() {
        for (name, serves, expected) in [
            ("DULY_SERVR", false, Some("DULY_SERVER")),
            ("DULY_SERVERS", true, Some("DULY_SERVER")),
            ("DULY_APIKEY", false, Some("DULY_API_KEY")),
            ("DULY_KEY_FILE", false, Some("DULY_API_KEY_FILE")),
            ("DULY_CONTEX", false, Some("DULY_CONTEXT")),
            ("DULY_LOG", true, Some(LOG_LEVEL)),
            ("DULY_LOG", false, Some(LOG_LEVEL)),
            ("RUST_LOG", true, Some(LOG_LEVEL)),
            ("RUST_LOG", false, None),
            ("DULY_LISTEN", true, Some("DULY_SERVER__LISTEN")),
            ("DULY_DATA", true, Some("DULY_STORE__DATA")),
            // A configuration refuses these itself.
            ("DULY_SERVR__LISTEN", true, None),
            // Kubernetes sets these in a pod beside a service of the name duly.
            ("DULY_SERVICE_HOST", true, None),
            ("DULY_SERVICE_PORT", true, None),
            ("DULY_SERVICE_PORT_HTTP", true, None),
            ("DULY_PORT", true, None),
            ("DULY_PORT_3859_TCP_ADDR", true, None),
            ("DULY_BIN", true, None),
            ("HOME", true, None),
        ] {
            assert_eq!(meant(name, serves).as_deref(), expected, "{name}");
        }
        for name in KNOWN {
            assert_eq!(meant(name, true), None, "{name}");
        }
    }
}
