//! The calls of a store that several nodes share: membership, lane quotas, announcements.
//!
//! Nothing here decides the state of a timer: a firing becomes in flight by a claim alone, and its token
//! fences a verdict. Membership avoids that several nodes look for the same work, and it returns the leases
//! of a node that is gone. See `docs/adr/0004-nodes-of-one-deployment.md`.
//!
//! **Coordinator shards.** The members are kept in one, three or five shards. These shards do not know of
//! each other.
//! 1. A node is a member while a majority of them has acknowledged its heartbeats.
//! 2. A node is gone when a majority of them has evicted it.
//! 3. [`heartbeat`] has the rules of one such shard, and [`Coordinator`] applies them.

mod coordinator;
pub mod heartbeat;
mod namespace_filter;

use std::fmt::Debug;

use duly_core::{
    Millis, NamespaceName,
    shard::{ShardId, shard_of},
};
use tokio::sync::broadcast;

pub use self::{
    coordinator::Coordinator,
    heartbeat::{Coordinators, Heartbeat, HeartbeatReply, Member, MembershipStage, NAME_MAX},
    namespace_filter::NamespaceFilter,
};
use crate::{Lane, MemberId, StoreFuture};

/// The calls of a store that several nodes share. See [`crate::Store::deployment`].
pub trait Deployment: Debug + Send + Sync {
    /// Returns the coordinator shards as this store knows them now; never waits.
    ///
    /// A new list is returned only after a majority of the shards of the previous list has accepted it, and
    /// so refuses heartbeats with the previous list. So two lists never both have a majority.
    fn coordinators(&self) -> Coordinators;

    /// Sends a heartbeat to a coordinator shard: this member is alive, and the members in its `dead` are
    /// not. Returns the members of that shard.
    ///
    /// Members are not kept as durably as timers: a failover may lose some, and the next heartbeat of each
    /// restores it. An eviction is kept for a day.
    fn heartbeat(
        &self,
        coordinator: ShardId,
        heartbeat: Heartbeat,
    ) -> StoreFuture<'_, HeartbeatReply>;

    /// Returns the members that hold leases in a shard, alive or not.
    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>>;

    /// Grants quotas of lanes' limits to the member `member_id`: one grant for each request. The [`home`] of all
    /// requested lanes must be this shard.
    ///
    /// 1. A granted quota belongs to the member until it requests less or is released.
    /// 2. The request of a released member is refused.
    /// 3. The grants of all members together never exceed a cap. This holds while no member has more
    ///    attempts under way than the larger of its last grant and its last [`Ask::keep`].
    fn allot(
        &self,
        shard: ShardId,
        member_id: MemberId,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>>;

    /// Announces to every node that the namespace has something for consumers in this shard. The
    /// announcement may be lost.
    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()>;

    /// Returns the announcements of all nodes, including this one.
    fn announcements(&self) -> broadcast::Receiver<Announcement>;

    /// Advances the progress of the shards that this node owns. From it a store detects that a shard came
    /// back with older data. Called every two seconds.
    fn note_progress(&self, _shards: Vec<ShardId>) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Repairs a shard that takes no calls. If its data is gone, accepts the loss and restores its marker
    /// and the settings of namespaces from the other shards. If it came back with older data, confirms that.
    ///
    /// # Errors
    /// `Invalid` for a shard that belongs to another deployment; `Unavailable` if the shard, or all others,
    /// do not reply. Repeat the same call then.
    fn repair(&self, _shard: ShardId) -> StoreFuture<'_, Repaired> {
        Box::pin(async { Ok(Repaired::Nothing) })
    }

    /// Decides which keys and tenants all nodes use after those of the store were rolled back as a whole.
    /// Returns `false` if they include all changes that this node knows, and so nothing was done.
    ///
    /// # Errors
    /// `Unavailable` if too few shards reply. Repeat the same call then.
    fn repair_access(&self, _remedy: AccessRemedy) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(false) })
    }
}

