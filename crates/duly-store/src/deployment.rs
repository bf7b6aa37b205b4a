//! What a store offers that several nodes share: who is alive, and a way to tell all of them.
//!
//! Nothing here decides who may do what: a firing becomes in-flight by a claim alone, and a verdict is
//! fenced by its token. It spares nodes looking for the same work, and brings back the leases of a
//! node that is no more. See `docs/adr/0004-nodes-of-one-deployment.md`.
//!
//! **No clock is asked who is dead.** A member's beats are counted; whoever has seen a count stand
//! still for long enough by its own monotonic clock says so together with the count, and the store
//! ends the member only if it has not beaten since. So neither a step of the store's clock nor an
//! observer that stood still itself can end a node that is alive.

use std::fmt::Debug;

use duly_core::{NamespaceName, shard::ShardId};
use tokio::sync::broadcast;

use crate::{NodeRun, StoreFuture};

/// Longest name of a member, in bytes.
pub const NAME_MAX: usize = 256;

/// The calls of a store that several nodes share; see [`crate::Store::deployment`].
pub trait Deployment: Debug + Send + Sync {
    /// Says that this run is alive, and hears who else is. Its other news are carried out first.
    /// Not kept like timers are: a failover may forget members, who then begin new runs.
    fn beat(&self, beat: Beat) -> StoreFuture<'_, Heard>;

    /// Runs of nodes that hold leases in a shard, alive or not.
    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<NodeRun>>;

    /// Tells every node that the namespace has something for pulling consumers in this shard. It may
    /// be lost.
    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()>;

    /// What nodes announce, this one too.
    fn announcements(&self) -> broadcast::Receiver<Announcement>;
}

/// The namespace has something for pulling consumers in the shard.
pub type Announcement = (ShardId, NamespaceName);

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Which run of which node.
    pub run: NodeRun,
    /// For people; at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Oldest and newest version of what nodes agree on that it understands.
    pub protocols: (u16, u16),
    /// Whether it comes, is there, or goes.
    pub presence: Presence,
    /// Members whose count of beats has stood still at this number for too long. They are members no
    /// more, unless they have beaten since.
    pub dead: Vec<(NodeRun, u64)>,
}

/// Where a member stands between coming and going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is new. A run joins once: one whose answer was lost comes as another run.
    Joining,
    /// It works.
    Here,
    /// It begins nothing any more, and ends what it has begun.
    Leaving,
    /// It holds nothing any more.
    Left,
}

/// What a member hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The run is no member any more: others end its leases. The node goes on as a new run.
    Over,
    /// Everybody who is a member, this run too unless it has left, by their runs.
    Members(Vec<Member>),
}

/// Another node, or this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which run.
    pub run: NodeRun,
    /// As it calls itself.
    pub name: String,
    /// Versions that it understands.
    pub protocols: (u16, u16),
    /// Whether it begins nothing any more.
    pub is_leaving: bool,
    /// How often it has beaten.
    pub beats: u64,
}
