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
    /// Pending timers in all namespaces.
    pub(crate) pending: u64,
    /// Due and unclaimed in all namespaces.
    pub(crate) overdue: u64,
    /// Under a lease in all namespaces.
    pub(crate) in_flight: u64,
    /// Dead letters in all namespaces.
    pub(crate) dead: u64,
}