duly_core::named_enum! {
    /// The remedy for keys and tenants that were rolled back, named as in calls.
    pub enum AccessRemedy {
        /// Writes back those that this node knows.
        WriteBack = "write_back",
        /// Accepts those in the store.
        Accept = "accept",
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// There was nothing to repair.
    Nothing,
    /// The shard came back with older data, and takes calls again.
    Confirmed {
        /// The time whose changes are missing.
        behind: Millis,
    },
    /// The shard was empty, and takes calls again.
    Restored {
        /// Number of namespaces whose settings were restored.
        namespaces: u64,
    },
}

/// A quota request of a member for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The lane.
    pub lane: Lane,
    /// Maximum number of attempts that all members together may have under way.
    pub cap: u32,
    /// Maximum number of attempts that all members together may begin per second, if it is limited.
    pub per_second: Option<u32>,
    /// Number of attempts that this member keeps until its next request: those under way, and those that it
    /// may still begin by an earlier grant.
    pub keep: u32,
    /// Number of attempts that it can use. If this and `keep` are 0, the member gives up the lane.
    pub wanted: u32,
}

/// A quota grant: the part of a lane's limits that a member may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Maximum number of attempts under way.
    pub slots: u32,
    /// Attempts that may begin per second, if that is limited. It is an equal part for each member that has
    /// or wants a quota of the lane, because timers are spread evenly over shards.
    pub per_second: Option<u32>,
}

/// Returns the coordinator shard of a lane, which grants the quotas of its limits.
pub fn home(lane: &Lane, shards: u16) -> ShardId {
    shard_of(lane.namespace.as_str(), lane.key.label(), shards)
}

/// Returns the part of `amount` for a member, by max-min fairness over the members in `wanted`. The
/// remainder of the division rotates: with another `rotation` it goes to other members.
pub fn max_min_part(
    amount: u32,
    wanted: &[(MemberId, u32)],
    member_id: MemberId,
    rotation: u64,
) -> u32 {
    let mut by_want = wanted.to_vec();
    by_want.sort_unstable_by_key(|(member_id, wanted)| (*wanted, *member_id));
    let mut left = amount;
    let mut rest = by_want.as_slice();
    // A member that wants less than an equal part of the rest gets all that it wants.
    while let [(member, wanted), others @ ..] = rest {
        if left / among(rest) < *wanted {
            break;
        }
        if *member == member_id {
            return *wanted;
        }
        left -= wanted;
        rest = others;
    }
    let mut short: Vec<MemberId> = rest.iter().map(|(member, _)| *member).collect();
    short.sort_unstable();
    let Some(place) = short.iter().position(|member| *member == member_id) else {
        return 0;
    };
    let (part, over) = (left / among(rest), left % among(rest));
    let count = short.len() as u64;
    let has_one_more = (place as u64 + count - rotation % count) % count < u64::from(over);
    part + u32::from(has_one_more)
}

fn among(rest: &[(MemberId, u32)]) -> u32 {
    u32::try_from(rest.len()).unwrap_or(u32::MAX).max(1)
}

/// An announcement: the namespace has something for consumers in the shard.
pub type Announcement = (ShardId, NamespaceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_fair_and_add_up() {
        let member_ids = |wants: &[u32]| -> Vec<(MemberId, u32)> {
            (1..).map(MemberId).zip(wants.iter().copied()).collect()
        };
        let parts = |amount, wants: &[u32], rotation| -> Vec<u32> {
            let wanted = member_ids(wants);
            wanted
                .iter()
                .map(|(member_id, _)| max_min_part(amount, &wanted, *member_id, rotation))
                .collect()
        };
        assert_eq!(parts(100, &[10, 1_000, 1_000], 0), [10, 45, 45]);
        assert_eq!(parts(100, &[10, 20, 30], 0), [10, 20, 30]);
        assert_eq!(parts(1, &[5, 5, 5], 0), [1, 0, 0]);
        assert_eq!(parts(1, &[5, 5, 5], 1), [0, 1, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 3), [2, 3, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 4), [3, 2, 0]);
        assert_eq!(max_min_part(5, &member_ids(&[9]), MemberId(7), 0), 0, "a stranger");
        for rotation in 0..7 {
            for amount in 0..40 {
                let wants = [3, 0, 17, 9, 9];
                let parts = parts(amount, &wants, rotation);
                assert_eq!(parts.iter().sum::<u32>(), amount.min(38), "{amount} {rotation}");
                assert!(parts.iter().zip(wants).all(|(part, want)| *part <= want));
            }
        }
    }
}
