//! A poll of the states of the keys in all shards.

use std::{collections::BTreeMap, sync::Arc};

use duly_core::shard::ShardId;
use duly_store::Result;

use super::{AccessState, COORDINATOR, KnownAccess, Snapshot, away};
use crate::error::unavailable;

/// The states of the shards that reply and take calls.
#[derive(Debug)]
pub(crate) struct AccessPoll {
    /// The newest keys that a majority was known to have before the poll.
    pub(super) settled: Arc<Snapshot>,
    pub(crate) states: Vec<(ShardId, AccessState)>,
}

/// The shards that have the newest version of the keys, by state.
pub(super) type Holders = BTreeMap<AccessState, Vec<ShardId>>;

impl KnownAccess {
    /// Begins a poll.
    pub(crate) fn begin_poll(&self) -> AccessPoll {
        AccessPoll { settled: self.settled(), states: Vec::new() }
    }
}

impl AccessPoll {
    pub(super) fn shards(&self) -> Vec<ShardId> {
        self.states.iter().map(|(shard, _)| *shard).collect()
    }

    /// Returns the state of shard 0.
    pub(super) fn own(&self) -> Result<AccessState> {
        let own = self.states.iter().find(|(shard, _)| *shard == COORDINATOR);
        own.map(|(_, state)| *state).ok_or_else(|| away(unavailable("it does not reply")))
    }

    pub(super) fn holders(&self) -> Holders {
        let newest = self.states.iter().map(|(_, state)| state.version).max();
        let mut holders = Holders::new();
        for (shard, state) in self.states.iter().filter(|(_, it)| Some(it.version) == newest) {
            holders.entry(*state).or_default().push(*shard);
        }
        holders
    }
}

/// Returns the state that most of these shards have, and one of those shards.
pub(super) fn most(holders: &Holders) -> Result<(AccessState, ShardId)> {
    let most = holders.iter().max_by_key(|(_, shards)| shards.len());
    let (state, shards) = most.ok_or_else(|| unavailable("no shard replies"))?;
    Ok((*state, shards[0]))
}
