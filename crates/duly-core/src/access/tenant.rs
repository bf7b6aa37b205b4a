//! Tenants: sets of namespaces with limits that their own callers cannot raise.

use std::{fmt, ops::Index};

use serde::{Deserialize, Serialize};
use url::Host;

use super::{ApiKey, NamespacePattern, covers_patterns};
use crate::{Invalid, NamespaceName, destination::has_empty_label, ids::NAMESPACE_ALLOWED};

/// Most patterns of namespaces, and most destinations, of a tenant.
pub const TENANT_LIST_MAX: usize = 100;
/// Longest pattern of a destination, in bytes.
const HOST_BYTES_MAX: usize = 255;

/// The name of a tenant: the same characters as a namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TenantName(NamespaceName);

impl TenantName {
    /// Creates a name from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        NamespaceName::new(text)
            .map(Self)
            .map_err(|_| Invalid::new("tenant", text, NAMESPACE_ALLOWED))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<TenantName> for String {
    fn from(name: TenantName) -> Self {
        name.as_str().to_owned()
    }
}

impl TryFrom<String> for TenantName {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

crate::named_enum! {
    /// A limit of a tenant. Its name is a field of the API and a label of metrics.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TenantLimit {
        /// Namespaces.
        MaxNamespaces = "max_namespaces",
        /// Pending timers in all its namespaces.
        MaxPending = "max_pending",
        /// Estimated size of the pending timers, in bytes.
        MaxPendingBytes = "max_pending_bytes",
        /// Dead letters; at the limit nothing more is scheduled.
        MaxDead = "max_dead",
        /// Schedules a second at each node.
        SchedulePerSecond = "schedule_per_second",
        /// Calls a second at each node.
        CallPerSecond = "call_per_second",
        /// Connections to each node.
        MaxConnections = "max_connections",
        /// Lease calls and streams that wait at each node.
        MaxWaitingCalls = "max_waiting_calls",
        /// Memory of requests and responses at each node, in bytes.
        MaxRequestBytes = "max_request_bytes",
    }
}

impl TenantLimit {
    /// Returns the smallest and the largest value.
    pub const fn bounds(self) -> (u64, u64) {
        match self {
            Self::SchedulePerSecond | Self::CallPerSecond => (1, u32::MAX as u64),
            Self::MaxConnections | Self::MaxDead => (1, u64::MAX),
            // Less is too little for a list.
            Self::MaxRequestBytes => (1 << 20, u64::MAX),
            _ => (0, u64::MAX),
        }
    }
}

/// Number of limits.
const COUNT: usize = TenantLimit::ALL.len();

/// The limits of a tenant. `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(TenantLimit, u64)>", from = "Vec<(TenantLimit, u64)>")]
pub struct TenantLimits([Option<u64>; COUNT]);

impl TenantLimits {
    /// Sets a limit.
    #[must_use]
    pub const fn with(mut self, limit: TenantLimit, value: Option<u64>) -> Self {
        self.0[limit as usize] = value;
        self
    }

    /// Returns the limits that are set.
    pub fn iter(&self) -> impl Iterator<Item = (TenantLimit, u64)> {
        TenantLimit::ALL.into_iter().zip(self.0).filter_map(|(it, value)| Some((it, value?)))
    }

    fn check(&self) -> Result<(), Invalid> {
        for (limit, value) in self.iter() {
            let (least, most) = limit.bounds();
            if !(least..=most).contains(&value) {
                let to = if most == u64::MAX { String::new() } else { format!(" to {most}") };
                let allowed = format!("an integer from {least}{to}, or absent for no limit");
                return Err(Invalid::new(limit.as_str(), value, allowed).within("limits"));
            }
        }
        Ok(())
    }
}

impl Index<TenantLimit> for TenantLimits {
    type Output = Option<u64>;

