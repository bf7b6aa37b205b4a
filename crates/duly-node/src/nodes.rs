//! The nodes of one deployment: sends this node's heartbeats, and tracks the other members.
//!
//! A store that belongs to one process has no other nodes: this node may always act, and it owns every
//! shard. In a shared store a loop sends heartbeats to every coordinator shard ([`heartbeats`];
//! [`membership`] decides the consequences):
//!
//! 1. The leases of an evicted member are ended in our shards at once.
//! 2. In shards that became ours, and now and then in all of ours, the store is asked for the holders of
//!    leases. A holder that no coordinator shard knows is named dead like a member that stalls. So the
//!    leases of nodes that died unobserved are ended too ([`heartbeats`]).
//! 3. The owner of a shard announces claimable firings to the waiting lease calls of other nodes.
//!
//! Calls to shards run concurrently to the heartbeats: a shard that does not reply must not stop the
//! heartbeats of a node. Safety does not depend on any of this: see
//! `docs/adr/0004-nodes-of-one-deployment.md` and `docs/adr/0005-membership-by-majority.md`.

mod announce;
mod heartbeats;
pub(crate) mod membership;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Error, MemberId, Result, Store, deployment::MembershipStage};
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) use self::{
    announce::AnnounceTime,
    heartbeats::{advance_progress, leave, listen, run},
};
use self::{announce::Announcements, membership::Membership};

/// The state of this node's membership, and its view of the other nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The name of this node, for operators.
    pub(crate) name: String,
    /// `None` if the store belongs to this process.
    shared: Option<Mutex<Membership>>,
    /// The member id in that case.
    alone: MemberId,
    announced: Mutex<Announcements>,
    /// Changes when the next heartbeats must be sent at once.
    send_now: watch::Sender<()>,
}

/// The relation of this node to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardRole {
    /// This node owns the shard: it does all work in it.
    Owner,
    /// Another node owns the shard: this node only serves its own waiting lease calls from it.
    OtherOwner,
    /// This node may not act at all now.
    Inactive,
}

/// A member of the deployment, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Its member id.
    pub member_id: MemberId,
    /// Name that the member announces.
    pub name: String,
    /// `true`: it is the node that replies.
    pub is_this: bool,
    /// Stage of its membership.
    pub presence: MembershipStage,
    /// Oldest and newest protocol version between nodes that the member understands.
    pub protocols: (u16, u16),
    /// Number of shards that the member owns.
    pub shards: usize,
    /// Time since its last heartbeat.
    pub heartbeat_age: Duration,
}

impl Nodes {
    pub(crate) fn new(store: &dyn Store, name: String) -> Self {
        let shared = store.deployment().map(|deployment| {
            let list = deployment.coordinators();
            Mutex::new(Membership::new(store.shards(), list, new_member_id()))
        });
        Self {
            name,
            shared,
            alone: new_member_id(),
            announced: Mutex::default(),
            send_now: watch::Sender::default(),
        }
    }

    /// Returns `true` if several nodes share the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the member id by which this node claims now.
    pub(crate) fn member_id(&self) -> MemberId {
        self.shared.as_ref().map_or(self.alone, |nodes| nodes.lock().member_id())
    }

    /// Returns the relation of this node to a shard.
    pub(crate) fn shard_role(&self, shard: ShardId, now: Duration) -> ShardRole {
        let Some(nodes) = &self.shared else {
            return ShardRole::Owner;
        };
        let nodes = nodes.lock();
        if !nodes.may_act(now) {
            ShardRole::Inactive
        } else if nodes.is_owner_of(shard) {
            ShardRole::Owner
        } else {
            ShardRole::OtherOwner
        }
    }

    /// Returns `true` if firings that were claimed by this member id may be sent.
    pub(crate) fn may_send(&self, member_id: MemberId, now: Duration) -> bool {
        self.shared.as_ref().is_none_or(|nodes| {
            let nodes = nodes.lock();
            nodes.member_id() == member_id && nodes.may_act(now)
        })
    }

