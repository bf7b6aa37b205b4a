//! One coordination shard: the rules of [`crate::deployment::heartbeat`], in plain maps.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    NodeRun,
    deployment::{Beat, Heard, Member, Presence},
};

/// A coordination shard. Evictions are recent for ever: it is for tests, which are short.
#[derive(Debug, Clone, Default)]
pub struct Coordinator {
    list: u64,
    members: BTreeMap<NodeRun, Member>,
    evicted: BTreeSet<NodeRun>,
}

impl Coordinator {
    /// A shard without members, of this version of the list.
    pub fn new(list: u64) -> Self {
        Self { list, ..Self::default() }
    }

    /// From now on refuses heartbeats by any other version of the list.
    pub fn accept_list(&mut self, list: u64) {
        self.list = list;
    }

    /// Forgets its members and keeps its evictions, as a failover may.
    pub fn forget_members(&mut self) {
        self.members.clear();
    }

    /// Takes a heartbeat.
    pub fn beat(&mut self, beat: Beat) -> Heard {
        if beat.list != self.list {
            return Heard::Superseded;
        }
        if self.evicted.contains(&beat.run) {
            return Heard::Evicted;
        }
        for (run, last_seen) in beat.dead {
            if self.members.get(&run).map(|member| member.beats) == last_seen {
                self.members.remove(&run);
                self.evicted.insert(run);
            }
        }
        if beat.presence == Presence::Left {
            self.members.remove(&beat.run);
            self.evicted.insert(beat.run);
        } else if self.members.get(&beat.run).is_none_or(|known| known.beats < beat.number) {
            let member = Member {
                run: beat.run,
                name: beat.name,
                protocols: beat.protocols,
                presence: beat.presence,
                beats: beat.number,
                waits: beat.waits,
            };
            self.members.insert(beat.run, member);
        }
        Heard::Members {
            members: self.members.values().cloned().collect(),
            evicted: self.evicted.iter().copied().collect(),
        }
    }
}
