//! When namespaces that have claimed in a shard will have something there again. Pure.
//!
//! A claim says when the next firing of its lane comes. Whoever claimed looks for it then by claiming
//! again, without asking the store what there is in the shard: at a steady rate that is one call for
//! each firing, not two.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use rustc_hash::FxHashMap;

/// Namespaces that are remembered of a shard. Those past them are found by looking.
const OF_A_SHARD_MAX: usize = 32;

/// What is expected, by wall time.
#[derive(Debug, Default)]
pub(super) struct Expected(FxHashMap<ShardId, Vec<(NamespaceName, Duration)>>);

impl Expected {
    /// A namespace will have something in a shard at this time; `all` when that is the first thing of
    /// all, and not only of what was looked at.
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

    /// Takes out those that have something by now, and says when the next will.
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
    fn what_is_expected_comes_out_when_it_is_due_and_once() {
        let name = |text: &str| NamespaceName::new(text).unwrap();
        let at = Duration::from_secs;
        let mut expected = Expected::default();
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
