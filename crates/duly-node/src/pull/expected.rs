//! The expected firings: times at which namespaces that claimed in a shard will have a firing there.
//! Pure.
//!
//! A claim reports the time of the next firing of its lane. At that time the node claims again, without
//! a poll of the shard. So at a steady rate there is one store call per firing, not two.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use rustc_hash::FxHashMap;

/// Most namespaces that are remembered per shard. Polls find the firings of the others.
const OF_A_SHARD_MAX: usize = 32;

/// The expected firings by shard, with their wall times.
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
