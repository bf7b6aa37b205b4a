//! The data of the store: namespaces, issued tokens, and the random source.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{NamespaceName, TimerId, settle::LeaseLoss};

use super::{clock::Now, space::Space};
use crate::{Command, Error, MemberId, Outcome, Owner, Refusal, Result, random::SplitMix64};

/// The state of the store.
#[derive(Debug)]
pub(super) struct State {
    pub(super) spaces: BTreeMap<NamespaceName, Space>,
    /// Every issued token, by its nonce. Never shrinks, because this store is for tests.
    pub(super) grants: BTreeMap<u64, Grant>,
    pub(super) random: SplitMix64,
    /// Distinguishes tokens of this store from those of other stores.
    pub(super) store_id: u64,
    /// Number of the next namespace: a namespace that is created again has another number.
    pub(super) space_next: u64,
}

/// The timer that a token was issued for.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) namespace: NamespaceName,
    pub(super) space: u64,
    pub(super) id: TimerId,
}

impl State {
    pub(super) fn new(random_seed: u64) -> Self {
        let mut random = SplitMix64::new(random_seed);
        Self {
            spaces: BTreeMap::new(),
            grants: BTreeMap::new(),
            store_id: random.next_u64(),
            random,
            space_next: 1,
        }
    }

    /// Catches up with the clock in every namespace.
    pub(super) fn catch_up(&mut self, now: Now) {
        for space in self.spaces.values_mut() {
            space.catch_up(now);
        }
    }

    pub(super) fn space(&mut self, name: &NamespaceName) -> Result<&mut Space> {
        self.spaces.get_mut(name).ok_or_else(|| Error::UnknownNamespace(name.to_string()))
    }

    pub(super) fn apply(&mut self, command: Command, now: Now) -> Outcome {
        let Some(space) = self.spaces.get_mut(&command.namespace) else {
            return Outcome::Refused(Refusal::UnknownNamespace(command.namespace));
        };
        let outcome = space.apply(command.operation, command.answer, &mut self.random, now);
        if outcome.is_ok() {
            space.idle_since = None;
        }
        outcome.unwrap_or_else(Outcome::Refused).answering(command.answer)
    }

    /// Returns the nodes that hold leases.
    pub(super) fn holders(&self) -> Vec<MemberId> {
        let held = self.spaces.values().flat_map(Space::owners);
        let runs: BTreeSet<MemberId> = held
            .filter_map(|owner| match owner {
                Owner::Node(run) => Some(run),
                Owner::Consumer { .. } => None,
            })
            .collect();
        runs.into_iter().collect()
    }

    /// Ends the leases of every owner for which `gone` returns `true`; returns their number.
    pub(super) fn release(
        &mut self,
        gone: impl Fn(Owner) -> bool,
        loss: LeaseLoss,
        now: Now,
    ) -> u64 {
        let released = self.spaces.values_mut().map(|space| {
            let held = space.leased(|lease| gone(lease.owner));
            for id in &held {
                space.lose_lease(id, loss, now.steady, now);
            }
            held.len() as u64
        });
        released.sum()
    }
}
