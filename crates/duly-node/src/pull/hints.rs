//! In which shards a namespace has something for the calls that wait, and of which kind. Pure.
//!
//! A look at every shard costs a call each, so it is made only while nobody would tell: once all were
//! found empty *after* the other nodes knew that calls wait here, whatever becomes claimable is
//! told, by our own walks or by an announcement. What is lost on the way comes back with the looks that
//! are made once a second.

use std::{collections::BTreeSet, time::Duration};

use duly_core::{NamespaceName, shard::ShardId};
use rustc_hash::FxHashMap;

/// Namespaces that are remembered.
const REMEMBERED_MAX: usize = 4_096;

/// How long it is remembered that a namespace has retries: every shard is looked at as often.
const RETRIES_FOR: Duration = Duration::from_secs(2);

/// What is known of where something is.
#[derive(Debug, Default)]
pub(super) struct Hints(FxHashMap<NamespaceName, Known>);

#[derive(Debug, Default)]
struct Known {
    shards: BTreeSet<ShardId>,
    /// When a look at every shard began that found nothing.
    empty_at: Option<Duration>,
    /// When a retry was last seen.
    retries_at: Option<Duration>,
}

impl Hints {
    /// Something may be claimable there.
    pub(super) fn add(&mut self, namespace: &NamespaceName, shard: ShardId) {
        self.known(namespace).shards.insert(shard);
    }

    /// It has retries.
    pub(super) fn saw_retries(&mut self, namespace: &NamespaceName, now: Duration) {
        self.known(namespace).retries_at = Some(now);
    }

    /// Whether it has retries, as far as is known.
    pub(super) fn has_retries(&self, namespace: &NamespaceName, now: Duration) -> bool {
        let seen = self.0.get(namespace).and_then(|known| known.retries_at);
        seen.is_some_and(|at| now.saturating_sub(at) < RETRIES_FOR)
    }

    fn known(&mut self, namespace: &NamespaceName) -> &mut Known {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(namespace) {
            self.0.clear();
        }
        self.0.entry(namespace.clone()).or_default()
    }

    /// Takes up to `most` shards that have something, as far as is known.
    pub(super) fn take(&mut self, namespace: &NamespaceName, most: usize) -> Vec<ShardId> {
        let Some(known) = self.0.get_mut(namespace) else {
            return Vec::new();
        };
        std::iter::from_fn(|| known.shards.pop_first()).take(most).collect()
    }

    /// Shards that have something, as far as is known.
    pub(super) fn shards(&self, namespace: &NamespaceName) -> Vec<ShardId> {
        self.0.get(namespace).map_or_else(Vec::new, |known| known.shards.iter().copied().collect())
    }

    /// A look at every shard that began then has found nothing.
    pub(super) fn all_empty(&mut self, namespace: &NamespaceName, began_at: Duration) {
        self.known(namespace).empty_at = Some(began_at);
    }

    /// Whether everything that became claimable was told since all was empty; `told_since` is when
    /// others first knew that calls wait here.
    pub(super) fn are_complete(
        &self,
        namespace: &NamespaceName,
        told_since: Option<Duration>,
    ) -> bool {
        let empty_at = self.0.get(namespace).and_then(|known| known.empty_at);
        empty_at.zip(told_since).is_some_and(|(empty_at, told_since)| empty_at > told_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_looked_at_until_all_were_empty_while_others_knew() {
        let name = NamespaceName::new("a").unwrap();
        let at = Duration::from_secs;
        let mut hints = Hints::default();
        assert!(!hints.are_complete(&name, Some(at(1))), "nobody has looked");
        hints.all_empty(&name, at(2));
        assert!(!hints.are_complete(&name, None) && !hints.are_complete(&name, Some(at(3))));
        assert!(hints.are_complete(&name, Some(at(1))));
        assert_eq!(hints.take(&name, 9), []);
        for shard in [5, 3, 5, 9] {
            hints.add(&name, ShardId(shard));
        }
        assert_eq!(hints.shards(&name), [3, 5, 9].map(ShardId));
        assert_eq!(hints.take(&name, 2), [ShardId(3), ShardId(5)]);
        assert_eq!(hints.take(&name, 9), [ShardId(9)]);
    }

    #[test]
    fn retries_are_remembered_for_a_while() {
        let name = NamespaceName::new("a").unwrap();
        let mut hints = Hints::default();
        assert!(!hints.has_retries(&name, Duration::ZERO));
        hints.saw_retries(&name, Duration::from_secs(5));
        assert!(hints.has_retries(&name, Duration::from_secs(6)));
        assert!(!hints.has_retries(&name, Duration::from_secs(7)));
    }
}
