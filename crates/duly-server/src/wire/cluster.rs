//! How the service is.

use serde::Serialize;
use utoipa::ToSchema;

/// How the service is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub struct ClusterOut {
    /// Version of the server that answers.
    pub(crate) version: &'static str,
    /// Shards of the store.
    pub(crate) shards: u16,
    /// Whether it can work.
    pub(crate) ready: bool,
    /// Why not, sentence by sentence.
    pub(crate) reasons: Vec<String>,
    /// What an operator should mend although it can work, sentence by sentence.
    pub(crate) warnings: Vec<String>,
    /// Pending timers in all namespaces.
    pub(crate) pending: u64,
    /// Due and unclaimed in all namespaces.
    pub(crate) overdue: u64,
    /// Under a lease in all namespaces.
    pub(crate) in_flight: u64,
    /// Dead letters in all namespaces.
    pub(crate) dead: u64,
    /// Version of what the nodes agree on: the newest that all of them understand.
    pub(crate) protocol: u16,
    /// The nodes, as the one that answers sees them; itself among them while it is heard.
    pub(crate) nodes: Vec<NodeOut>,
}

/// A node of the deployment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeOut {
    /// Name of its machine, and the port on which it listens.
    pub(crate) name: String,
    /// Its member id, from its start to its end: 16 hexadecimal digits. A node that rejoins has a new one.
    pub(crate) member_id: String,
    /// Whether it is the node that answers.
    pub(crate) this: bool,
    /// `here`; `joining`: no majority of the coordination shards hears it, so it begins nothing; or
    /// `leaving`: it begins nothing any more.
    pub(crate) state: &'static str,
    /// Shards that it looks after.
    pub(crate) shards: usize,
    /// How long it has not been heard.
    pub(crate) heartbeat_age_ms: u64,
}
