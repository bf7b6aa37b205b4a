//! The data of the store: namespaces, issued tokens, and the random source.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{NamespaceName, TimerId, settle::LeaseLoss};

use super::{clock::ClockReading, namespace_state::NamespaceState};
use crate::{Command, Error, MemberId, Outcome, Owner, Refusal, Result, random::SplitMix64};

/// The state of the store.
#[derive(Debug)]
pub(super) struct MemoryState {
    pub(super) namespaces: BTreeMap<NamespaceName, NamespaceState>,
    /// Every issued token, by its nonce. Never shrinks, because this store is for tests.
    pub(super) tokens: BTreeMap<u64, IssuedToken>,
    pub(super) random: SplitMix64,
    /// Distinguishes tokens of this store from those of other stores.
    pub(super) store_id: u64,
    /// Number of the next namespace: a namespace that is created again has another number.
    pub(super) namespace_number_next: u64,
}

/// The timer that a token was issued for.
#[derive(Debug, Clone)]
pub(super) struct IssuedToken {
    pub(super) namespace: NamespaceName,
    pub(super) namespace_number: u64,
    pub(super) id: TimerId,
}

impl MemoryState {
    pub(super) fn new(random_seed: u64) -> Self {
        let mut random = SplitMix64::new(random_seed);
        Self {
            namespaces: BTreeMap::new(),
            tokens: BTreeMap::new(),
            store_id: random.next_u64(),
            random,
            namespace_number_next: 1,
        }
    }

    /// Catches up with the clock in every namespace.
    pub(super) fn catch_up(&mut self, now: ClockReading) {
        for namespace in self.namespaces.values_mut() {
            namespace.catch_up(now);
        }
    }

    pub(super) fn namespace(&mut self, name: &NamespaceName) -> Result<&mut NamespaceState> {
        self.namespaces.get_mut(name).ok_or_else(|| Error::UnknownNamespace(name.to_string()))
    }

    pub(super) fn apply(&mut self, command: Command, now: ClockReading) -> Outcome {
        let Some(namespace) = self.namespaces.get_mut(&command.namespace) else {
            return Outcome::Refused(Refusal::UnknownNamespace(command.namespace));
        };
        let outcome = namespace.apply(command.operation, command.answer, &mut self.random, now);
        if outcome.is_ok() {
            namespace.idle_since = None;
        }
        outcome.unwrap_or_else(Outcome::Refused).answering(command.answer)
    }

    /// Returns the nodes that hold leases.
    pub(super) fn holders(&self) -> Vec<MemberId> {
        let held = self.namespaces.values().flat_map(NamespaceState::owners);
        let member_ids: BTreeSet<MemberId> = held
            .filter_map(|owner| match owner {
                Owner::Node(member_id) => Some(member_id),
                Owner::Consumer { .. } => None,
            })
            .collect();
        member_ids.into_iter().collect()
    }

    /// Ends the leases of every owner for which `gone` returns `true`; returns their number.
    pub(super) fn release(
        &mut self,
        gone: impl Fn(Owner) -> bool,
        loss: LeaseLoss,
        now: ClockReading,
    ) -> u64 {
        let released = self.namespaces.values_mut().map(|namespace| {
            let held = namespace.leased(|lease| gone(lease.owner));
            for id in &held {
                namespace.lose_lease(id, loss, now.steady, now);
            }
            held.len() as u64
        });
        released.sum()
    }
}
