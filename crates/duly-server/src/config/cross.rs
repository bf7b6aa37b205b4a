//! What does not go together although each value alone is allowed.
//!
//! A check is left out when one of its keys is wrong by itself: what stands there is the default.

use std::path::{self, Path};

use duly_store_embedded::memory_limit;

use super::{
    Origin,
    effective::{Gathered, Values},
    keys,
    remote::StoreUrl,
    value::{Value, Written, bytes_text, toml_text},
};
use crate::serve::HEAD_BYTES_MAX;

/// Segments are written in pages.
const PAGE_BYTES: u64 = 4096;

const WAITERS: &str = "delivery.pull_waiters_max";
const CONNECTIONS: &str = "server.connections_max";

/// What is wrong: the value seen, and what is allowed.
struct Wrong {
    seen: String,
    allowed: String,
}

/// A check of a key against another one; the same where it is against itself.
struct Check {
    key: &'static str,
    other: &'static str,
    check: fn(&Values, &Check) -> Option<Wrong>,
}

const URL: &str = "store.url";

const CHECKS: [Check; 22] = [
    Check { key: "store.segment_bytes", other: "store.segment_bytes", check: pages },
    Check { key: "store.backup_dir", other: "store.data", check: outside },
    Check { key: "server.body_bytes_max", other: "server.request_memory_max", check: fits },
    Check { key: WAITERS, other: CONNECTIONS, check: leaves_connections },
    Check {
        key: "delivery.allow_loopback",
        other: "server.allowed_hosts",
        check: not_behind_proxy,
    },
    Check {
        key: "webhook.client_certificate_file",
        other: "webhook.client_key_file",
        check: together,
    },
    Check {
        key: "webhook.client_key_file",
        other: "webhook.client_certificate_file",
        check: together,
    },
    Check { key: "webhook.proxy_credentials_file", other: "webhook.proxy", check: together },
    Check { key: "webhook.proxy_resolves", other: "webhook.proxy", check: together },
    Check { key: "store.data", other: URL, check: not_by_flag },
    Check { key: "store.password_file", other: URL, check: one_password },
    Check { key: "store.ca_file", other: URL, check: for_tls },
    Check { key: "store.deployment", other: URL, check: only_shared },
    Check { key: "store.shards", other: URL, check: only_shared },
    Check { key: "store.create", other: URL, check: only_shared },
    Check { key: "store.on_rollback", other: URL, check: only_shared },
    Check { key: "store.min_replicas", other: URL, check: only_shared },
    Check { key: "store.min_replicas", other: "store.allow", check: survives_failover },
    Check { key: "store.on_disk", other: URL, check: only_shared },
    Check { key: "store.replication_timeout", other: URL, check: only_shared },
    Check { key: "store.connections", other: URL, check: only_shared },
    Check { key: "store.allow", other: URL, check: only_shared },
];

/// Notes what does not go together.
pub(super) fn check(gathered: &mut Gathered) {
    lower_default(&mut gathered.values, CONNECTIONS, connections_within(memory_limit()));
    for check in &CHECKS {
        if gathered.is_refused(check.key) || gathered.is_refused(check.other) {
            continue;
        }
        let wrong = (check.check)(&gathered.values, check);
        if let (Some(Wrong { seen, allowed }), Some(key)) = (wrong, keys::find(check.key)) {
            let origin = gathered.origin(check.key);
            gathered.refuse(key, origin, seen, allowed);
        }
    }
    if let Some(connections) = number(&gathered.values, CONNECTIONS) {
        lower_default(&mut gathered.values, WAITERS, room_for_waiters(connections));
    }
}

/// Lowers the default of a key that would not fit something else.
fn lower_default(values: &mut Values, key: &str, most: u64) {
    if let Some(found) = values.get_mut(key)
        && found.origin == Origin::Default
        && let Value::Number(Some(count)) = &mut found.value
    {
        *count = most.min(*count);
    }
}

/// Returns the number of connections whose heads of requests fit an eighth of a memory limit, at least 256.
pub(super) fn connections_within(memory_limit: u64) -> u64 {
    (memory_limit / 8 / u64::from(HEAD_BYTES_MAX)).max(256)
}

/// Lease calls that may wait on so many connections: over HTTP/1.1 each holds one.
fn room_for_waiters(connections: u64) -> u64 {
    (connections - connections.div_ceil(4)).max(1)
}

/// Lease calls that wait leave connections for everything else.
fn leaves_connections(values: &Values, check: &Check) -> Option<Wrong> {
    let (waiters, connections) = (number(values, check.key)?, number(values, check.other)?);
    let room = room_for_waiters(connections);
    (is_said(values, check.key) && waiters > room).then(|| Wrong {
        seen: waiters.to_string(),
        allowed: format!(
            "at most {room}, three quarters of {}, which is {connections}: calls that wait must \
             leave connections for everything else",
            check.other
        ),
    })
}

/// Loopback is closed to webhooks where a proxy in front lets others call.
fn not_behind_proxy(values: &Values, check: &Check) -> Option<Wrong> {
    let is_always = matches!(value(values, check.key), Some(Value::Word(word)) if word == "always");
    let has_hosts =
        matches!(value(values, check.other), Some(Value::Texts(hosts)) if !hosts.is_empty());
    (is_always && has_hosts).then(|| Wrong {
        seen: "\"always\"".to_owned(),
        allowed: format!(
            "\"auto\" or \"never\" where {} is set; for receivers on this machine name their \
             addresses in delivery.allow_networks",
            check.other
        ),
    })
}

fn is_said(values: &Values, key: &str) -> bool {
    values.get(key).is_some_and(|it| it.origin != Origin::Default)
}

