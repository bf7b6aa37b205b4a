//! Keys of callers, and tenants. Only HTTP has these calls; gRPC has `Whoami` of them.

use std::fmt;

use duly_core::{
    Invalid,
    access::{self, Actions, ApiKey, HostPattern, NamespacePattern, TenantLimit, TenantName},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{Duration, Time, number::between, v1};

/// A key to create.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct CreateKeyRequest {
    /// A name for people, 1 to 100 bytes.
    pub name: String,
    /// Actions that the key permits (`schedule`, `consume`, `read`, `payload`, `operate`, `namespace`,
    /// `transfer`, `metrics`, `store`, `keys`), or roles that stand for several (`producer`, `consumer`,
    /// `viewer`, `operator`, `admin`).
    pub actions: Vec<String>,
    /// Namespaces in which it permits them: names, beginnings of names with `*`, or `*`.
    pub namespaces: Vec<String>,
    /// Networks from which it may be used, such as `10.0.0.0/8`; all if it is absent.
    pub networks: Option<Vec<String>>,
    /// Before this time it permits nothing.
    pub not_before: Option<Time>,
    /// From this time on it permits nothing.
    pub expires_at: Option<Time>,
    /// The same as a time from now; not together with `expires_at`.
    pub expires_in: Option<Duration>,
    /// A subject of certificates (`cert:URI`, `cert:DNS-NAME`) or of tokens (`jwt:sub:SUBJECT`,
    /// `jwt:group:GROUP`). Then the key has no secret: who proves to be the subject holds it.
    pub subject: Option<String>,
}

/// A change of a key: absent fields stay.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct PatchKeyRequest {
    /// A name for people, 1 to 100 bytes.
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Actions or roles.
    #[schema(nullable = false)]
    pub actions: Option<Vec<String>>,
    /// Patterns of namespaces.
    #[schema(nullable = false)]
    pub namespaces: Option<Vec<String>>,
    /// Networks from which it may be used; none for all.
    pub networks: Option<Vec<String>>,
    /// The time from which on it permits nothing.
    pub expires_at: Option<Time>,
    /// `true`: it permits nothing.
    #[schema(nullable = false)]
    pub disabled: Option<bool>,
}

/// The new secret of a key.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct RotateKeyRequest {
    /// Time for which the old secret stays valid, at most 30d; 1h if it is absent, `0s` ends it at once.
    pub keep_old: Option<Duration>,
}

/// A key without its secret.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Actions that it permits.
    pub actions: Vec<String>,
    /// Namespaces in which it permits them.
    pub namespaces: Vec<String>,
    /// Networks from which it may be used; absent for all.
    pub networks: Option<Vec<String>>,
    /// Before this time it permits nothing.
    pub not_before: Option<Time>,
    /// From this time on it permits nothing.
    pub expires_at: Option<Time>,
    /// `true`: it permits nothing.
    pub disabled: bool,
    /// The subject of certificates or tokens whose holders hold it; absent if it has a secret.
    pub subject: Option<String>,
    /// The end of its old secret, during a rotation.
    pub old_secret_until: Option<Time>,
    /// The time of its creation.
    pub created_at: Option<Time>,
    /// The id of the key that created it, `offline`, or `configuration`.
    pub created_by: String,
}

/// A key with its secret, which is shown only once. `Debug` does not show it.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CreatedKey)]
pub struct NewKey {
    /// The text that a caller sends after `Bearer`. It cannot be shown again. Absent if the key has a
    /// subject.
    pub secret: Option<String>,
    /// The key.
    pub key: Key,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A page of keys, in the order of their ids.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeyPage)]
pub struct ListKeysResponse {
    /// The keys.
    pub keys: Vec<Key>,
    /// The place of the next page; absent at the end.
    pub cursor: Option<String>,
}

/// The caller of a call, as the server knows it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallerInfo {
    /// `true`: the server requires a key.
    pub keys_required: bool,
    /// The key of the call; absent if the server requires none.
    pub key: Option<Key>,
    /// The tenant of the key, with its limits and what it uses; absent if the key belongs to none.
    pub tenant: Option<Tenant>,
}

impl From<CallerInfo> for v1::WhoamiResponse {
    fn from(caller: CallerInfo) -> Self {
        let key = caller.key.map(|Key { id, name, actions, namespaces, expires_at, .. }| {
            v1::CallerKey { id, name, actions, namespaces, expires_at }
        });
        let tenant = caller.tenant.map(|tenant| tenant.name);
        Self { keys_required: caller.keys_required, key, tenant }
    }
}

