//! Announcements to and from other nodes: which namespaces their calls and ours wait for. Pure.

use std::{collections::BTreeMap, time::Duration};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::deployment::{Coordinators, NamespaceFilter};
use rustc_hash::FxHashMap;

/// Shortest time between two announcements of one namespace and shard.
const EVERY: Duration = Duration::from_millis(10);
/// Time for which a wait is announced after the last call: a busy consumer calls again.
const LINGERS: Duration = Duration::from_secs(5);
/// Time until every node that may act has sent a heartbeat, and so received the announced waits.
const HEARD_WITHIN: Duration = super::membership::ACTS_FOR;
/// Most announcements that are remembered.
const REMEMBERED_MAX: usize = 4_096;

/// The time at which an announcement may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// No call of another node waits for it.
    Never,
    /// At once.
    Now,
    /// After this time: it was announced just before.
    In(Duration),
}

/// The recent announcements, and the waits that this node has announced.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    last: FxHashMap<(ShardId, NamespaceName), Duration>,
    /// Time at which calls last waited for a namespace.
    waited: FxHashMap<NamespaceName, Duration>,
    /// The announced waits by coordinator shard. The other nodes know all that a majority of the shards
    /// knows, because they get replies of a majority too.
    said: BTreeMap<ShardId, NamespaceFilter>,
    majority: usize,
    /// Time since which the other nodes know of the waits.
    told_since: FxHashMap<NamespaceName, Duration>,
}

impl Announcements {
    /// Returns the time at which an announcement may be made. `Now` is recorded as made.
    pub(crate) fn admit(
        &mut self,
        shard: ShardId,
        namespace: &NamespaceName,
        now: Duration,
    ) -> When {
        let key = (shard, namespace.clone());
        if let Some(last) = self.last.get(&key) {
            let left = EVERY.saturating_sub(now.saturating_sub(*last));
            if !left.is_zero() {
                return When::In(left);
            }
        }
        if self.last.len() >= REMEMBERED_MAX {
            self.last.retain(|_, last| now.saturating_sub(*last) < EVERY);
        }
        self.last.insert(key, now);
        When::Now
    }

    /// Returns `true` if a call that waits for a namespace must be announced.
    pub(crate) fn waits(&self, namespace: &NamespaceName) -> bool {
        !self.is_said(namespace)
    }

    fn is_said(&self, namespace: &NamespaceName) -> bool {
        is_said(&self.said, self.majority, namespace)
    }

    /// Returns the waits that the next heartbeat announces.
    pub(crate) fn interest(
        &mut self,
        waited_for: Vec<NamespaceName>,
        now: Duration,
    ) -> NamespaceFilter {
        for namespace in waited_for {
            self.waited.insert(namespace, now);
        }
        self.waited.retain(|_, last| now.saturating_sub(*last) < LINGERS);
        let mut interest = NamespaceFilter::default();
        for namespace in self.waited.keys() {
            interest.insert(namespace);
        }
        interest
    }

    /// Records that a coordinator shard of this list has acknowledged these waits. Returns `true` if the
    /// other nodes learn of a new wait by it. Firings that became claimable before were announced to no
    /// node.
    pub(crate) fn told(
        &mut self,
        shard: ShardId,
        list: &Coordinators,
        interest: NamespaceFilter,
        now: Duration,
    ) -> bool {
        self.majority = list.majority();
        self.said.insert(shard, interest);
        self.said.retain(|shard, _| list.shards.contains(shard));
        let Self { said, majority, waited, told_since, .. } = self;
        told_since.retain(|namespace, _| is_said(said, *majority, namespace));
        let mut is_new = false;
        for namespace in waited.keys().filter(|name| is_said(said, *majority, name)) {
            if !told_since.contains_key(namespace) {
                // The other nodes learn of it with their next heartbeat.
                told_since.insert(namespace.clone(), now + HEARD_WITHIN);
                is_new = true;
            }
        }
        is_new
    }

    /// Returns the time since which the other nodes know that calls wait for a namespace here.
    pub(crate) fn told_since(&self, namespace: &NamespaceName) -> Option<Duration> {
        self.told_since.get(namespace).copied()
    }

    /// Drops all that was announced, because the other nodes may have lost it.
    pub(crate) fn forgotten(&mut self) {
        self.said.clear();
        self.told_since.clear();
    }
}

/// Returns `true` if a majority of the coordinator shards knows that calls wait for a namespace.
fn is_said(
    said: &BTreeMap<ShardId, NamespaceFilter>,
    majority: usize,
    namespace: &NamespaceName,
) -> bool {
    let count = said.values().filter(|said| said.contains(namespace)).count();
    count > 0 && count >= majority
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_of_a_namespace_are_rate_limited() {
        let name = NamespaceName::new("a").unwrap();
        let mut announced = Announcements::default();
        let at = Duration::from_secs(1);
        assert_eq!(announced.admit(ShardId(1), &name, at), When::Now);
        assert_eq!(announced.admit(ShardId(2), &name, at), When::Now, "another shard");
        let soon = at + EVERY / 2;
        assert_eq!(announced.admit(ShardId(1), &name, soon), When::In(EVERY / 2));
        assert_eq!(announced.admit(ShardId(1), &name, at + EVERY), When::Now);
    }

    #[test]
    fn announced_waits_are_not_repeated_and_linger() {
        let name = NamespaceName::new("a").unwrap();
        let mut announced = Announcements::default();
        assert!(announced.waits(&name));
        let interest = announced.interest(vec![name.clone()], Duration::ZERO);
        assert!(announced.waits(&name), "nobody has heard of it yet");
        let at = Duration::from_secs(1);
        let list = Coordinators { version: 1, shards: vec![ShardId(0), ShardId(4), ShardId(9)] };
        let mut told = |shard| announced.told(ShardId(shard), &list, interest.clone(), at);
        assert!(!told(0) && !told(0), "one of three knows");
        assert!(told(9), "it is news to a majority");
        assert!(!told(4) && !told(0));
        assert!(!announced.waits(&name));
        assert_eq!(announced.told_since(&name), Some(at + HEARD_WITHIN));
        announced.forgotten();
        assert!(announced.waits(&name) && announced.told_since(&name).is_none());
        let soon = announced.interest(Vec::new(), LINGERS / 2);
        assert!(soon.contains(&name), "whoever waited will wait again");
        assert!(announced.interest(Vec::new(), LINGERS).is_empty());
    }
}
