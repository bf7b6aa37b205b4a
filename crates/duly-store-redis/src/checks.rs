//! What the settings of a server promise: looked at once, when a store is opened.
//!
//! What would lose timers silently is refused unless it is allowed by name; what is only weaker
//! than it could be is warned about.

use std::collections::HashMap;

use redis::{Value, cmd};

use crate::{OpenError, Options, link::Link};

/// A setting that would lose timers silently, by the name it is allowed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// `appendonly no`: after a crash or a restart, everything since the last snapshot is gone.
    NoAppendOnly,
    /// A `maxmemory-policy` that evicts: at the limit, timers go without a word.
    Eviction,
    /// `appendfsync no`: after power loss, some half a minute of changes is gone.
    NoFsync,
    /// `CONFIG GET` is refused: nothing is known of the settings.
    Unknown,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 4] = [Self::NoAppendOnly, Self::Eviction, Self::NoFsync, Self::Unknown];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoAppendOnly => "no_append_only",
            Self::Eviction => "eviction",
            Self::NoFsync => "no_fsync",
            Self::Unknown => "unknown_settings",
        }
    }
}

/// Settings that were found wanting.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) unsafe_ones: Vec<(Check, String)>,
    pub(crate) weak_ones: Vec<String>,
}

/// What the settings of a server mean. `min_replicas` is what this store waits for.
pub(crate) fn judge(settings: &HashMap<String, String>, min_replicas: u32) -> Findings {
    let mut found = Findings::default();
    let of = |name: &str| settings.get(name).map_or("", String::as_str);
    if settings.is_empty() {
        let text = "CONFIG GET is not allowed, so nothing is known of what it keeps";
        found.unsafe_ones.push((Check::Unknown, text.to_owned()));
        return found;
    }
    if of("appendonly") != "yes" {
        let text = "appendonly is off: a restart loses everything since the last snapshot";
        found.unsafe_ones.push((Check::NoAppendOnly, text.to_owned()));
    }
    match of("appendfsync") {
        "no" => {
            let text = "appendfsync is no: power loss loses what the system had not written yet";
            found.unsafe_ones.push((Check::NoFsync, text.to_owned()));
        }
        "everysec" => found.weak_ones.push(
            "appendfsync is everysec: a killed process or lost power loses up to two seconds of \
             changes that no replica has; always loses nothing"
                .to_owned(),
        ),
        _ => {}
    }
    let policy = of("maxmemory-policy");
    if of("maxmemory") != "0" && policy != "noeviction" {
        let text = format!("maxmemory-policy is {policy}: at maxmemory it drops timers");
        found.unsafe_ones.push((Check::Eviction, text));
    } else if policy != "noeviction" {
        found.weak_ones.push(format!(
            "maxmemory-policy is {policy}: set it to noeviction before anybody sets maxmemory"
        ));
    }
    let replicas: u32 = of("min-replicas-to-write").parse().unwrap_or(0);
    if min_replicas > 0 && replicas == 0 {
        found.weak_ones.push(format!(
            "min-replicas-to-write is 0: a master that lost its replicas still takes changes, \
             which are then answered as in doubt; set it to {min_replicas}"
        ));
    }
    found
}

/// Looks at a server; refuses what is not allowed.
///
/// # Errors
/// When it is too old, or a setting would lose timers and is not allowed by name.
pub(crate) async fn check(link: &Link, address: &str, options: &Options) -> Result<(), OpenError> {
    let version = version(link).await;
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let speaks = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    // `WAITAOF` is younger than the rest.
    let wanted = if options.on_disk { (7, 2) } else { (7, 0) };
    if speaks < wanted {
        let (address, wanted) = (address.to_owned(), format!("{}.{}", wanted.0, wanted.1));
        return Err(OpenError::Version { address, version, wanted });
    }
    let names =
        ["appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write"];
    let settings = match link.command(cmd("CONFIG").arg("GET").arg(&names)).await {
        Ok(value) => pairs(value),
        Err(_) => HashMap::new(),
    };
    let found = judge(&settings, options.min_replicas);
    for (check, reason) in found.unsafe_ones {
        if !options.allow.contains(&check) {
            let (address, name) = (address.to_owned(), check.as_str());
            return Err(OpenError::Unsafe { address, reason, name });
        }
        tracing::warn!(%address, allowed = check.as_str(), "{reason}");
    }
    for reason in found.weak_ones {
        tracing::warn!(%address, "{reason}");
    }
    Ok(())
}

/// The version that a server names; Valkey names the Redis that it speaks like.
async fn version(link: &Link) -> String {
    let info = link.command(cmd("INFO").arg("server")).await;
    let text = match info {
        Ok(Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(Value::VerbatimString { text, .. }) => text,
        _ => String::new(),
    };
    let line = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
    line.unwrap_or("unknown").trim().to_owned()
}

fn pairs(value: Value) -> HashMap<String, String> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        _ => String::new(),
    };
    match value {
        Value::Array(items) => {
            items.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        Value::Map(pairs) => pairs.iter().map(|(k, v)| (text(k), text(v))).collect(),
        _ => HashMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(changed: &[(&str, &str)], min_replicas: u32) -> (Vec<Check>, usize) {
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
        let found = judge(&settings, min_replicas);
        let checks = found.unsafe_ones.into_iter().map(|(check, _)| check).collect();
        (checks, found.weak_ones.len())
    }

    #[test]
    fn p1_settings_that_lose_timers_are_found() {
        assert_eq!(judged(&[], 0), (vec![], 0));
        assert_eq!(judged(&[("appendonly", "no")], 0), (vec![Check::NoAppendOnly], 0));
        assert_eq!(judged(&[("appendfsync", "no")], 0), (vec![Check::NoFsync], 0));
        assert_eq!(judged(&[("appendfsync", "everysec")], 0), (vec![], 1));
        let evicts = [("maxmemory", "1000"), ("maxmemory-policy", "allkeys-lru")];
        assert_eq!(judged(&evicts, 0), (vec![Check::Eviction], 0));
        assert_eq!(judged(&evicts[1..], 0), (vec![], 1), "without a limit nothing is evicted");
        assert_eq!(judged(&[], 1), (vec![], 1));
        assert_eq!(judged(&[("min-replicas-to-write", "1")], 1), (vec![], 0));
        assert_eq!(judge(&HashMap::new(), 0).unsafe_ones[0].0, Check::Unknown);
    }
}
