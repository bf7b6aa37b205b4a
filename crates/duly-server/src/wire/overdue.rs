//! Giving up what is overdue, on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Time, TimeOut};

/// Which timers become dead letters instead of being delivered late.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = DeadLetterOverdue)]
pub struct OverdueIn {
    /// Those that were due by then; not in the future, now when left out.
    pub due_by: Option<Time>,
    /// Where to go on, with the `due_by` that was answered.
    pub cursor: Option<String>,
}

/// What a call gave up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLettered)]
pub struct DeadLetteredOut {
    /// Timers that became dead letters.
    pub dead_lettered: u64,
    /// By when they were due.
    #[schema(value_type = Time)]
    pub due_by: TimeOut,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
