//! Checks of a server's settings, when a store is opened.
//!
//! A setting that would lose timers silently is refused unless it is allowed by name. A weak setting
//! makes a warning.

use std::collections::HashMap;

use redis::{Value, cmd};

use crate::{Check, OpenError, Opened, Options, address::Address, connection::Connection};

/// Checks the settings of a server. `min_replicas` is the number that this store waits for. Returns what
/// is unsafe, with its check, and what is weak.
pub(crate) fn check_settings(
    settings: &HashMap<String, String>,
    min_replicas: u32,
) -> Vec<(Option<Check>, String)> {
    let mut found = Vec::new();
    let of = |name: &str| settings.get(name).map_or("", String::as_str);
    if settings.is_empty() {
        let text = "CONFIG GET is not allowed, so the settings of the server are unknown";
        found.push((Some(Check::Unknown), text.to_owned()));
        return found;
    }
    if of("appendonly") != "yes" {
        let text = "appendonly is off: a restart loses everything since the last snapshot";
        found.push((Some(Check::NoAppendOnly), text.to_owned()));
    }
    match of("appendfsync") {
        "no" => {
            let text = "appendfsync is no: power loss loses what the system had not written yet";
            found.push((Some(Check::NoFsync), text.to_owned()));
        }
        "everysec" => {
            let text = "appendfsync is everysec: a killed process or lost power loses up to two \
                        seconds of changes that no replica has; always loses nothing";
            found.push((None, text.to_owned()));
        }
        _ => {}
    }
    let policy = of("maxmemory-policy");
    if of("maxmemory") != "0" && policy != "noeviction" {
        let text = format!("maxmemory-policy is {policy}: at maxmemory it drops timers");
        found.push((Some(Check::Eviction), text));
    } else if policy != "noeviction" {
        let text =
            format!("maxmemory-policy is {policy}: set it to noeviction before maxmemory is set");
        found.push((None, text));
    }
    let replicas: u32 = of("min-replicas-to-write").parse().unwrap_or(0);
    if min_replicas > 0 && replicas == 0 {
        let text = format!(
            "min-replicas-to-write is 0: a master that lost its replicas still takes changes, \
             whose calls then return in doubt; set it to {min_replicas}"
        );
        found.push((None, text));
    }
    found
}

/// Refuses a Cluster whose failover would lose acknowledged changes. Returns the warning if that is
/// allowed.
///
/// # Errors
/// `Unsafe` when changes wait for no replica and [`Check::NoReplicas`] is not allowed.
pub(crate) fn check_failover(address: &Address, options: &Options) -> Opened<Option<String>> {
    if !address.cluster || options.min_replicas > 0 {
        return Ok(None);
    }
    let reason = "min_replicas is 0 on a Cluster: a failover loses changes that were acknowledged; \
                  set it to 1, with a replica for each master";
    allow(&address.servers[0], Check::NoReplicas, reason.to_owned(), options).map(Some)
}

/// Returns the warning for an unsafe setting that is allowed, and refuses any other.
fn allow(address: &str, check: Check, reason: String, options: &Options) -> Opened<String> {
    let name = check.as_str();
    if options.allow.contains(&check) {
        return Ok(format!("{address}: {reason} (allowed by name: {name})"));
    }
    Err(OpenError::Unsafe { address: address.to_owned(), reason, name })
}

/// Checks a server and refuses unsafe settings that are not allowed. Returns warnings about weak
/// settings.
///
/// # Errors
/// When the server is too old, a setting would lose timers and is not allowed by name, or the server
/// cannot take changes yet because it lacks replicas.
pub(crate) async fn check(
    connection: &Connection,
    address: &str,
    options: &Options,
) -> Opened<Vec<String>> {
    let version = version(connection, address).await?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    // `WAITAOF` came in a later version than the rest.
    let wanted = if options.on_disk { (7, 2) } else { (7, 0) };
    if found < wanted {
        let (address, wanted) = (address.to_owned(), format!("{}.{}", wanted.0, wanted.1));
        return Err(OpenError::Version { address, version, wanted });
    }
    let names = [
        "appendonly",
        "appendfsync",
        "maxmemory",
        "maxmemory-policy",
        "min-replicas-to-write",
        "cluster-replica-validity-factor",
    ];
    let settings = match connection.command(cmd("CONFIG").arg("GET").arg(&names)).await {
        Ok(value) => redis::from_redis_value(value).unwrap_or_default(),
        Err(error) => match OpenError::of(address, &error) {
            // The user may not run the command, or the server does not have it.
            OpenError::Denied { .. } | OpenError::Refused { .. } => HashMap::new(),
            error => return Err(error),
        },
    };
    let mut warnings = Vec::new();
    for (check, reason) in check_settings(&settings, options.min_replicas) {
        warnings.push(match check {
            Some(check) => allow(address, check, reason, options)?,
            None => format!("{address}: {reason}"),
        });
    }
    let replication = info(connection, address, "replication").await?;
    match lacks_replicas(&replication, options.min_replicas) {
        Some(reason) => Err(OpenError::NotReady { address: address.to_owned(), reason }),
        None => {
            let stale = stale_replicas(&replication, &settings, options.min_replicas);
            warnings.extend(stale.map(|reason| format!("{address}: {reason}")));
            Ok(warnings)
        }
    }
}

