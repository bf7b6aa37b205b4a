//! The data of the store: namespaces with their settings, issued tokens, and the random source.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use duly_core::{NamespaceName, Settings, TimerId, rate::Gcra, settle::LeaseLoss, totals::Totals};

use super::{clock::ClockReading, namespace_state::NamespaceState};
use crate::{
    Command, Error, MemberId, Outcome, Owner, Refusal, Result,
    namespaces::{Activity, DeleteMode, IDLE_AFTER, Namespace, Put, Secrets, too_many},
    random::SplitMix64,
};

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

    /// Returns the node of each lease that a node holds.
    pub(super) fn holders(&self) -> Vec<MemberId> {
        let live = self.namespaces.values().flat_map(|namespace| namespace.live.values());
        let node_of = |owner| match owner {
            Owner::Node(member_id) => Some(member_id),
            Owner::Consumer { .. } => None,
        };
        live.filter_map(|live| node_of(live.lease?.owner)).collect()
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

    pub(super) fn put_namespace(
        &mut self,
        name: NamespaceName,
        put: Put,
        namespaces_max: u64,
        now: ClockReading,
    ) -> Result<(Namespace, bool)> {
        let count = self.namespaces.len() as u64;
        let old = self.namespaces.get_mut(&name);
        if old.is_none() && count >= namespaces_max {
            return Err(too_many(namespaces_max));
        }
        let implicit = matches!(put, Put::IfAbsent(_));
        let settings = match (put, &old) {
            (Put::IfAbsent(_), Some(namespace)) => return Ok((namespace.own.clone(), false)),
            (Put::IfAbsent(settings), None) => *settings,
            (Put::Replace { mut settings, secrets }, old) => {
                if secrets == Secrets::Keep {
                    let kept = old
                        .as_ref()
                        .map(|namespace| namespace.own.settings.signing_secrets.clone());
                    settings.signing_secrets = kept.unwrap_or_default();
                }
                *settings
            }
        };
        if let Some(namespace) = old {
            // A tombstone whose retention is over stays over under a longer retention.
            namespace.drop_tombstones_past_retention(now);
            namespace.own.settings = Arc::new(settings);
            namespace.implicit = false;
            namespace.own.updated_at = now.wall;
            namespace.drop_tombstones_past_retention(now);
            namespace.trim_tombstones();
            return Ok((namespace.own.clone(), false));
        }
        let namespace = NamespaceState {
            implicit,
            ..NamespaceState::new(name.clone(), self.namespace_number_next, settings, now)
        };
        self.namespace_number_next += 1;
        let created = namespace.own.clone();
        self.namespaces.insert(name, namespace);
        Ok((created, true))
    }

    pub(super) fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Vec<Namespace> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let namespaces = self.namespaces.range::<NamespaceName, _>((from, Bound::Unbounded));
        namespaces.take(limit).map(|(_, namespace)| namespace.own.clone()).collect()
    }

    pub(super) fn set_activity(
        &mut self,
        name: &NamespaceName,
        activity: Activity,
        now: ClockReading,
    ) -> Result<Namespace> {
        let namespace = self.namespace(name)?;
        let after = activity.applied(namespace.own.paused, namespace.own.resumes_at, now.wall);
        if (namespace.own.paused, namespace.own.resumes_at) != after {
            namespace.implicit = false;
            (namespace.own.paused, namespace.own.resumes_at) = after;
            namespace.own.updated_at = now.wall;
        }
        Ok(namespace.own.clone())
    }

    pub(super) fn delete_namespace(
        &mut self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let namespace = self.namespace(name)?;
        let (pending, dead) = (namespace.live.len() as u64, namespace.dead.len() as u64);
        if mode == DeleteMode::IfEmpty && pending + dead > 0 {
            return Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead });
        }
        self.namespaces.remove(name);
        Ok(())
    }

    pub(super) fn remove_idle(
        &mut self,
        awaited: &BTreeSet<NamespaceName>,
        now: ClockReading,
    ) -> Vec<NamespaceName> {
        let mut removed = Vec::new();
        for (name, namespace) in
            self.namespaces.iter_mut().filter(|(_, namespace)| namespace.implicit)
        {
            if namespace.is_in_use() || awaited.contains(name) {
                namespace.idle_since = None;
                continue;
            }
            let since = *namespace.idle_since.get_or_insert(now.boot);
            if now.boot.saturating_sub(since) >= IDLE_AFTER.to_std() {
                removed.push(name.clone());
            }
        }
        removed.iter().for_each(|name| drop(self.namespaces.remove(name)));
        removed
    }
}

impl NamespaceState {
    fn new(name: NamespaceName, number: u64, settings: Settings, now: ClockReading) -> Self {
        let own = Namespace {
            name,
            settings: Arc::new(settings),
            paused: false,
            resumes_at: None,
            created_at: now.wall,
            updated_at: now.wall,
            maybe_outdated: false,
        };
        Self {
            own,
            number,
            implicit: false,
            idle_since: None,
            live: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            dead: BTreeMap::new(),
            receivers: BTreeSet::new(),
            totals: Totals::default(),
            ended_next: 0,
            schedules: Gcra::default(),
        }
    }

    fn is_in_use(&self) -> bool {
        !(self.live.is_empty() && self.dead.is_empty() && self.tombstones.is_empty())
    }
}
