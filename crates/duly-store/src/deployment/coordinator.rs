//! The rules of one coordinator shard ([`super::heartbeat`]) as a value: without storage, and without a clock of its own.

use std::collections::BTreeMap;

use duly_core::{Millis, Timestamp};

use super::{Heartbeat, HeartbeatReply, Member, MembershipStage};
use crate::MemberId;

/// Time for which replies name an eviction.
const EVICTION_TOLD: Millis = Millis::from_secs(60);
/// Time for which an eviction is kept.
const EVICTION_KEPT: Millis = Millis::from_secs(86_400);

/// A coordinator shard: its members, and those that it has evicted.
#[derive(Debug, Clone, Default)]
pub struct Coordinator {
    list: u64,
    members: BTreeMap<MemberId, Member>,
    /// The time of the last eviction of each.
    evicted: BTreeMap<MemberId, Timestamp>,
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

    /// Applies a heartbeat that arrives at `now`, and returns the reply.
    pub fn heartbeat(&mut self, heartbeat: Heartbeat, now: Timestamp) -> HeartbeatReply {
        let Heartbeat { member_id, number, list, name, protocols, presence, waits, dead } =
            heartbeat;
        if list != self.list {
            return HeartbeatReply::Superseded;
        }
        if self.evicted.contains_key(&member_id) {
            return HeartbeatReply::Evicted;
        }
        self.evicted.retain(|_, at| now.saturating_since(*at) < EVICTION_KEPT);
        for (other, last_seen) in dead {
            if self.members.get(&other).map(|member| member.heartbeats) == last_seen {
                self.evict(other, now);
            }
        }
        if presence == MembershipStage::Left {
            self.evict(member_id, now);
        } else if self.members.get(&member_id).is_none_or(|known| known.heartbeats < number) {
            let member = Member { member_id, name, protocols, presence, heartbeats: number, waits };
            self.members.insert(member_id, member);
        }
        let told = |at: &Timestamp| now.saturating_since(*at) <= EVICTION_TOLD;
        let evicted = self.evicted.iter().filter(|(_, at)| told(at)).map(|(id, _)| *id);
        HeartbeatReply::Members {
            members: self.members.values().cloned().collect(),
            evicted: evicted.collect(),
        }
    }

    fn evict(&mut self, member_id: MemberId, now: Timestamp) {
        self.members.remove(&member_id);
        self.evicted.insert(member_id, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::NamespaceFilter;

    fn heartbeat(member_id: u64, number: u64) -> Heartbeat {
        Heartbeat {
            member_id: MemberId(member_id),
            number,
            list: 1,
            name: "n".to_owned(),
            protocols: (2, 2),
            presence: MembershipStage::Here,
            waits: NamespaceFilter::default(),
            dead: Vec::new(),
        }
    }

    #[test]
    fn an_eviction_is_told_for_a_minute_and_kept_for_a_day() {
        let mut shard = Coordinator::new(1);
        let mut at =
            |ms, heartbeat| shard.heartbeat(heartbeat, Timestamp::saturating_from_unix_ms(ms));
        let dead = Heartbeat { dead: vec![(MemberId(2), None)], ..heartbeat(1, 1) };
        let told = |reply| match reply {
            HeartbeatReply::Members { evicted, .. } => evicted,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(at(0, dead.clone())), [MemberId(2)]);
        assert_eq!(told(at(60_000, heartbeat(1, 2))), [MemberId(2)]);
        assert_eq!(told(at(60_001, heartbeat(1, 3))), []);
        // Naming the member again makes the eviction recent again.
        let again = Heartbeat { number: 4, ..dead };
        assert_eq!(told(at(60_002, again)), [MemberId(2)]);
        let day = 86_400_000;
        assert_eq!(at(day + 60_001, heartbeat(2, 1)), HeartbeatReply::Evicted);
        assert_eq!(told(at(day + 60_002, heartbeat(1, 5))), []);
        let HeartbeatReply::Members { members, .. } = at(day + 60_003, heartbeat(2, 2)) else {
            panic!("the eviction is over");
        };
        assert_eq!(members.len(), 2);
    }
}
