//! Repairs of shards on the wire.

use duly_core::shard::ShardId;
use duly_store::Repaired;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which shards are repaired.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Repair)]
pub struct RepairIn {
    /// Numbers of shards, from 0 on.
    #[schema(max_items = 256)]
    pub shards: Vec<u16>,
}

/// What the repairs did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Repaired)]
pub struct RepairOut {
    /// One for each shard of the request, in its order.
    pub shards: Vec<RepairedShardOut>,
}

/// What the repair of a shard did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RepairedShard)]
pub struct RepairedShardOut {
    /// Its number.
    pub shard: u16,
    /// `nothing`: it takes calls already; `confirmed`: it was rolled back; `restored`: it was empty.
    pub outcome: &'static str,
    /// The time whose changes are missing, of one that was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<u64>,
    /// Namespaces whose settings it has again, of one that was empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<u64>,
}

impl RepairedShardOut {
    /// What a repair did, for an answer.
    pub fn new(shard: ShardId, repaired: Repaired) -> Self {
        let (outcome, behind_ms, namespaces) = match repaired {
            Repaired::Nothing => ("nothing", None, None),
            Repaired::Confirmed { behind } => ("confirmed", Some(behind.ms()), None),
            Repaired::Restored { namespaces } => ("restored", None, Some(namespaces)),
        };
        Self { shard: shard.0, outcome, behind_ms, namespaces }
    }
}