/// The limits of a tenant; an absent one is no limit.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct TenantLimits {
    /// Namespaces.
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxNamespaces as usize }, _>")]
    pub max_namespaces: Option<u64>,
    /// Pending timers in all its namespaces.
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxPending as usize }, _>")]
    pub max_pending: Option<u64>,
    /// Estimated size of the pending timers, in bytes.
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxPendingBytes as usize }, _>")]
    pub max_pending_bytes: Option<u64>,
    /// Dead letters; at the limit nothing more is scheduled.
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxDead as usize }, _>")]
    pub max_dead: Option<u64>,
    /// Schedules a second at each node. The burst is one second.
    #[schema(minimum = 1, maximum = 4294967295_i64)]
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::SchedulePerSecond as usize }, _>")]
    pub schedule_per_second: Option<u64>,
    /// Calls a second at each node, of its keys. The burst is one second.
    #[schema(minimum = 1, maximum = 4294967295_i64)]
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::CallPerSecond as usize }, _>")]
    pub call_per_second: Option<u64>,
    /// Connections to each node, of its keys.
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxConnections as usize }, _>")]
    pub max_connections: Option<u64>,
    /// Waiting lease calls and consumer streams at each node, of its keys.
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxWaitingCalls as usize }, _>")]
    pub max_waiting_calls: Option<u64>,
    /// Memory of requests and unread responses at each node, of its keys, in bytes.
    #[schema(minimum = 1048576)]
    #[serde(default, deserialize_with = "limit::<{ TenantLimit::MaxRequestBytes as usize }, _>")]
    pub max_request_bytes: Option<u64>,
}

/// Reads a limit, whose bounds an error names.
fn limit<'de, const LIMIT: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let (least, most) = TenantLimit::ALL[LIMIT].bounds();
    between(least, most, deserializer)
}

impl TenantLimits {
    /// Returns the limits; their bounds are checked with the tenant.
    pub fn read(&self) -> access::TenantLimits {
        use TenantLimit::{
            CallPerSecond, MaxConnections, MaxDead, MaxNamespaces, MaxPending, MaxPendingBytes,
            MaxRequestBytes, MaxWaitingCalls, SchedulePerSecond,
        };
        access::TenantLimits::default()
            .with(MaxNamespaces, self.max_namespaces)
            .with(MaxPending, self.max_pending)
            .with(MaxPendingBytes, self.max_pending_bytes)
            .with(MaxDead, self.max_dead)
            .with(SchedulePerSecond, self.schedule_per_second)
            .with(CallPerSecond, self.call_per_second)
            .with(MaxConnections, self.max_connections)
            .with(MaxWaitingCalls, self.max_waiting_calls)
            .with(MaxRequestBytes, self.max_request_bytes)
    }
}

impl From<&access::TenantLimits> for TenantLimits {
    fn from(limits: &access::TenantLimits) -> Self {
        use TenantLimit::{
            CallPerSecond, MaxConnections, MaxDead, MaxNamespaces, MaxPending, MaxPendingBytes,
            MaxRequestBytes, MaxWaitingCalls, SchedulePerSecond,
        };
        Self {
            max_namespaces: limits[MaxNamespaces],
            max_pending: limits[MaxPending],
            max_pending_bytes: limits[MaxPendingBytes],
            max_dead: limits[MaxDead],
            schedule_per_second: limits[SchedulePerSecond],
            call_per_second: limits[CallPerSecond],
            max_connections: limits[MaxConnections],
            max_waiting_calls: limits[MaxWaitingCalls],
            max_request_bytes: limits[MaxRequestBytes],
        }
    }
}

/// A tenant to write: a set of namespaces with limits that its own keys cannot raise.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct PutTenantRequest {
    /// Its namespaces: names, beginnings of names with `*`, or `*`. No other tenant may have one of them.
    pub namespaces: Vec<String>,
    /// Its limits.
    #[serde(default)]
    pub limits: TenantLimits,
    /// `true`: a schedule creates its namespace, without the action `namespace`.
    #[serde(default)]
    pub implicit_namespaces: bool,
    /// Hosts that its webhooks may go to: `hooks.example.com`, or `*.example.com` for all below. All hosts if
    /// it is absent, none if it is empty. Destinations that were written before are not checked.
    pub destinations: Option<Vec<String>>,
}

impl PutTenantRequest {
    /// Returns the tenant.
    ///
    /// # Errors
    /// Names the first field that is not allowed.
    pub fn check(&self, name: TenantName) -> Result<access::Tenant, Invalid> {
        let hosts = |hosts: &Vec<String>| hosts.iter().map(|it| HostPattern::new(it)).collect();
        access::Tenant {
            name,
            namespaces: check_namespaces(&self.namespaces)?,
            limits: self.limits.read(),
            implicit_namespaces: self.implicit_namespaces,
            destinations: self.destinations.as_ref().map(hosts).transpose()?,
        }
        .check()
    }
}

/// A tenant.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// Its limits.
    pub limits: TenantLimits,
    /// Its use, as this node knows it.
    pub usage: TenantUsage,
    /// `true`: a schedule creates its namespace, without the action `namespace`.
    pub implicit_namespaces: bool,
    /// Hosts that its webhooks may go to; absent for all.
    pub destinations: Option<Vec<String>>,
}