fn value<'a>(values: &'a Values, key: &str) -> Option<&'a Value> {
    values.get(key).map(|effective| &effective.value)
}

fn number(values: &Values, key: &str) -> Option<u64> {
    match value(values, key) {
        Some(Value::Number(number)) => *number,
        _ => None,
    }
}

fn pages(values: &Values, check: &Check) -> Option<Wrong> {
    let Some(Value::Number(Some(bytes))) = value(values, check.key) else {
        return None;
    };
    (!bytes.is_multiple_of(PAGE_BYTES))
        .then(|| Wrong { seen: bytes.to_string(), allowed: format!("a multiple of {PAGE_BYTES}") })
}

/// A key that means nothing while the other one is empty.
fn together(values: &Values, check: &Check) -> Option<Wrong> {
    let is_set = |key| match value(values, key) {
        Some(Value::Path(path)) => !path.as_os_str().is_empty(),
        Some(Value::Proxy(proxy)) => proxy.is_some(),
        Some(Value::Store(url)) => url.is_some(),
        Some(Value::Flag(flag)) => *flag,
        _ => false,
    };
    let (seen, unset) = match value(values, check.key) {
        Some(Value::Flag(_)) => ("true", "false"),
        _ => ("a file", "empty"),
    };
    (is_set(check.key) && !is_set(check.other)).then(|| Wrong {
        seen: seen.to_owned(),
        allowed: format!("{unset}, or set together with {}, which is empty", check.other),
    })
}

fn store_url(values: &Values) -> Option<&StoreUrl> {
    match value(values, URL) {
        Some(Value::Store(url)) => url.as_ref(),
        _ => None,
    }
}

/// `--data` asks for the embedded store; elsewhere the key may stand for when there is no URL.
fn not_by_flag(values: &Values, check: &Check) -> Option<Wrong> {
    let asks = matches!(values.get(check.key)?.origin, Origin::Flag(_));
    let url = store_url(values).filter(|_| asks)?;
    Some(Wrong {
        seen: "a directory".to_owned(),
        allowed: format!("left out: {} is {url}, where there is no data directory", check.other),
    })
}

/// A password stands in one place.
fn one_password(values: &Values, check: &Check) -> Option<Wrong> {
    let is_twice = store_url(values).is_some_and(StoreUrl::has_password);
    let is_set =
        matches!(value(values, check.key), Some(Value::Path(path)) if !path.as_os_str().is_empty());
    if is_twice && is_set {
        let allowed = format!("empty where {} has a password already", check.other);
        return Some(Wrong { seen: "a file".to_owned(), allowed });
    }
    together(values, check)
}

/// Authorities are for servers that are spoken to by TLS.
fn for_tls(values: &Values, check: &Check) -> Option<Wrong> {
    let is_plain = store_url(values).is_some_and(|url| !url.is_tls());
    let is_set =
        matches!(value(values, check.key), Some(Value::Path(path)) if !path.as_os_str().is_empty());
    if is_plain && is_set {
        let allowed = format!("empty where {} begins with redis, or that with rediss", check.other);
        return Some(Wrong { seen: "a file".to_owned(), allowed });
    }
    together(values, check)
}

/// A key of the store that nodes share, set although there is none.
fn only_shared(values: &Values, check: &Check) -> Option<Wrong> {
    let key = keys::find(check.key)?;
    let found = value(values, check.key)?;
    let default = key.kind.check(&Written::Text(key.default.to_owned())).ok()?;
    (store_url(values).is_none() && *found != default).then(|| Wrong {
        seen: toml_text(key.kind, found),
        allowed: format!("left out, or set together with {}, which is empty", check.other),
    })
}

/// On a Cluster a change waits for a replica, unless its loss in a failover is allowed by name.
fn survives_failover(values: &Values, check: &Check) -> Option<Wrong> {
    let name = duly_store_redis::Check::NoReplicas.as_str();
    let is_cluster = store_url(values).is_some_and(StoreUrl::is_cluster);
    let is_allowed = matches!(value(values, check.other), Some(Value::Texts(names))
        if names.iter().any(|it| it == name));
    (is_cluster && number(values, check.key) == Some(0) && !is_allowed).then(|| Wrong {
        seen: "0".to_owned(),
        allowed: format!(
            "at least 1 on a Cluster, whose failover otherwise loses acknowledged changes; if you \
             accept that, add {name:?} to {}",
            check.other
        ),
    })
}

/// Backups do not go into the data directory.
fn outside(values: &Values, check: &Check) -> Option<Wrong> {
    let (Some(Value::Path(backups)), Some(Value::Path(data))) =
        (value(values, check.key), value(values, check.other))
    else {
        return None;
    };
    let data = path::absolute(data).ok()?;
    let is_inside = !backups.as_os_str().is_empty() && without_dots(backups).starts_with(&data);
    is_inside.then(|| Wrong {
        seen: Written::Text(backups.to_string_lossy().into_owned()).to_string(),
        allowed: format!("outside of {}, which is {}", check.other, data.display()),
    })
}

fn without_dots(path: &Path) -> path::PathBuf {
    path.components().collect()
}

/// The largest body must fit into the memory for all of them, of which a quarter is kept for small
/// ones. The default gives way by itself.
fn fits(values: &Values, check: &Check) -> Option<Wrong> {
    let (largest, all) = (number(values, check.key)?, number(values, check.other)?);
    let room = all - all / 4;
    (is_said(values, check.key) && largest > room).then(|| Wrong {
        seen: bytes_text(largest),
        allowed: format!(
            "at most {}, three quarters of {}, which is {}",
            bytes_text(room),
            check.other,
            bytes_text(all)
        ),
    })
}
