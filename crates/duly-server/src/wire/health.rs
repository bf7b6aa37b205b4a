//! Readiness in an answer.
//!
//! While the store is being opened, how far that is comes with it, in bytes: what an orchestrator
//! or a person sees move is not taken for a hang.

use serde::Serialize;
use utoipa::ToSchema;

/// Whether the service can work.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub struct ReadinessOut {
    /// `ready`; `recovering` while the store is being opened; or `not_ready`.
    pub status: &'static str,
    /// Why not, sentence by sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What an operator should mend although it can work, sentence by sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How far the opening of the store is; only while it is `recovering` and something is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RecoveryOut>,
    /// When to ask again; only while it cannot work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// How far the opening of the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Recovery)]
pub struct RecoveryOut {
    /// What is being read: `checkpoint`, then `journal to replay`.
    pub what: &'static str,
    /// Bytes read of it.
    pub bytes_done: u64,
    /// Bytes of it in all.
    pub bytes_total: u64,
}
