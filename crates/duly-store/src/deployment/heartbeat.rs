//! Heartbeats of nodes to a coordinator shard, and its replies.
//!
//! Rules of one coordinator shard. It does not use a clock to decide which members are alive:
//!
//! 1. A heartbeat of a member that is not evicted adds the member or renews it. The shard may have lost its
//!    members: then the heartbeat adds the member again.
//! 2. A heartbeat with a lower number than the last known one arrived late and renews nothing.
//! 3. A heartbeat names members without progress (`dead`), each with the number of the last heartbeat that
//!    its sender has seen there, or none if the member was not listed. The shard evicts a member only if
//!    that is still its last number.
//! 4. An eviction is final: the member gets [`HeartbeatReply::Evicted`] from then on. A member that leaves
//!    is evicted by its own heartbeat. A heartbeat that names an evicted member again makes the eviction
//!    recent again.
//! 5. A heartbeat with another list of coordinator shards than the shard's own changes nothing.

use duly_core::shard::ShardId;

use super::NamespaceFilter;
use crate::MemberId;

/// Maximum length of a member's name, in bytes.
pub const NAME_MAX: usize = 256;

/// The shards that keep the members of a deployment. A node acts while a majority of them acknowledges its
/// heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinators {
    /// Rises with every change of the list.
    pub version: u64,
    /// One, three or five distinct shards.
    pub shards: Vec<ShardId>,
}

impl Coordinators {
    /// Returns the smallest number of shards that is more than half of them.
    pub const fn majority(&self) -> usize {
        self.shards.len() / 2 + 1
    }
}

/// A heartbeat: the state of a member, and the members that it reports as dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The member id of the sender.
    pub member_id: MemberId,
    /// The number of this heartbeat. It is higher than the numbers of all earlier heartbeats of this member,
    /// to any shard.
    pub number: u64,
    /// Version of the list of coordinator shards of which the node needs a majority.
    pub list: u64,
    /// A name for people; at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Oldest and newest version of the protocol between nodes that it supports.
    pub protocols: (u16, u16),
    /// The stage of its membership.
    pub presence: MembershipStage,
    /// Namespaces for which lease calls of consumers wait at this node.
    pub waits: NamespaceFilter,
    /// Members without progress in this shard for too long, each with the number of the last heartbeat seen
    /// there; `None` if the member was not listed. They are evicted if that is still so.
    pub dead: Vec<(MemberId, Option<u64>)>,
}

duly_core::named_enum! {
    /// The stage of a membership. A coordinator shard treats the first three alike.
    pub enum MembershipStage {
        /// No majority acknowledges its heartbeats yet: the node owns no shards.
        Joining = "joining",
        /// The node works.
        Here = "here",
        /// The node starts nothing new, and finishes what it has started.
        Leaving = "leaving",
        /// The node holds nothing any more.
        Left = "left",
    }
}

/// The reply to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeartbeatReply {
    /// This coordinator shard has evicted the member, for good.
    Evicted,
    /// The node is a member here, or has left.
    Members {
        /// Every member, by its member id.
        members: Vec<Member>,
        /// Members that were evicted here, or left, or were named dead again, in the last minute.
        evicted: Vec<MemberId>,
    },
    /// The shard has another list of coordinator shards than the heartbeat.
    Superseded,
    /// Nodes of an older version, by their names, are still members. This node acts when they have left.
    Waiting(Vec<String>),
}

/// A member of the deployment, as a coordinator shard knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its member id.
    pub member_id: MemberId,
    /// Its name for people.
    pub name: String,
    /// Oldest and newest version of the protocol between nodes that it supports.
    pub protocols: (u16, u16),
    /// The stage of its membership, by its last heartbeat.
    pub presence: MembershipStage,
    /// The number of its last heartbeat here.
    pub heartbeats: u64,
    /// Namespaces for which lease calls of consumers wait at it.
    pub waits: NamespaceFilter,
}
