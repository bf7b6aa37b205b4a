//! How the service is.

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
}
