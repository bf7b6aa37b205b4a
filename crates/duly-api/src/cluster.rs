//! The service: its nodes, its readiness, backups and repairs.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// State of the service.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct ClusterInfo {
    /// Version of the server that responds.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Shards of the store.
    #[prost(uint32, tag = "2")]
    pub shards: u32,
    /// `true`: the service can work.
    #[prost(bool, tag = "3")]
    pub ready: bool,
    /// Reasons why the service cannot work, a sentence each.
    #[prost(string, repeated, tag = "4")]
    pub reasons: Vec<String>,
    /// Faults that an operator should repair although the service can work, a sentence each.
    #[prost(string, repeated, tag = "11")]
    pub warnings: Vec<String>,
    /// Pending timers in all namespaces.
    #[prost(uint64, tag = "5")]
    pub pending: u64,
    /// Due and unclaimed in all namespaces.
    #[prost(uint64, tag = "6")]
    pub overdue: u64,
    /// Under a lease in all namespaces.
    #[prost(uint64, tag = "7")]
    pub in_flight: u64,
    /// Dead letters in all namespaces.
    #[prost(uint64, tag = "8")]
    pub dead: u64,
    /// Version of the protocol between the nodes: the newest that all of them understand.
    #[prost(uint32, tag = "9")]
    pub protocol: u32,
    /// The nodes, as the responding node sees them; includes itself while it is a member.
    #[prost(message, repeated, tag = "10")]
    pub nodes: Vec<Node>,
}

/// A node of the deployment.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Name of its machine, and the port on which it listens.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its member id, from its start to its end: 16 hexadecimal digits. A node that rejoins has a new one.
    #[prost(string, tag = "2")]
    pub member_id: String,
    /// `true`: it is the node that responds.
    // A generated Go constructor has a variable `this`, and a parameter for each required field.
    #[prost(bool, tag = "3")]
    #[schema(required = false)]
    pub this: bool,
    /// `active`; `joining`: no majority of the coordinator shards has its heartbeat, so it begins
    /// nothing; or `leaving`: it begins nothing any more.
    #[prost(string, tag = "7")]
    pub state: String,
    /// Shards that it owns.
    #[prost(uint32, tag = "5")]
    pub shards: u32,
    /// Age of its last heartbeat.
    #[prost(uint64, tag = "6")]
    pub heartbeat_age_ms: u64,
}

/// The readiness of the service.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready`; `recovering` while the store is being opened; or `not_ready`.
    pub status: String,
    /// Reasons why the service cannot work, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Faults that an operator should repair although the service can work, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Progress of the opening of the store; only while it is `recovering` and something is read.
    pub progress: Option<Recovery>,
    /// The time after which to ask again; only while the service cannot work.
    pub retry_after_ms: Option<u64>,
}

/// Progress of the opening of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// The file that is read: `checkpoint`, then `journal to replay`.
    pub what: String,
    /// Bytes of it that were read.
    pub bytes_done: u64,
    /// Bytes of it in all.
    pub bytes_total: u64,
}

/// The place of a backup.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = BackupRequest)]
pub struct Backup {
    /// A directory that is empty or new, by its absolute path on the server's machine, below
    /// `store.backup_dir`.
    #[schema(min_length = 1)]
    pub path: String,
}

/// A backup that was made.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct BackupMade {
    /// Its directory.
    pub path: String,
    /// Bytes of its files, those included that it shares with the store.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
    /// Number of the newest commit in it.
    pub lsn: Option<u64>,
}

/// Shards, or keys and tenants, to repair.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = RepairRequest)]
pub struct Repair {
    /// Numbers of shards, from 0 on.
    #[serde(default)]
    #[schema(max_items = 256)]
    pub shards: Vec<u16>,
    /// Remedy for keys and tenants that were rolled back: `write_back` writes back those that the node of
    /// the call knows; `accept` accepts those in the store. The caller must be an administrator.
    pub keys: Option<String>,
}

/// Results of repairs.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Repaired {
    /// One for each shard of the request, in its order.
    pub shards: Vec<RepairedShard>,
    /// Result for the keys and tenants: `written_back` or `accepted`; `nothing`: the store has all that the
    /// node knows. Only for a request with `keys`.
    pub keys: Option<String>,
}

/// Result of the repair of a shard.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RepairedShard {
    /// Its number.
    pub shard: u16,
    /// `nothing`: it takes calls already; `confirmed`: it was rolled back; `restored`: it was empty.
    pub outcome: String,
    /// Length of the time whose changes are missing; only for a shard that was rolled back.
    pub behind_ms: Option<u64>,
    /// Number of namespaces whose settings were restored; only for a shard that was empty.
    pub namespaces: Option<u64>,
}
