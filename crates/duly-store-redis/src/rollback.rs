//! Detects that a shard came back with older data, as after a restart from an old backup or a failover
//! to a replica that was far behind.
//!
//! 1. The owner of a shard moves its *progress*, a count of milliseconds in its marker, forward every
//!    two seconds.
//! 2. Every node remembers the highest progress that it has seen of each shard. If the progress of the
//!    shard is lower by more than five seconds, the writes in between are gone.
//! 3. A rollback while no node runs cannot be detected: no node remembers the progress.
//! 4. A node that owns the shard only since the rollback may have read its progress up to ten seconds
//!    before. Then it detects the rollback only if that goes back further.
//! 5. Leases that nodes held come back too, although their attempts were settled since. Such a lease has
//!    no end of its own and would never be settled again. So all of them are ended, and their firings
//!    are due again.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use duly_core::shard::ShardId;
use duly_store::{Error, Result, query::ShardFault};
use parking_lot::Mutex;

use crate::{
    OnRollback,
    change::{MemberFate, at_once, digits, flag},
    deployment::Deployment,
    script::Script,
};

/// Milliseconds by which a shard may be behind; one that is further behind was rolled back.
const BEHIND_MAX_MS: u64 = 5_000;

/// Progress of each shard as far as this node knows, and the count of rollbacks.
#[derive(Debug)]
pub(crate) struct Rollbacks {
    policy: OnRollback,
    seen: Vec<AtomicU64>,
    count: AtomicU64,
    /// Shards in which leases from before the rollback must be ended.
    leased: Mutex<BTreeSet<ShardId>>,
}

impl Rollbacks {
    pub(crate) fn new(shards: u16, policy: OnRollback) -> Self {
        let seen = (0..shards).map(|_| AtomicU64::default()).collect();
        Self { policy, seen, count: AtomicU64::default(), leased: Mutex::default() }
    }

    /// Returns the number of rollbacks that this node detected.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Records the progress of a shard.
    pub(crate) fn note_seen(&self, shard: ShardId, progress: u64) {
        self.seen[usize::from(shard.0)].fetch_max(progress, Ordering::Relaxed);
    }
}

impl Deployment {
    /// Moves the progress of shards forward. A shard that does not reply is left to the next call.
    pub(crate) async fn note_progress(&self, shards: Vec<ShardId>) {
        let leased = self.rollbacks.leased.lock().clone();
        for shard in leased {
            self.end_leases(shard).await;
        }
        let moves = shards.into_iter().map(async |shard| (shard, self.progress(shard).await));
        for (shard, moved) in at_once(moves).await {
            if let Err(error) = moved {
                tracing::debug!(
                    shard = shard.0,
                    %error,
                    "progress of the shard not moved; the next call tries again"
                );
            }
        }
    }

    async fn progress(&self, shard: ShardId) -> Result<()> {
        let seen = self.rollbacks.seen[usize::from(shard.0)].load(Ordering::Relaxed);
        let pauses = self.rollbacks.policy == OnRollback::Pause;
        let arguments = vec![digits(seen), digits(BEHIND_MAX_MS), flag(pauses)];
        let mut reply = self.call_script(shard, Script::Progress, arguments).await?;
        let (progress, behind_ms) = (reply.number()?, reply.number()?);
        self.rollbacks.note_seen(shard, progress);
        if behind_ms > 0 {
            self.rollbacks.count.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                shard = shard.0,
                behind_ms,
                "shard was rolled back: it came back with older data, and the writes of this time are lost"
            );
            if pauses {
                self.router.set_fault(shard, Some(ShardFault::RolledBack));
            } else {
                self.end_leases(shard).await;
            }
        }
        Ok(())
    }

    /// Ends the leases that nodes hold in a shard that was rolled back. A failure is retried with the
    /// next move of the progress.
    pub(crate) async fn end_leases(&self, shard: ShardId) {
        let ended = async {
            for member_id in self.holders(shard).await? {
                self.end_leases_of(shard, member_id, MemberFate::Stays).await?;
            }
            Ok::<_, Error>(())
        };
        match ended.await {
            Ok(()) => {
                self.rollbacks.leased.lock().remove(&shard);
            }
            Err(error) => {
                tracing::warn!(
                    shard = shard.0,
                    %error,
                    "leases from before the rollback not ended yet, will retry"
                );
                self.rollbacks.leased.lock().insert(shard);
            }
        }
    }
}
