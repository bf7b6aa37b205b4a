//! What can happen to nodes, Redis servers and the network between them, and in which order it does.

use std::fmt;

use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Something that goes wrong, and is put right again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Fault {
    /// A node is killed with -9, and started again later.
    KillNode,
    /// A node stands still (SIGSTOP) for longer than a lease.
    StopNode,
    /// A node is cut off from Redis, not from receivers.
    CutFromStore,
    /// A node is cut off from the receivers, not from Redis.
    CutFromReceivers,
    /// A node has a long way to Redis: 50 to 300 ms in each direction.
    SlowStore,
    /// A master has such a way to everybody, or to everybody but its replicas.
    SlowMaster,
    /// Of the packets between a node and Redis 1 to 5 % are lost, in each direction.
    LossyNetwork,
    /// A master is killed with -9; its replica takes over; it comes back.
    KillMaster,
    /// A master restarts without its data before a replica takes over; an operator repairs its shards.
    LoseMaster,
    /// A master comes back with data of some seconds before; an operator repairs its shards.
    RollBackMaster,
    /// A master is cut off alone; its replica takes over; it comes back.
    IsolateMaster,
    /// A master is cut off together with a node.
    IsolateMasterWithNode,
    /// A node runs with a clock that is ahead or behind, by 5 s or an hour.
    WrongClock,
    /// A master reaches its `maxmemory`.
    FullMemory,
    /// All servers forget their scripts, again and again.
    FlushScripts,
    /// Slots with timers move to another master.
    MoveSlots,
    /// Every node is asked to end and started again, one after the other.
    RollingRestart,
}

impl Fault {
    /// Whether a node dies by it, so that others have to take over its shards.
    pub(super) const fn kills_a_node(self) -> bool {
        matches!(self, Self::KillNode)
    }

    /// Whether a process is killed by it.
    pub(super) const fn kills(self) -> bool {
        matches!(self, Self::KillNode | Self::KillMaster | Self::LoseMaster | Self::RollBackMaster)
    }

    /// Whether it makes the way to Redis worse, without an end to wait for.
    pub(super) const fn slows(self) -> bool {
        matches!(self, Self::SlowStore | Self::SlowMaster | Self::LossyNetwork)
    }

    /// Whether a replica takes the place of a master.
    pub(super) const fn fails_over(self) -> bool {
        matches!(self, Self::KillMaster | Self::IsolateMaster | Self::IsolateMasterWithNode)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Rounds of all wanted faults, each round in an order of its own.
#[derive(Debug)]
pub(super) struct Order {
    wanted: Vec<Fault>,
    round: Vec<Fault>,
}

impl Order {
    /// Of these; of all, where none is named.
    pub(super) fn new(named: &[Fault]) -> Self {
        let wanted = if named.is_empty() { Fault::value_variants() } else { named };
        Self { wanted: wanted.to_vec(), round: Vec::new() }
    }

    /// Never again: it cannot be done here.
    pub(super) fn leave_out(&mut self, fault: Fault) {
        self.wanted.retain(|wanted| *wanted != fault);
    }

    /// The next one.
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
    fn every_fault_comes_once_a_round_and_a_seed_repeats_the_order() {
        let all = Fault::value_variants();
        let rounds = |seed| -> Vec<Fault> {
            let (mut order, mut rng) = (Order::new(&[]), SmallRng::seed_from_u64(seed));
            (0..2 * all.len()).filter_map(|_| order.next(&mut rng)).collect()
        };
        for round in rounds(7).chunks(all.len()) {
            assert_eq!(round.iter().collect::<HashSet<_>>().len(), all.len());
        }
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        let mut only = Order::new(&[Fault::KillNode]);
        assert_eq!(only.next(&mut SmallRng::seed_from_u64(1)), Some(Fault::KillNode));
    }

    #[test]
    fn a_fault_is_shown_as_it_is_named_on_the_command_line() {
        assert_eq!(Fault::CutFromStore.to_string(), "cut-from-store");
    }
}
