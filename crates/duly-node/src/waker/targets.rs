//! The wake-up times of the shards. Pure.

use std::time::Duration;

use duly_core::shard::ShardId;

/// One wall time per shard, or none.
#[derive(Debug)]
pub(super) struct Targets(Vec<Option<Duration>>);

impl Targets {
    pub(super) fn new(shards: usize) -> Self {
        Self(vec![None; shards])
    }

    pub(super) fn lower(&mut self, shard: ShardId, wall: Duration) {
        if let Some(target) = self.0.get_mut(usize::from(shard.0)) {
            *target = Some(target.map_or(wall, |known| known.min(wall)));
        }
    }

    pub(super) fn earliest(&self) -> Option<Duration> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes the shards whose time has come.
    pub(super) fn take_due(&mut self, wall: Duration) -> Vec<usize> {
        let mut due = Vec::new();
        for (shard, target) in self.0.iter_mut().enumerate() {
            if target.is_some_and(|at| at <= wall) {
                *target = None;
                due.push(shard);
            }
        }
        due
    }

    /// Takes all shards that have a time, because the clock was set.
    pub(super) fn take_all(&mut self) -> Vec<usize> {
        self.take_due(Duration::MAX)
    }
}
