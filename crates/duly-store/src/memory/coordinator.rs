//! One coordinator shard: the rules of [`crate::deployment::heartbeat`], in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    MemberId,
    deployment::{Heartbeat, HeartbeatReply, Member, MembershipStage},
};

/// A coordinator shard. For tests, which are short: evictions stay recent for ever.
#[derive(Debug, Clone, Default)]
pub struct Coordinator {
    list: u64,
    members: BTreeMap<MemberId, Member>,
    evicted: BTreeSet<MemberId>,
}

impl Coordinator {
    /// Creates a shard without members, with this version of the list.
    pub fn new(list: u64) -> Self {
        Self { list, ..Self::default() }
    }

    /// Changes the version of the list: heartbeats with any other version are refused from now on.
    pub fn accept_list(&mut self, list: u64) {
        self.list = list;
    }

    /// Removes its members and keeps its evictions, as a failover may do.
    pub fn forget_members(&mut self) {
        self.members.clear();
    }

    /// Applies a heartbeat.
    pub fn heartbeat(&mut self, heartbeat: Heartbeat) -> HeartbeatReply {
        if heartbeat.list != self.list {
            return HeartbeatReply::Superseded;
        }
        if self.evicted.contains(&heartbeat.member_id) {
            return HeartbeatReply::Evicted;
        }
        for (member_id, last_seen) in heartbeat.dead {
            if self.members.get(&member_id).map(|member| member.heartbeats) == last_seen {
                self.members.remove(&member_id);
                self.evicted.insert(member_id);
            }
        }
        if heartbeat.presence == MembershipStage::Left {
            self.members.remove(&heartbeat.member_id);
            self.evicted.insert(heartbeat.member_id);
        } else if self
            .members
            .get(&heartbeat.member_id)
            .is_none_or(|known| known.heartbeats < heartbeat.number)
        {
            let member = Member {
                member_id: heartbeat.member_id,
                name: heartbeat.name,
                protocols: heartbeat.protocols,
                presence: heartbeat.presence,
                heartbeats: heartbeat.number,
                waits: heartbeat.waits,
            };
            self.members.insert(heartbeat.member_id, member);
        }
        HeartbeatReply::Members {
            members: self.members.values().cloned().collect(),
            evicted: self.evicted.iter().copied().collect(),
        }
    }
}