    fn index(&self, limit: TenantLimit) -> &Option<u64> {
        &self.0[limit as usize]
    }
}

impl From<TenantLimits> for Vec<(TenantLimit, u64)> {
    fn from(limits: TenantLimits) -> Self {
        limits.iter().collect()
    }
}

impl From<Vec<(TenantLimit, u64)>> for TenantLimits {
    fn from(limits: Vec<(TenantLimit, u64)>) -> Self {
        let set = |set: Self, (limit, value)| set.with(limit, Some(value));
        limits.into_iter().fold(Self::default(), set)
    }
}

/// A pattern of hosts: a name or an address as in a URL, or `*.` followed by the end of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct HostPattern(String);

impl HostPattern {
    /// Creates a pattern from text, after checking it. The host gets the form that it has in a URL.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let (begin, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
        let name = name.strip_suffix('.').unwrap_or(name);
        let host = Host::parse(name).ok();
        let is_right = match &host {
            Some(Host::Domain(name)) => {
                // Its dot at the end is removed already: another one ends an empty label.
                !name.contains('*') && !has_empty_label(name) && !name.ends_with('.')
            }
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => begin.is_empty(),
            None => false,
        };
        if let Some(host) = host.filter(|_| is_right && text.len() <= HOST_BYTES_MAX) {
            // As a URL has it.
            return Ok(Self(format!("{begin}{host}")));
        }
        let allowed = "a host without scheme, port and empty labels, such as hooks.example.com, or *. and the \
                       end of hosts, such as *.example.com";
        Err(Invalid::new("destinations", text, allowed))
    }

