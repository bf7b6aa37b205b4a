//! Hints for lease calls: the shards in which a namespace has firings, and of which kind; and the firings
//! that are expected there. Pure.
//!
//! 1. A poll of every shard costs one store call each. So a call polls only while the hints are
//!    incomplete.
//! 2. The hints are complete once all shards were found empty *after* the other nodes knew that calls
//!    wait here. From then on a walk of this node or an announcement reports every firing that becomes
//!    claimable.
//! 3. Lost announcements are compensated by polls once a second.

use std::{collections::BTreeMap, time::Duration};

use duly_core::{NamespaceName, shard::ShardId};
use rustc_hash::FxHashMap;

/// Most namespaces that are remembered with their hints.
const REMEMBERED_MAX: usize = 4_096;

/// Time for which it is remembered that a namespace has retries: every shard is polled as often.
const RETRIES_FOR: Duration = Duration::from_secs(2);

/// Largest weight of a shard.
const WEIGHT_MAX: usize = 64;

/// A shard that may have firings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) shard: ShardId,
    /// The part of a call that the shard gets, in proportion to the other shards. It doubles each time
    /// that a claim left firings there, and is 1 again once a claim left none. So a shard with more
    /// timers than others is not later than they are.
    pub(super) weight: usize,
}

impl Hint {
    /// Creates a hint without history.
    pub(super) const fn of(shard: ShardId) -> Self {
        Self { shard, weight: 1 }
    }
}

/// The hints by namespace.
#[derive(Debug, Default)]
pub(super) struct Hints(FxHashMap<NamespaceName, NamespaceHints>);

#[derive(Debug, Default)]
struct NamespaceHints {
    /// The weight of each shard.
    shards: BTreeMap<ShardId, usize>,
    /// The shard at which the next take starts, so that shards take turns.
    next: ShardId,
    /// Start time of the last poll of all shards that found nothing.
    empty_at: Option<Duration>,
    /// Time at which a retry was last seen.
    retries_at: Option<Duration>,
}

impl Hints {
    /// Adds a shard that may have firings.
    pub(super) fn add(&mut self, namespace: &NamespaceName, shard: ShardId) {
        self.known(namespace).shards.entry(shard).or_insert(1);
    }

    /// Adds a shard in which a claim has left firings.
    pub(super) fn add_more(&mut self, namespace: &NamespaceName, left: Hint) {
        let weight = (left.weight * 2).min(WEIGHT_MAX);
        let known = self.known(namespace).shards.entry(left.shard).or_insert(weight);
        *known = weight.max(*known);
    }

    /// Records that the namespace has retries.
    pub(super) fn record_retries(&mut self, namespace: &NamespaceName, now: Duration) {
        self.known(namespace).retries_at = Some(now);
    }

    /// Returns `true` if retries were seen recently.
    pub(super) fn has_retries(&self, namespace: &NamespaceName, now: Duration) -> bool {
        let seen = self.0.get(namespace).and_then(|known| known.retries_at);
        seen.is_some_and(|at| now.saturating_sub(at) < RETRIES_FOR)
    }

    fn known(&mut self, namespace: &NamespaceName) -> &mut NamespaceHints {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(namespace) {
            self.0.clear();
        }
        self.0.entry(namespace.clone()).or_default()
    }

    /// Takes up to `most` shards that may have firings, round-robin: from the one after the last that
    /// was taken. So shards with low numbers that always have firings do not starve high ones.
    pub(super) fn take(&mut self, namespace: &NamespaceName, most: usize) -> Vec<Hint> {
        let Some(NamespaceHints { shards, next, .. }) = self.0.get_mut(namespace) else {
            return Vec::new();
        };
        let in_order = shards.range(*next..).chain(shards.range(..*next));
        let hint = |(shard, weight): (&ShardId, &usize)| Hint { shard: *shard, weight: *weight };
        let taken: Vec<Hint> = in_order.map(hint).take(most).collect();
        for hint in &taken {
            shards.remove(&hint.shard);
            *next = ShardId(hint.shard.0.wrapping_add(1));
        }
        taken
    }

    /// Returns the shards that may have firings.
    pub(super) fn shards(&self, namespace: &NamespaceName) -> Vec<ShardId> {
        self.0.get(namespace).map_or_else(Vec::new, |known| known.shards.keys().copied().collect())
    }

    /// Records that a poll of all shards that began at `began_at` has found nothing.
    pub(super) fn record_empty_poll(&mut self, namespace: &NamespaceName, began_at: Duration) {
        self.known(namespace).empty_at = Some(began_at);
    }

    /// Returns `true` if all firings that became claimable since the last empty poll were reported.
    /// `announced_since` is the time from which the other nodes knew that calls wait here.
    pub(super) fn are_complete(
        &self,
        namespace: &NamespaceName,
        announced_since: Option<Duration>,
    ) -> bool {
        let empty_at = self.0.get(namespace).and_then(|known| known.empty_at);
        empty_at
            .zip(announced_since)
            .is_some_and(|(empty_at, announced_since)| empty_at > announced_since)
    }
}

/// Most namespaces that are remembered per shard. Polls find the firings of the others.
const OF_A_SHARD_MAX: usize = 32;

/// The expected firings: times at which namespaces that claimed in a shard will have a firing there, by
/// shard, with their wall times.
///
/// A claim reports the time of the next firing of its lane. At that time the node claims again, without
/// a poll of the shard. So at a steady rate there is one store call per firing, not two.
#[derive(Debug, Default)]
pub(super) struct ExpectedFirings(FxHashMap<ShardId, Vec<(NamespaceName, Duration)>>);

