//! Heartbeats: what a node tells a coordination shard, and what it hears.
//!
//! Rules of one coordination shard; it asks no clock who is alive:
//!
//! 1. A heartbeat of a run that is not evicted makes it a member, or renews it, whatever was known of
//!    it before: a shard that forgot its members takes them in again. A heartbeat with a lower number
//!    than one that is known arrives late and renews nothing.
//! 2. A heartbeat names runs that stood still, each with the number of the last heartbeat that its
//!    sender has seen there, or none where the run was not listed. The shard evicts a run only if that
//!    is so still.
//! 3. An eviction is for good: the run hears [`HeartbeatReply::Evicted`] from then on. A run that has left is
//!    evicted by itself. To name an evicted run again makes its eviction a recent one.
//! 4. A heartbeat by another list of coordination shards than the shard's own changes nothing.

use duly_core::shard::ShardId;

use super::Interest;
use crate::MemberId;

/// Longest name of a member, in bytes.
pub const NAME_MAX: usize = 256;

/// The shards that keep the members of a deployment. A node acts while a majority of them has confirmed
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinators {
    /// Goes up with every change of the list.
    pub version: u64,
    /// One, three or five shards, each of them once.
    pub shards: Vec<ShardId>,
}

impl Coordinators {
    /// The least number of shards that is more than half of them.
    pub const fn majority(&self) -> usize {
        self.shards.len() / 2 + 1
    }
}

/// A heartbeat: what a member says of itself and of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The life of the node that sends it.
    pub member_id: MemberId,
    /// The number of this heartbeat: higher than that of every one before it of the same run, in
    /// whichever shard.
    pub number: u64,
    /// Version of the list of which the node needs a majority.
    pub list: u64,
    /// For people; at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Oldest and newest version of what nodes agree on that it understands.
    pub protocols: (u16, u16),
    /// Stage of its membership.
    pub presence: Presence,
    /// Namespaces for which consumers wait at it.
    pub waits: Interest,
    /// Runs that stood still in this shard for too long, each with the number of the last heartbeat
    /// seen there; `None` if the run was not listed. They are evicted if that is so still.
    pub dead: Vec<(MemberId, Option<u64>)>,
}

/// The stage of a membership. A coordination shard treats the first three alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No majority hears it: it looks after nothing.
    Joining,
    /// It works.
    Here,
    /// It begins nothing any more, and ends what it has begun.
    Leaving,
    /// It holds nothing any more.
    Left,
}

/// The reply to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeartbeatReply {
    /// This coordination shard has evicted the run, for good.
    Evicted,
    /// The run is a member here, or has left.
    Members {
        /// Every member, by its member id.
        members: Vec<Member>,
        /// Runs that were evicted here, or left, or were named dead again, in the last minute.
        evicted: Vec<MemberId>,
    },
    /// The list of coordination shards is another one than the heartbeat's.
    Superseded,
    /// Nodes of an older version, by their names, are members still: this one acts when they have
    /// left.
    Waiting(Vec<String>),
}

/// A member of the deployment, as a coordination shard knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its member id.
    pub member_id: MemberId,
    /// Its name for people.
    pub name: String,
    /// Versions that it understands.
    pub protocols: (u16, u16),
    /// Stage of its membership, as its last heartbeat says.
    pub presence: Presence,
    /// The number of its last heartbeat here.
    pub heartbeats: u64,
    /// Namespaces for which consumers wait at it.
    pub waits: Interest,
}
