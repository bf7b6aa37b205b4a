//! Advances the progress counters of this node's shards. With them a store detects that a shard was
//! rolled back.

use std::{sync::Arc, time::Duration};

use super::ShardRole;
use crate::{phase::Phase, state::Shared};

/// Time between two updates. A rollback is reported only if it is longer.
const EVERY: Duration = Duration::from_secs(2);

/// The loop; ends when the node drains. Returns at once if the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shared.phases.reached(Phase::Draining) => return,
        }
        let now = shared.clock.boot();
        let is_ours = |shard: &_| shared.nodes.shard_role(*shard, now) == ShardRole::Owner;
        let ours = shared.shards().filter(is_ours).collect();
        if let Err(error) = deployment.note_progress(ours).await {
            shared.log_store_error("progress of shards", &error);
        }
    }
}