/// Returns the warning for a server with replicas that may be promoted without having confirmed.
fn stale_replicas(
    replication: &str,
    settings: &HashMap<String, String>,
    min_replicas: u32,
) -> Option<String> {
    let followers = online_replicas(replication);
    if min_replicas == 0 || followers <= usize::try_from(min_replicas).unwrap_or(usize::MAX) {
        return None;
    }
    let factor = settings.get("cluster-replica-validity-factor").map_or("", String::as_str);
    let age = match factor {
        "0" => "; with cluster-replica-validity-factor 0 a replica of any age can be promoted",
        _ => "",
    };
    Some(format!(
        "{followers} replicas follow it and min_replicas is {min_replicas}: two failovers in a row can promote a \
         replica that has not confirmed, and lose acknowledged changes; {followers} excludes that, and stops changes while \
         one of them is missing{age}"
    ))
}

/// Returns the number of replicas that follow a master, by its `INFO replication`.
fn online_replicas(replication: &str) -> usize {
    let is_there = |line: &&str| line.starts_with("slave") && line.contains("state=online");
    replication.lines().filter(is_there).count()
}

/// Returns why a server cannot take changes that wait for this many replicas, by its `INFO replication`.
fn lacks_replicas(replication: &str, min_replicas: u32) -> Option<String> {
    if replication.lines().any(|line| line.trim() == "role:slave") {
        return Some("it is a replica, and takes no changes".to_owned());
    }
    let there = online_replicas(replication);
    (there < usize::try_from(min_replicas).unwrap_or(usize::MAX)).then(|| {
        format!("{there} of the {min_replicas} replicas that min_replicas requires follow it")
    })
}

/// Returns a section of `INFO`.
pub(crate) async fn info(connection: &Connection, address: &str, section: &str) -> Opened<String> {
    match connection.command(cmd("INFO").arg(section)).await {
        Ok(Value::BulkString(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(Value::VerbatimString { text, .. }) => Ok(text),
        Ok(_) => Ok(String::new()),
        Err(error) => Err(OpenError::of(address, &error)),
    }
}

/// Returns the version that a server names; Valkey names the Redis version it is compatible with.
async fn version(connection: &Connection, address: &str) -> Opened<String> {
    let text = info(connection, address, "server").await?;
    let line = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
    Ok(line.unwrap_or("unknown").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(changed: &[(&str, &str)], min_replicas: u32) -> (Vec<Check>, usize) {
        let mut settings: HashMap<String, String> = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("min-replicas-to-write", "0"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (name, value) in changed {
            settings.insert((*name).to_owned(), (*value).to_owned());
        }
        let found = check_settings(&settings, min_replicas);
        let checks: Vec<_> = found.iter().filter_map(|(check, _)| *check).collect();
        let weak = found.len() - checks.len();
        (checks, weak)
    }

    #[test]
    fn replicas_that_follow_are_counted() {
        let check = |text: &str, min_replicas, expected: Option<&str>| {
            let found = lacks_replicas(text, min_replicas);
            assert_eq!(found.is_some(), expected.is_some(), "{text}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{text}");
        };
        let two = "role:master\r\nconnected_slaves:2\r\n\
                   slave0:ip=10.0.0.1,port=1,state=online,offset=9,lag=0\r\n\
                   slave1:ip=10.0.0.2,port=2,state=wait_bgsave,offset=0,lag=0\r\n";
        check(two, 0, None);
        check(two, 1, None);
        check(two, 2, Some("1 of the 2 replicas"));
        check("role:master\r\nconnected_slaves:0\r\n", 1, Some("0 of the 1 replicas"));
        check("role:slave\r\nmaster_link_status:up\r\n", 0, Some("it is a replica"));
    }

    #[test]
    fn more_replicas_than_confirm_make_a_warning() {
        let two = "role:master\r\nconnected_slaves:2\r\n\
                   slave0:ip=10.0.0.1,port=1,state=online,offset=9,lag=0\r\n\
                   slave1:ip=10.0.0.2,port=2,state=online,offset=9,lag=0\r\n";
        let settings = |factor: &str| {
            HashMap::from([("cluster-replica-validity-factor".to_owned(), factor.to_owned())])
        };
        assert_eq!(stale_replicas(two, &settings("10"), 0), None, "another check is about that");
        assert_eq!(stale_replicas(two, &settings("10"), 2), None);
        let warning = stale_replicas(two, &settings("10"), 1).expect("a warning");
        assert!(
            warning.ends_with("2 excludes that, and stops changes while one of them is missing"),
            "{warning}"
        );
        let warning = stale_replicas(two, &settings("0"), 1).expect("a warning");
        assert!(warning.contains("a replica of any age"), "{warning}");
    }

    #[test]
    fn p1_settings_that_lose_timers_are_found() {
        assert_eq!(findings_of(&[], 0), (vec![], 0));
        assert_eq!(findings_of(&[("appendonly", "no")], 0), (vec![Check::NoAppendOnly], 0));
        assert_eq!(findings_of(&[("appendfsync", "no")], 0), (vec![Check::NoFsync], 0));
        assert_eq!(findings_of(&[("appendfsync", "everysec")], 0), (vec![], 1));
        let evicts = [("maxmemory", "1000"), ("maxmemory-policy", "allkeys-lru")];
        assert_eq!(findings_of(&evicts, 0), (vec![Check::Eviction], 0));
        assert_eq!(findings_of(&evicts[1..], 0), (vec![], 1), "without a limit nothing is evicted");
        assert_eq!(findings_of(&[], 1), (vec![], 1));
        assert_eq!(findings_of(&[("min-replicas-to-write", "1")], 1), (vec![], 0));
        assert_eq!(check_settings(&HashMap::new(), 0)[0].0, Some(Check::Unknown));
    }
}
