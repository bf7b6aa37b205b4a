//! Repairs of a store that servers share: through a server, or beside servers.

use duly_api::{
    cluster::{Repaired, RepairedShard},
    namespace::RepairNamespaceResponse,
};
use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{AccessRemedy, Deployment, Error, Store};

use crate::messages;

/// Repairs these shards, each after the one before it.
///
/// # Errors
/// When a shard does not reply, or belongs to another deployment. Repeat the same call then.
pub async fn repair_shards(
    deployment: &dyn Deployment,
    shards: Vec<u16>,
) -> Result<Repaired, Error> {
    let mut repaired: Vec<RepairedShard> = Vec::with_capacity(shards.len());
    for shard in shards.into_iter().map(ShardId) {
        let outcome = deployment.repair(shard).await?;
        if outcome != duly_store::Repaired::Nothing {
            tracing::warn!(
                shard = shard.0,
                repaired = ?outcome,
                "shard repaired on an operator's call; it accepts calls again"
            );
        }
        repaired.push(messages::repaired_shard(shard, outcome));
    }
    Ok(Repaired { shards: repaired, keys: None })
}

/// Decides which keys and tenants count after they were rolled back. Returns the result's name.
///
/// # Errors
/// When too few shards reply. Repeat the same call then.
pub(crate) async fn repair_keys(
    deployment: &dyn Deployment,
    remedy: AccessRemedy,
) -> Result<&'static str, Error> {
    Ok(match (deployment.repair_access(remedy).await?, remedy) {
        (false, _) => "nothing",
        (true, AccessRemedy::WriteBack) => "written_back",
        (true, AccessRemedy::Accept) => "accepted",
    })
}

/// Restores the record of a namespace; `keep` chooses one of several numbers.
///
/// # Errors
/// Those of [`Namespaces::repair_namespace`](duly_store::Namespaces::repair_namespace).
pub async fn repair_namespace(
    store: &dyn Store,
    name: NamespaceName,
    keep: Option<&str>,
) -> Result<RepairNamespaceResponse, Error> {
    let repaired = store.repair_namespace(name, keep.map(str::to_owned)).await?;
    Ok(messages::repaired(&repaired))
}
