//! How the service is.

use std::time::Duration;

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cluster {
    /// Version of the server that answered.
    pub version: String,
    /// Whether it can work.
    pub ready: bool,
    /// Why not, sentence by sentence.
    pub reasons: Vec<String>,
    /// Pending timers in all namespaces.
    pub pending: u64,
    /// Due and unclaimed in all namespaces.
    pub overdue: u64,
    /// Under a lease in all namespaces.
    pub in_flight: u64,
    /// Dead letters in all namespaces.
    pub dead: u64,
    /// The nodes, as the one that answered sees them.
    pub nodes: Vec<Node>,
}

/// A node of the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// As it calls itself.
    pub name: String,
    /// Its run, from its start to its end.
    pub member_id: String,
    /// Whether it is the node that answered.
    pub this: bool,
    /// Whether it begins nothing any more.
    pub leaving: bool,
    /// Shards that it looks after.
    pub shards: u32,
    /// How long it has not been heard.
    pub heartbeat_age: Duration,
}