    /// Returns `true` if the pattern matches a host of a URL. No pattern matches a host with an empty label.
    pub fn matches(&self, host: &str) -> bool {
        if has_empty_label(host) {
            return false;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        match self.0.strip_prefix("*.") {
            Some(end) => host.len().checked_sub(end.len() + 1).is_some_and(|at| {
                host.as_bytes()[at] == b'.' && host[at + 1..].eq_ignore_ascii_case(end)
            }),
            None => host.eq_ignore_ascii_case(&self.0),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.0
    }
}

/// Reads a stored pattern, which was checked when it was written. It stays valid if the rules of [`HostPattern::new`]
/// have become stricter since.
impl From<String> for HostPattern {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A set of namespaces with limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: TenantName,
    /// Its namespaces, which no other tenant has.
    pub namespaces: Vec<NamespacePattern>,
    /// Its limits.
    pub limits: TenantLimits,
    /// `true`: its callers create namespaces by scheduling, without the action `namespace`.
    #[serde(default)]
    pub implicit_namespaces: bool,
    /// Hosts that its webhooks may go to; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<Vec<HostPattern>>,
}

impl Tenant {
    /// Checks every bound. Each error names its field.
    pub fn check(self) -> Result<Self, Invalid> {
        if !(1..=TENANT_LIST_MAX).contains(&self.namespaces.len()) {
            return Err(Invalid::unseen("namespaces", format!("1 to {TENANT_LIST_MAX} patterns")));
        }
        for (index, pattern) in self.namespaces.iter().enumerate() {
            let others = &self.namespaces[index + 1..];
            if let Some(other) = others.iter().find(|other| pattern.overlaps(other)) {
                let allowed =
                    format!("patterns without common namespaces: {} has some", other.as_str());
                return Err(Invalid::new("namespaces", pattern.as_str(), allowed));
            }
        }
        if self.destinations.as_ref().is_some_and(|it| it.len() > TENANT_LIST_MAX) {
            return Err(Invalid::unseen(
                "destinations",
                format!("at most {TENANT_LIST_MAX} hosts"),
            ));
        }
        self.limits.check()?;
        Ok(self)
    }

    /// Returns `true` if a key belongs to the tenant: it covers none but the tenant's namespaces.
    pub fn has_key(&self, key: &ApiKey) -> bool {
        covers_patterns(&self.namespaces, &key.namespaces)
    }

    /// Returns `true` if webhooks of the tenant may go to a host of a URL.
    pub fn permits_host(&self, host: &str) -> bool {
        self.destinations.as_ref().is_none_or(|hosts| hosts.iter().any(|it| it.matches(host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(namespaces: &[&str]) -> Tenant {
        Tenant {
            name: TenantName::new("acme").unwrap(),
            namespaces: namespaces.iter().map(|it| NamespacePattern::new(it).unwrap()).collect(),
            limits: TenantLimits::default(),
            implicit_namespaces: false,
            destinations: None,
        }
    }

    #[test]
    fn patterns_overlap_if_a_namespace_matches_both() {
        let pattern = |text| NamespacePattern::new(text).unwrap();
        for (one, other, expected) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a*", "a", true),
            ("a*", "ab*", true),
            ("ab*", "ac*", false),
            ("ab", "a", false),
            ("*", "a", true),
            ("*", "*", true),
        ] {
            assert_eq!(pattern(one).overlaps(&pattern(other)), expected, "{one} {other}");
            assert_eq!(pattern(other).overlaps(&pattern(one)), expected, "{other} {one}");
        }
        assert!(tenant(&["a-*", "b"]).check().is_ok());
        assert!(tenant(&["a-*", "a-b"]).check().is_err());
        assert!(tenant(&[]).check().is_err());
    }

    #[test]
    fn limits_have_bounds_and_a_form_on_disk() {
        let limits = TenantLimits::default()
            .with(TenantLimit::MaxPending, Some(0))
            .with(TenantLimit::MaxConnections, Some(5));
        let tenant = Tenant { limits, ..tenant(&["a"]) };
        let json = serde_json::to_string(&tenant).unwrap();
        assert!(json.contains(r#"[["max_pending",0],["max_connections",5]]"#), "{json}");
        assert_eq!(serde_json::from_str::<Tenant>(&json).unwrap(), tenant);
        assert!(tenant.clone().check().is_ok());
        for (limit, value) in [
            (TenantLimit::MaxConnections, 0),
            (TenantLimit::CallPerSecond, 0),
            (TenantLimit::SchedulePerSecond, 1 << 32),
        ] {
            let limits = limits.with(limit, Some(value));
            let error = Tenant { limits, ..tenant.clone() }.check().unwrap_err();
            assert_eq!(error.field, format!("limits.{}", limit.as_str()));
        }
    }

    #[test]
    fn hosts_match_whole_labels_and_no_empty_ones() {
        let matches = |pattern, host| HostPattern::new(pattern).unwrap().matches(host);
        assert!(matches("Hooks.example.com", "hooks.EXAMPLE.com"));
        assert!(matches("hooks.example.com", "hooks.example.com."));
        assert!(matches("*.example.com", "a.b.example.com"));
        assert!(!matches("*.example.com", "example.com"));
        assert!(!matches("*.example.com", "badexample.com"));
        assert!(!matches("*.example.com", "example.com.evil"));
        assert!(matches("[::1]", "[::1]"));
        assert!(
            matches("example.com.", "example.com") && matches("*.example.com.", "a.example.com")
        );
        assert!(matches("[0:0::1]", "[::1]") && matches("bücher.example", "xn--bcher-kva.example"));
        for host in [".example.com", "a..example.com", "..example.com", "a.example.com.."] {
            assert!(!matches("*.example.com", host) && HostPattern::new(host).is_err(), "{host}");
        }
        assert!(!HostPattern::from("a..b".to_owned()).matches("a..b"));
        for text in ["*..example.com", "*.example.com..", "*.a..b"] {
            assert!(HostPattern::new(text).is_err(), "{text}");
        }
        for text in ["", "*", "*.", "a/b", "a:80", "http://a", "*.*", "*.10.0.0.1", "a b"] {
            assert!(HostPattern::new(text).is_err(), "{text}");
        }
    }
}
