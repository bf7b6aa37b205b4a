//! Faults of nodes, Redis servers and the network between them, and their order.

use std::fmt;

use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// A fault, which is repaired at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Fault {
    /// A node is killed with -9, and started again later.
    KillNode,
    /// A node is stopped (SIGSTOP) for longer than a lease.
    StopNode,
    /// A node is cut off from Redis, not from receivers.
    CutFromStore,
    /// A node is cut off from receivers, not from Redis.
    CutFromReceivers,
    /// A node has a delay of 50 to 300 ms to Redis, in each direction.
    SlowStore,
    /// A master has such a delay to all hosts, or to all hosts but its replicas.
    SlowMaster,
    /// 1 to 5 % of the packets between a node and Redis are lost, in each direction.
    LossyNetwork,
    /// A master is killed with -9; its replica takes over; the master comes back.
    KillMaster,
    /// A master restarts without its data before a replica takes over; an operator repairs its
    /// shards.
    LoseMaster,
    /// A master comes back with data that are some seconds old; an operator repairs its shards.
    RollBackMaster,
    /// A master is cut off alone; its replica takes over; the master comes back.
    IsolateMaster,
    /// A master is cut off together with a node.
    IsolateMasterWithNode,
    /// A node runs with a clock that is 5 s or an hour ahead or behind.
    WrongClock,
    /// A master reaches its `maxmemory`.
    FullMemory,
    /// All servers lose their scripts, several times.
    FlushScripts,
    /// Slots with timers move to another master.
    MoveSlots,
    /// Every node is stopped and started again, one after the other.
    RollingRestart,
}

impl Fault {
    /// Returns `true` if a node dies, so that others take over its shards.
    pub(super) const fn is_node_death(self) -> bool {
        matches!(self, Self::KillNode)
    }

    /// Returns `true` if a process is killed.
    pub(super) const fn is_kill(self) -> bool {
        matches!(self, Self::KillNode | Self::KillMaster | Self::LoseMaster | Self::RollBackMaster)
    }

    /// Returns `true` if the fault delays or loses packets to Redis, for a fixed time.
    pub(super) const fn is_slow_network(self) -> bool {
        matches!(self, Self::SlowStore | Self::SlowMaster | Self::LossyNetwork)
    }

    /// Returns `true` if a replica takes the place of a master.
    pub(super) const fn is_failover(self) -> bool {
        matches!(self, Self::KillMaster | Self::IsolateMaster | Self::IsolateMasterWithNode)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Rounds of all wanted faults, each round in random order.
#[derive(Debug)]
pub(super) struct FaultOrder {
    wanted: Vec<Fault>,
    round: Vec<Fault>,
}

impl FaultOrder {
    /// Creates rounds of the named faults, or of all faults if none is named.
    pub(super) fn new(named: &[Fault]) -> Self {
        let wanted = if named.is_empty() { Fault::value_variants() } else { named };
        Self { wanted: wanted.to_vec(), round: Vec::new() }
    }

    /// Removes a fault that this machine cannot do.
    pub(super) fn exclude(&mut self, fault: Fault) {
        self.wanted.retain(|wanted| *wanted != fault);
    }

    /// Returns the next fault; `None` if no fault is left.
    pub(super) fn next(&mut self, rng: &mut SmallRng) -> Option<Fault> {
        if self.round.is_empty() {
            self.round.clone_from(&self.wanted);
            self.round.shuffle(rng);
        }
        self.round.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn each_round_has_every_fault_in_a_seeded_order() {
        let all = Fault::value_variants();
        let rounds = |seed| -> Vec<Fault> {
            let (mut order, mut rng) = (FaultOrder::new(&[]), SmallRng::seed_from_u64(seed));
            (0..2 * all.len()).filter_map(|_| order.next(&mut rng)).collect()
        };
        for round in rounds(7).chunks(all.len()) {
            assert_eq!(round.iter().collect::<HashSet<_>>().len(), all.len());
        }
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        let mut only = FaultOrder::new(&[Fault::KillNode]);
        assert_eq!(only.next(&mut SmallRng::seed_from_u64(1)), Some(Fault::KillNode));
    }

    #[test]
    fn faults_display_their_command_line_names() {
        assert_eq!(Fault::CutFromStore.to_string(), "cut-from-store");
    }
}