    /// Returns the time since a majority of the coordinator shards last acknowledged heartbeats, if it
    /// is too long to act.
    pub(crate) fn cut_off_for(&self, now: Duration) -> Option<Duration> {
        let nodes = self.shared.as_ref()?.lock();
        let silent = nodes.silent_for(now).unwrap_or(Duration::ZERO);
        (!nodes.may_act(now) && !nodes.is_waiting()).then_some(silent)
    }

    /// Returns the names of the nodes of an older version that must leave before this node acts.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        self.shared.as_ref().map_or_else(Vec::new, |nodes| nodes.lock().waits_for())
    }

    /// Rejoins with a new member id, because the leases of the current one were ended.
    pub(crate) fn rejoin(&self) {
        if let Some(nodes) = &self.shared {
            nodes.lock().rejoin(new_member_id());
            self.announce_waits_again();
        }
    }

    /// Announces the waiting lease calls again, because the other nodes drop them with the old member
    /// id.
    fn announce_waits_again(&self) {
        self.announced.lock().drop_announced();
        self.send_heartbeats_now();
    }

    /// Rejoins if a reply says that the leases of this member id were ended. That can happen while this
    /// node is still a member: another node may have sent the call that ended them before it was cut
    /// off, and the call arrived much later.
    pub(crate) fn rejoin_if_evicted<T>(&self, member_id: MemberId, reply: Result<T>) -> Result<T> {
        if reply.as_ref().err() == Some(&Error::Evicted) && self.member_id() == member_id {
            tracing::warn!("node evicted: its leases were ended; rejoining with a new member id");
            self.rejoin();
        }
        reply
    }

    /// Sends the next heartbeats at once.
    pub(crate) fn send_heartbeats_now(&self) {
        self.send_now.send_replace(());
    }

    /// Returns the time since which the other nodes know that calls wait here for a namespace.
    pub(crate) fn announced_since(&self, namespace: &NamespaceName) -> Option<Duration> {
        self.announced.lock().announced_since(namespace)
    }

    /// Notes that a lease call waits, and announces it soon.
    pub(crate) fn announce_wait(&self, namespace: &NamespaceName) {
        if self.shared.is_some() && self.announced.lock().must_announce(namespace) {
            self.send_heartbeats_now();
        }
    }

    /// Returns the time at which a namespace may be announced to other nodes whose calls wait for it.
    pub(crate) fn announce_time(
        &self,
        shard: ShardId,
        namespace: &NamespaceName,
        now: Duration,
    ) -> AnnounceTime {
        let Some(nodes) = &self.shared else {
            return AnnounceTime::Never;
        };
        if !nodes.lock().others().any(|other| other.waits.contains(namespace)) {
            return AnnounceTime::Never;
        }
        self.announced.lock().admit(shard, namespace, now)
    }

    /// Returns all members, including this node.
    pub(crate) fn members(&self, now: Duration, shards: u16) -> Vec<MemberView> {
        let this = |member_id, presence, shards, heartbeat_age| MemberView {
            member_id,
            name: self.name.clone(),
            is_this: true,
            presence,
            protocols: membership::PROTOCOLS,
            shards,
            heartbeat_age,
        };
        let Some(nodes) = &self.shared else {
            let shards = usize::from(shards);
            return vec![this(self.alone, MembershipStage::Here, shards, Duration::ZERO)];
        };
        let nodes = nodes.lock();
        let mut members: Vec<_> = nodes
            .others()
            .map(|other| MemberView {
                member_id: other.member_id,
                name: other.name.clone(),
                is_this: false,
                presence: other.presence,
                protocols: other.protocols,
                shards: nodes.shards_of(other.member_id),
                heartbeat_age: nodes.stalled_for(other.member_id),
            })
            .collect();
        if let Some(silent_for) = nodes.silent_for(now) {
            let (member_id, presence) = (nodes.member_id(), nodes.presence(now));
            members.push(this(member_id, presence, nodes.shards_of(member_id), silent_for));
        }
        members.sort_by(|a, b| (&a.name, a.member_id).cmp(&(&b.name, b.member_id)));
        members
    }
}

/// Returns a new member id: a random number from the standard library's seed.
fn new_member_id() -> MemberId {
    MemberId(RandomState::new().build_hasher().finish())
}
