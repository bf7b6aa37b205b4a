//! One coordination shard: the rules of [`crate::deployment::heartbeat`], in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    MemberId,
    deployment::{Heartbeat, HeartbeatReply, Member, MembershipStage},
};

/// A coordination shard. For tests, which are short: evictions stay recent for ever.
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
    pub fn heartbeat(&mut self, beat: Heartbeat) -> HeartbeatReply {
        if beat.list != self.list {
            return HeartbeatReply::Superseded;
        }
        if self.evicted.contains(&beat.member_id) {
            return HeartbeatReply::Evicted;
        }
        for (run, last_seen) in beat.dead {
            if self.members.get(&run).map(|member| member.heartbeats) == last_seen {
                self.members.remove(&run);
                self.evicted.insert(run);
            }
        }
        if beat.presence == MembershipStage::Left {
            self.members.remove(&beat.member_id);
            self.evicted.insert(beat.member_id);
        } else if self
            .members
            .get(&beat.member_id)
            .is_none_or(|known| known.heartbeats < beat.number)
        {
            let member = Member {
                member_id: beat.member_id,
                name: beat.name,
                protocols: beat.protocols,
                presence: beat.presence,
                heartbeats: beat.number,
                waits: beat.waits,
            };
            self.members.insert(beat.member_id, member);
        }
        HeartbeatReply::Members {
            members: self.members.values().cloned().collect(),
            evicted: self.evicted.iter().copied().collect(),
        }
    }
}