impl ExpectedFirings {
    /// Records that a namespace will have a firing in a shard at this time. With `all` that is its first
    /// firing, otherwise only the first of the kinds that were claimed.
    pub(super) fn add(
        &mut self,
        shard: ShardId,
        namespace: &NamespaceName,
        at: Duration,
        all: bool,
    ) {
        let known = self.0.entry(shard).or_default();
        if let Some(entry) = known.iter_mut().find(|(name, _)| name == namespace) {
            entry.1 = if all { at } else { at.min(entry.1) };
        } else if known.len() < OF_A_SHARD_MAX {
            known.push((namespace.clone(), at));
        }
    }

    /// Takes the namespaces that are due by now, and returns the time of the next.
    pub(super) fn take_due(
        &mut self,
        shard: ShardId,
        wall: Duration,
    ) -> (Vec<NamespaceName>, Option<Duration>) {
        let Some(known) = self.0.get_mut(&shard) else { return (Vec::new(), None) };
        let due = known.extract_if(.., |(_, at)| *at <= wall).map(|(name, _)| name).collect();
        (due, known.iter().map(|(_, at)| *at).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_complete_after_an_empty_announced_poll() {
        let name = NamespaceName::new("a").unwrap();
        let at = Duration::from_secs;
        let mut hints = Hints::default();
        assert!(!hints.are_complete(&name, Some(at(1))), "no poll yet");
        hints.record_empty_poll(&name, at(2));
        assert!(!hints.are_complete(&name, None) && !hints.are_complete(&name, Some(at(3))));
        assert!(hints.are_complete(&name, Some(at(1))));
        assert_eq!(hints.take(&name, 9), []);
        for shard in [5, 3, 5, 9] {
            hints.add(&name, ShardId(shard));
        }
        assert_eq!(hints.shards(&name), [3, 5, 9].map(ShardId));
        assert_eq!(hints.take(&name, 2), [ShardId(3), ShardId(5)].map(Hint::of));
        assert_eq!(hints.take(&name, 9), [Hint::of(ShardId(9))]);
    }

    #[test]
    fn p9_busy_shards_take_turns() {
        let name = NamespaceName::new("a").unwrap();
        let mut hints = Hints::default();
        let mut taken = Vec::new();
        for _ in 0..4 {
            for shard in [1, 4, 9] {
                hints.add(&name, ShardId(shard));
            }
            taken.extend(hints.take(&name, 2));
        }
        assert_eq!(taken, [1, 4, 9, 1, 4, 9, 1, 4].map(|shard| Hint::of(ShardId(shard))));
        hints.add(&name, ShardId(u16::MAX));
        hints.take(&name, 9);
        hints.add(&name, ShardId(0));
        assert_eq!(hints.take(&name, 1), [Hint::of(ShardId(0))], "the turn goes round");
    }

    #[test]
    fn p9_a_shard_with_leftover_firings_gets_more() {
        let name = NamespaceName::new("a").unwrap();
        let mut hints = Hints::default();
        let mut left = Hint::of(ShardId(7));
        let mut weights = Vec::new();
        for _ in 0..8 {
            hints.add_more(&name, left);
            // Another hint for the shard does not lower the weight.
            hints.add(&name, left.shard);
            left = hints.take(&name, 1)[0];
            weights.push(left.weight);
        }
        assert_eq!(weights, [2, 4, 8, 16, 32, 64, 64, 64]);
        hints.add(&name, left.shard);
        assert_eq!(hints.take(&name, 1), [Hint::of(left.shard)], "nothing was left");
    }

    #[test]
    fn retries_are_remembered_for_a_while() {
        let name = NamespaceName::new("a").unwrap();
        let mut hints = Hints::default();
        assert!(!hints.has_retries(&name, Duration::ZERO));
        hints.record_retries(&name, Duration::from_secs(5));
        assert!(hints.has_retries(&name, Duration::from_secs(6)));
        assert!(!hints.has_retries(&name, Duration::from_secs(7)));
    }

    #[test]
    fn expected_firings_are_taken_once_when_due() {
        let name = |text: &str| NamespaceName::new(text).unwrap();
        let at = Duration::from_secs;
        let mut expected = ExpectedFirings::default();
        expected.add(ShardId(1), &name("a"), at(5), true);
        expected.add(ShardId(1), &name("b"), at(7), true);
        expected.add(ShardId(1), &name("a"), at(6), true);
        expected.add(ShardId(1), &name("a"), at(8), false);
        expected.add(ShardId(2), &name("a"), at(1), true);
        assert_eq!(expected.take_due(ShardId(1), at(5)), (vec![], Some(at(6))));
        assert_eq!(expected.take_due(ShardId(1), at(6)), (vec![name("a")], Some(at(7))));
        assert_eq!(expected.take_due(ShardId(1), at(9)), (vec![name("b")], None));
        assert_eq!(expected.take_due(ShardId(1), at(9)), (vec![], None));
        for i in 0..2 * OF_A_SHARD_MAX {
            expected.add(ShardId(1), &name(&format!("n{i}")), at(1), true);
        }
        assert_eq!(expected.take_due(ShardId(1), at(1)).0.len(), OF_A_SHARD_MAX);
    }
}
