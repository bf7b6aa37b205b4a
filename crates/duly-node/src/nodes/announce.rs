//! Announcements to and from other nodes: which namespaces their calls and ours wait for. Pure.

use std::{collections::BTreeMap, time::Duration};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::deployment::{Coordinators, NamespaceFilter};
use rustc_hash::FxHashMap;

/// Shortest time between two announcements of one namespace and shard.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(10);
/// Time for which a wait is announced after the last call: a busy consumer calls again.
const LINGER_FOR: Duration = Duration::from_secs(5);
/// Time until every node that may act has sent a heartbeat, and so received the announced waits.
const KNOWN_WITHIN: Duration = super::membership::ACTS_FOR;
/// Most announcements that are remembered.
const REMEMBERED_MAX: usize = 4_096;

/// The time at which an announcement may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnnounceTime {
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
    acknowledged: BTreeMap<ShardId, NamespaceFilter>,
    majority: usize,
    /// Time since which the other nodes know of the waits.
    announced_since: FxHashMap<NamespaceName, Duration>,
}

impl Announcements {
    /// Returns the time at which an announcement may be made. `Now` is recorded as made.
    pub(crate) fn admit(
        &mut self,
        shard: ShardId,
        namespace: &NamespaceName,
        now: Duration,
    ) -> AnnounceTime {
        let key = (shard, namespace.clone());
        if let Some(last) = self.last.get(&key) {
            let left = ANNOUNCE_INTERVAL.saturating_sub(now.saturating_sub(*last));
            if !left.is_zero() {
                return AnnounceTime::In(left);
            }
        }
        if self.last.len() >= REMEMBERED_MAX {
            self.last.retain(|_, last| now.saturating_sub(*last) < ANNOUNCE_INTERVAL);
        }
        self.last.insert(key, now);
        AnnounceTime::Now
    }

    /// Returns `true` if a call that waits for a namespace must be announced.
    pub(crate) fn must_announce(&self, namespace: &NamespaceName) -> bool {
        !is_acknowledged(&self.acknowledged, self.majority, namespace)
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
        self.waited.retain(|_, last| now.saturating_sub(*last) < LINGER_FOR);
        let mut interest = NamespaceFilter::default();
        for namespace in self.waited.keys() {
            interest.insert(namespace);
        }
        interest
    }

    /// Records that a coordinator shard of this list has acknowledged these waits. Returns `true` if the
    /// other nodes learn of a new wait by it. Firings that became claimable before were announced to no
    /// node.
    pub(crate) fn on_acknowledged(
        &mut self,
        shard: ShardId,
        list: &Coordinators,
        interest: NamespaceFilter,
        now: Duration,
    ) -> bool {
        self.majority = list.majority();
        self.acknowledged.insert(shard, interest);
        self.acknowledged.retain(|shard, _| list.shards.contains(shard));
        let Self { acknowledged, majority, waited, announced_since, .. } = self;
        announced_since.retain(|namespace, _| is_acknowledged(acknowledged, *majority, namespace));
        let mut is_new = false;
        for namespace in waited.keys().filter(|name| is_acknowledged(acknowledged, *majority, name))
        {
            if !announced_since.contains_key(namespace) {
                // The other nodes learn of it with their next heartbeat.
                announced_since.insert(namespace.clone(), now + KNOWN_WITHIN);
                is_new = true;
            }
        }
        is_new
    }

    /// Returns the time since which the other nodes know that calls wait for a namespace here.
    pub(crate) fn announced_since(&self, namespace: &NamespaceName) -> Option<Duration> {
        self.announced_since.get(namespace).copied()
    }

    /// Drops all that was announced, because the other nodes may have lost it.
    pub(crate) fn drop_announced(&mut self) {
        self.acknowledged.clear();
        self.announced_since.clear();
    }
}

/// Returns `true` if a majority of the coordinator shards knows that calls wait for a namespace.
fn is_acknowledged(
    acknowledged: &BTreeMap<ShardId, NamespaceFilter>,
    majority: usize,
    namespace: &NamespaceName,
) -> bool {
    let count =
        acknowledged.values().filter(|acknowledged| acknowledged.contains(namespace)).count();
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
        assert_eq!(announced.admit(ShardId(1), &name, at), AnnounceTime::Now);
        assert_eq!(announced.admit(ShardId(2), &name, at), AnnounceTime::Now, "another shard");
        let soon = at + ANNOUNCE_INTERVAL / 2;
        assert_eq!(
            announced.admit(ShardId(1), &name, soon),
            AnnounceTime::In(ANNOUNCE_INTERVAL / 2)
        );
        assert_eq!(announced.admit(ShardId(1), &name, at + ANNOUNCE_INTERVAL), AnnounceTime::Now);
    }

    #[test]
    fn announced_waits_are_not_repeated_and_linger() {
        let name = NamespaceName::new("a").unwrap();
        let mut announced = Announcements::default();
        assert!(announced.must_announce(&name));
        let interest = announced.interest(vec![name.clone()], Duration::ZERO);
        assert!(announced.must_announce(&name), "no coordinator shard has acknowledged it yet");
        let at = Duration::from_secs(1);
        let list = Coordinators { version: 1, shards: vec![ShardId(0), ShardId(4), ShardId(9)] };
        let mut acknowledge =
            |shard| announced.on_acknowledged(ShardId(shard), &list, interest.clone(), at);
        assert!(!acknowledge(0) && !acknowledge(0), "one of three knows");
        assert!(acknowledge(9), "a majority knows it now");
        assert!(!acknowledge(4) && !acknowledge(0));
        assert!(!announced.must_announce(&name));
        assert_eq!(announced.announced_since(&name), Some(at + KNOWN_WITHIN));
        announced.drop_announced();
        assert!(announced.must_announce(&name) && announced.announced_since(&name).is_none());
        let soon = announced.interest(Vec::new(), LINGER_FOR / 2);
        assert!(soon.contains(&name), "a call that waited will wait again");
        assert!(announced.interest(Vec::new(), LINGER_FOR).is_empty());
    }
}
