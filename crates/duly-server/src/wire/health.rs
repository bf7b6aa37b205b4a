//! Readiness in an answer.

use serde::Serialize;
use utoipa::ToSchema;

/// Whether the service can work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Readiness)]
pub struct ReadinessOut {
    /// `ready`, or `not_ready`.
    pub status: &'static str,
    /// Why not, sentence by sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}
