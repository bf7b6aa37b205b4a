//! Variables of the environment that look as if they were meant for Duly and are read by no command.
//!
//! A variable with `__` in its name is checked by the configuration of a server. Variables that Kubernetes sets for a
//! service whose name begins with `duly` are passed over.

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
/// The variable of the log level of other programs.
const RUST_LOG: &str = "RUST_LOG";
/// The variable of the log level.
const LOG_LEVEL: &str = "DULY_LOG__LEVEL";
/// Names that are no typing errors, and the known names.
const HABITS: [(&str, &str); 7] = [
    (RUST_LOG, LOG_LEVEL),
    ("DULY_LOG", LOG_LEVEL),
    ("DULY_LOG_LEVEL", LOG_LEVEL),
    ("DULY_URL", "DULY_SERVER"),
    ("DULY_KEY", "DULY_API_KEY"),
    ("DULY_KEY_FILE", "DULY_API_KEY_FILE"),
    ("DULY_TOKEN", "DULY_API_KEY"),
];

/// The path of the binary, for scripts.
const BINARY: &str = "DULY_BIN";

/// A variable that is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Its name.
    pub(crate) name: String,
    /// The known name that it is like.
    pub(crate) meant: Option<String>,
}

/// Returns the variables of this process that are not read. `serves`: the command starts a server.
pub(crate) fn unread(serves: bool) -> Vec<Unread> {
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<_> = set.filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort_unstable();
    let unread = names.into_iter();
    let unread = unread.filter(|name| !is_read(name, serves));
    unread.map(|name| Unread { meant: meant(&name), name }).collect()
}

/// Returns `true` for a variable that a command reads, or that is not meant for Duly.
fn is_read(name: &str, serves: bool) -> bool {
    if name == RUST_LOG {
        return !serves;
    }
    let is_foreign = !name.starts_with(PREFIX) || name.contains("__") || name == BINARY;
    let is_of_kubernetes =
        name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT") || name.contains("_PORT_");
    KNOWN.contains(&name) || is_foreign || is_of_kubernetes
}

/// Returns the known name that a variable is like.
fn meant(name: &str) -> Option<String> {
    if let Some((_, meant)) = HABITS.iter().find(|(habit, _)| *habit == name) {
        return Some((*meant).to_owned());
    }
    let own = name.strip_prefix(PREFIX)?;
    let known = KNOWN.iter().filter_map(|known| known.strip_prefix(PREFIX));
    let key = KEYS.iter().find(|key| key.field == own.to_lowercase());
    let similar = most_similar(own, known).map(|similar| format!("{PREFIX}{similar}"));
    similar.or_else(|| key.map(|key| key.variable()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_not_read_is_named_with_the_one_meant() {
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
            let found = (!is_read(name, serves)).then(|| meant(name));
            assert_eq!(found.flatten().as_deref(), expected, "{name}");
        }
        for name in ["DULY_FOO", "DULY_NAMESPACE", "DULY_", "DULY_SERVER_URL_OF_ORDERS"] {
            assert!(!is_read(name, false) && meant(name).is_none(), "{name}");
        }
        for name in KNOWN {
            assert!(is_read(name, true), "{name}");
        }
    }
}
