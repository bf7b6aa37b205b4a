//! What a store offers that several nodes share: who is alive, and a way to tell all of them.
//!
//! Nothing here decides who may do what: a firing becomes in-flight by a claim alone, and a verdict is
//! fenced by its token. It spares nodes looking for the same work, and brings back the leases of a
//! node that is no more. See `docs/adr/0004-nodes-of-one-deployment.md`.
//!
//! **Coordination shards.** Members are kept in one, three or five shards, each of which knows nothing
//! of the others. A node counts for as long as a majority of them hears it, and is gone when a majority
//! has evicted it: see [`heartbeat`] for the rules of one such shard.

pub mod heartbeat;
mod interest;

use std::fmt::Debug;

use duly_core::{
    Millis, NamespaceName,
    shard::{ShardId, shard_of},
};
use tokio::sync::broadcast;

pub use self::{
    heartbeat::{Coordinators, Heartbeat, HeartbeatReply, Member, NAME_MAX, Presence},
    interest::Interest,
};
use crate::{Lane, MemberId, StoreFuture};

/// The calls of a store that several nodes share; see [`crate::Store::deployment`].
pub trait Deployment: Debug + Send + Sync {
    /// Returns the coordination shards as this store knows them now; never waits.
    ///
    /// A list is returned only once a majority of the shards of the list before it accepts it, and
    /// so refuses heartbeats by the list before it: two lists never have a majority each.
    fn coordinators(&self) -> Coordinators;

    /// Tells a coordination shard that this run is alive, and which are not, and returns who is a
    /// member there.
    ///
    /// Members are not kept like timers are: a failover may forget some, which the next heartbeat of
    /// each repairs. An eviction is kept for a day.
    fn heartbeat(&self, coordinator: ShardId, beat: Heartbeat) -> StoreFuture<'_, HeartbeatReply>;

    /// Runs of nodes that hold leases in a shard, alive or not.
    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>>;

    /// Shares lanes' limits out over the nodes: for each ask, what this run may have of its lane from
    /// now on. All asks have their [`home`] in this shard. What was allotted to a run is its own until
    /// it asks for less or is released; a run that was released is refused.
    ///
    /// What all runs together have never exceeds a cap, as long as a run has no more under way than
    /// the larger of what it was last allotted and what it said to [`Ask::keep`].
    fn allot(
        &self,
        shard: ShardId,
        run: MemberId,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>>;

    /// Tells every node that the namespace has something for pulling consumers in this shard. It may
    /// be lost.
    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()>;

    /// What nodes announce, this one too.
    fn announcements(&self) -> broadcast::Receiver<Announcement>;

    /// Moves the progress of the shards that this node looks after forward, by which a store notices that
    /// a shard came back with older data. Called every two seconds.
    fn note_progress(&self, _shards: Vec<ShardId>) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Repairs a shard that takes no calls: accepts that its data is gone, and restores its marker and the
    /// settings of namespaces from the other shards; or confirms that it came back with older data.
    ///
    /// # Errors
    /// `Invalid` for a shard that belongs to another deployment; `Unavailable` when the shard, or all
    /// others, do not answer. The same call again is right.
    fn repair(&self, _shard: ShardId) -> StoreFuture<'_, Repaired> {
        Box::pin(async { Ok(Repaired::Nothing) })
    }
}

/// What a repair did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// There was nothing to repair.
    Nothing,
    /// The shard came back with data that was older by so much, and takes calls again.
    Confirmed {
        /// The time whose changes are missing.
        behind: Millis,
    },
    /// The shard was empty, and takes calls again.
    Restored {
        /// Namespaces whose settings it has again.
        namespaces: u64,
    },
}

/// What a run asks for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which.
    pub lane: Lane,
    /// Most attempts that all runs together may have under way.
    pub cap: u32,
    /// Most attempts that all runs together may begin in a second, if there is such a limit.
    pub per_second: Option<u32>,
    /// What this run keeps until it asks again: what it has under way, and what it may still begin by
    /// an earlier allotment.
    pub keep: u32,
    /// What it has use for; with nothing to keep and no use, the lane is given up.
    pub wanted: u32,
}

/// What a run may have of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Attempts under way.
    pub slots: u32,
    /// Attempts begun in a second, where there is a limit: an equal part for each run that has
    /// something of the lane or wants it, as timers are spread evenly over shards.
    pub per_second: Option<u32>,
}

/// The shard in which a lane's limits are shared out.
pub fn home(lane: &Lane, shards: u16) -> ShardId {
    shard_of(lane.namespace.as_str(), lane.key.label(), shards)
}

/// The part of `amount` for one of those who want some, so that the least served has as much as can be
/// (max-min fairness). What does not divide goes round: with another `turn`, to others.
pub fn part_of(amount: u32, wanted: &[(MemberId, u32)], run: MemberId, turn: u64) -> u32 {
    let mut by_want = wanted.to_vec();
    by_want.sort_unstable_by_key(|(run, wanted)| (*wanted, *run));
    let mut left = amount;
    let mut rest = by_want.as_slice();
    // Who wants less than an equal part of what is left has what it wants.
    while let [(who, wanted), others @ ..] = rest {
        if left / among(rest) < *wanted {
            break;
        }
        if *who == run {
            return *wanted;
        }
        left -= wanted;
        rest = others;
    }
    let mut short: Vec<MemberId> = rest.iter().map(|(who, _)| *who).collect();
    short.sort_unstable();
    let Some(place) = short.iter().position(|who| *who == run) else {
        return 0;
    };
    let (part, over) = (left / among(rest), left % among(rest));
    let count = short.len() as u64;
    let has_one_more = (place as u64 + count - turn % count) % count < u64::from(over);
    part + u32::from(has_one_more)
}

fn among(rest: &[(MemberId, u32)]) -> u32 {
    u32::try_from(rest.len()).unwrap_or(u32::MAX).max(1)
}

/// The namespace has something for pulling consumers in the shard.
pub type Announcement = (ShardId, NamespaceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_fair_and_add_up() {
        let runs = |wants: &[u32]| -> Vec<(MemberId, u32)> {
            (1..).map(MemberId).zip(wants.iter().copied()).collect()
        };
        let parts = |amount, wants: &[u32], turn| -> Vec<u32> {
            let wanted = runs(wants);
            wanted.iter().map(|(run, _)| part_of(amount, &wanted, *run, turn)).collect()
        };
        assert_eq!(parts(100, &[10, 1_000, 1_000], 0), [10, 45, 45]);
        assert_eq!(parts(100, &[10, 20, 30], 0), [10, 20, 30]);
        assert_eq!(parts(1, &[5, 5, 5], 0), [1, 0, 0]);
        assert_eq!(parts(1, &[5, 5, 5], 1), [0, 1, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 3), [2, 3, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 4), [3, 2, 0]);
        assert_eq!(part_of(5, &runs(&[9]), MemberId(7), 0), 0, "a stranger");
        for turn in 0..7 {
            for amount in 0..40 {
                let wants = [3, 0, 17, 9, 9];
                let parts = parts(amount, &wants, turn);
                assert_eq!(parts.iter().sum::<u32>(), amount.min(38), "{amount} {turn}");
                assert!(parts.iter().zip(wants).all(|(part, want)| *part <= want));
            }
        }
    }
}
