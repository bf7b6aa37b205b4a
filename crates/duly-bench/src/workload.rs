//! Requests of the benchmarks. The same number always gives the same timer, and no timer is kept in
//! memory.
//!
//! The id of timer `n` contains `n`; its due time and payload follow from a hash of `n`. So a
//! request can be repeated exactly, and the memory of the load generator does not grow with the
//! timers. Results are requested without payload and headers, like those of a batch over the
//! network.

use std::sync::Arc;

use bytes::Bytes;
use duly_core::{
    Millis, NamespaceName, Payload, Schedule, TimerId, Timestamp,
    payload::Form,
    schedule::{IfExists, Patch, When},
};
use duly_store::{
    Command, Operation,
    command::{Answer, DeadLetterId},
};
use rand::{RngCore as _, SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};

/// Bytes of the pool from which payloads are cut: enough that neighbours differ.
const POOL_BYTES: usize = 64 * 1_024;
/// Seed of everything random.
const SEED: u64 = 0x6475_6C79;
/// Range of the due times.
const SPREAD_MS: u64 = 30 * 24 * 3_600 * 1_000;

/// Due times of the timers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dues {
    /// Spread over thirty days, starting at this time.
    SpreadFrom(Timestamp),
    /// All at this instant.
    AllAt(Timestamp),
}

/// Creates the commands.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    namespaces: Arc<[NamespaceName]>,
    dues: Dues,
    pool: Bytes,
    payload_bytes: usize,
}

impl Workload {
    /// Creates a workload whose timers take turns over the namespaces. There must be at least one.
    pub(crate) fn new(namespaces: Arc<[NamespaceName]>, dues: Dues, payload_bytes: usize) -> Self {
        assert!(!namespaces.is_empty(), "a timer has a namespace");
        let mut pool = vec![0; POOL_BYTES + payload_bytes];
        SmallRng::seed_from_u64(SEED).fill_bytes(&mut pool);
        Self { namespaces, dues, pool: pool.into(), payload_bytes }
    }

    /// Returns the bytes of one timer that a store must keep: its id, its due time and its payload.
    pub(crate) fn logical_bytes_each(&self) -> u64 {
        (id(0).as_str().len() + size_of::<u64>() + self.payload_bytes) as u64
    }

    /// Schedules timer `n`: the same request each time.
    pub(crate) fn schedule(&self, n: u32) -> Command {
        self.schedule_at(n, self.due_at(n))
    }

    /// Schedules timer `n` at another due time than its own.
    pub(crate) fn schedule_at(&self, n: u32, due_at: Timestamp) -> Command {
        let mut schedule = Schedule::new(id(n), When::At(due_at));
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let start = mix(u64::from(n)) as usize % POOL_BYTES;
        let bytes = self.pool.slice(start..start + self.payload_bytes);
        schedule.spec.payload = Some(Payload { form: Form::Binary, bytes });
        let schedule = Box::new(schedule);
        self.command(n, Operation::Schedule { schedule, if_exists: IfExists::Fail })
    }

    /// Cancels timer `n`.
    pub(crate) fn cancel(&self, n: u32) -> Command {
        self.command(n, Operation::Cancel { id: id(n), if_revision: None })
    }

    /// Moves timer `n` to `hours` hours after its own due time.
    pub(crate) fn reschedule(&self, n: u32, hours: u64) -> Command {
        let later = Millis::from_secs(hours * 3_600);
        let when = Some(When::At(self.due_at(n).saturating_add(later)));
        let patch = Box::new(Patch { when, ..Patch::default() });
        self.command(n, Operation::Reschedule { id: id(n), patch, if_revision: None })
    }

    /// Redrives the dead letter of timer `n`, with a delay of a day.
    pub(crate) fn redrive(&self, n: u32) -> Command {
        let (letter, delay) = (DeadLetterId::Timer(id(n)), Millis::from_secs(24 * 3_600));
        self.command(n, Operation::Redrive { letter, delay })
    }

    /// Purges the dead letter of timer `n`.
    pub(crate) fn purge(&self, n: u32) -> Command {
        self.command(n, Operation::Purge { letter: DeadLetterId::Timer(id(n)) })
    }

    fn command(&self, n: u32, operation: Operation) -> Command {
        let namespace = self.namespaces[n as usize % self.namespaces.len()].clone();
        Command { namespace, operation, answer: Answer::Brief }
    }

    fn due_at(&self, n: u32) -> Timestamp {
        match self.dues {
            Dues::AllAt(at) => at,
            Dues::SpreadFrom(first) => {
                let offset_ms = mix(u64::from(n) ^ SEED) % SPREAD_MS;
                Timestamp::saturating_from_unix_ms(first.unix_ms() + offset_ms)
            }
        }
    }
}

/// Returns all numbers below `timers`, in a random order that is the same each time.
pub(crate) fn shuffled(timers: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..timers).collect();
    order.shuffle(&mut SmallRng::seed_from_u64(SEED));
    order
}

fn id(n: u32) -> TimerId {
    TimerId::new(&format!("order-{n:010}")).expect("letters, digits and a dash")
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ n >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_always_makes_the_same_request() {
        let first = Timestamp::from_unix_ms(2_000_000_000_000).unwrap();
        let namespaces = ["a", "b"].map(|name| NamespaceName::new(name).unwrap());
        let workload = Workload::new(namespaces.into(), Dues::SpreadFrom(first), 128);
        assert_eq!(workload.schedule(7), workload.clone().schedule(7));
        assert_ne!(workload.schedule(7), workload.schedule(8));
        assert_eq!(workload.schedule(7).namespace, workload.cancel(9).namespace);
        assert_ne!(workload.schedule(7).namespace, workload.cancel(8).namespace);
        for n in 0..1_000 {
            let due_ms = workload.due_at(n).unix_ms();
            assert!((first.unix_ms()..first.unix_ms() + SPREAD_MS).contains(&due_ms), "{n}");
        }
    }

    #[test]
    fn a_shuffled_order_has_every_number_once() {
        let mut order = shuffled(1_000);
        assert_ne!(order, (0..1_000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1_000).collect::<Vec<_>>());
        assert!(shuffled(0).is_empty());
    }
}