/// The use of a tenant.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantUsage {
    /// Namespaces of the deployment.
    pub namespaces: u64,
    /// Pending timers of the deployment.
    pub pending: u64,
    /// Their estimated size, in bytes.
    pub pending_bytes: u64,
    /// Dead letters of the deployment.
    pub dead: u64,
    /// Connections to this node.
    pub connections: u64,
    /// Waiting lease calls and consumer streams at this node.
    pub waiting_calls: u64,
    /// Memory of requests and unread responses at this node, in bytes; 0 without `max_request_bytes`.
    pub request_bytes: u64,
    /// The time at which namespaces and timers were counted last. What this node has let in since is added.
    pub counted_at: Option<Time>,
}

impl Tenant {
    /// Returns the form of a tenant and its use.
    pub fn new(tenant: &access::Tenant, usage: TenantUsage) -> Self {
        let hosts = |hosts: &Vec<HostPattern>| {
            hosts.iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>()
        };
        Self {
            name: tenant.name.to_string(),
            namespaces: tenant.namespaces.iter().map(|it| it.as_str().to_owned()).collect(),
            limits: TenantLimits::from(&tenant.limits),
            usage,
            implicit_namespaces: tenant.implicit_namespaces,
            destinations: tenant.destinations.as_ref().map(hosts),
        }
    }
}

/// A page of tenants, in the order of their names.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TenantPage)]
pub struct ListTenantsResponse {
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The place of the next page; absent at the end.
    pub cursor: Option<String>,
}

/// A line of the audit log: a change, or a refusal.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// The time at which the call began.
    pub time: Time,
    /// The id of the caller's key; absent without a valid one.
    pub key: Option<String>,
    /// The subject of the caller's certificate or token; absent for a key with a secret.
    pub subject: Option<String>,
    /// The id of the key from which the caller's key descends: the first of its creators that is no administrator of all
    /// namespaces. Absent if an administrator created the caller's key.
    pub origin: Option<String>,
    /// The address of the caller; absent over a Unix socket.
    pub address: Option<String>,
    /// `http` or `grpc`.
    pub protocol: String,
    /// Name of the operation, which is its `operationId` in the OpenAPI document; the same over HTTP and gRPC.
    pub operation: String,
    /// The action that the operation needs; absent if it needs none of them alone.
    pub action: Option<String>,
    /// The namespace, as far as the call was read.
    pub namespace: Option<String>,
    /// The id of the key, or `tenant` and the name of the tenant, that the call concerns; absent for other calls.
    pub target: Option<String>,
    /// Timers or verdicts that the call named; absent if there is no such number.
    pub items: Option<u64>,
    /// `ok`; `denied` (no valid key, or no right); `refused`; `failed` (it may have been done).
    pub outcome: String,
    /// The status of HTTP that belongs to the outcome.
    pub status: u16,
}

/// A page of the audit log, the newest first.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditPage)]
pub struct ListAuditResponse {
    /// The records.
    pub records: Vec<AuditRecord>,
    /// The place of the next page; absent at the end.
    pub cursor: Option<String>,
}

impl From<&ApiKey> for Key {
    fn from(key: &ApiKey) -> Self {
        let networks = key.networks.iter().map(ToString::to_string).collect::<Vec<_>>();
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            actions: key.actions.into(),
            namespaces: key.namespaces.iter().map(|it| it.as_str().to_owned()).collect(),
            networks: (!networks.is_empty()).then_some(networks),
            not_before: key.not_before.map(Time::from),
            expires_at: key.expires_at.map(Time::from),
            disabled: key.disabled,
            subject: key.subject.as_ref().map(ToString::to_string),
            old_secret_until: key.secrets.iter().find_map(|secret| secret.ends_at).map(Time::from),
            created_at: Some(key.created_at.into()),
            created_by: key.created_by.clone(),
        }
    }
}

/// Reads names of actions and roles.
///
/// # Errors
/// Names the first unknown one.
pub fn check_actions(names: &[String]) -> Result<Actions, Invalid> {
    Actions::parse(names.iter().map(String::as_str))
}

/// Reads patterns of namespaces.
///
/// # Errors
/// Names the first that is not allowed.
pub fn check_namespaces(patterns: &[String]) -> Result<Vec<NamespacePattern>, Invalid> {
    patterns.iter().map(|pattern| NamespacePattern::new(pattern)).collect()
}

/// Reads networks.
///
/// # Errors
/// Names the first that is not allowed.
pub fn check_networks<N: std::str::FromStr>(networks: &[String]) -> Result<Vec<N>, Invalid> {
    let read = |text: &String| {
        let allowed = "a network such as 10.0.0.0/8 or 2001:db8::/32";
        text.parse().map_err(|_| Invalid::new("networks", text, allowed))
    };
    networks.iter().map(read).collect()
}
