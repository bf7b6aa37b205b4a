//! Detects that the keys of the whole database were rolled back, as after a restore of all masters.
//!
//! 1. Every node remembers the newest keys that a majority of the shards had: its own changes at once, those
//!    of other nodes within about a second.
//! 2. Keys that do not [follow](Snapshot::follows) from these are older ones, or changes of other nodes on
//!    top of older ones. The node does not use them: it admits callers by the keys that it remembers.
//! 3. Until an operator decides, the node refuses changes of keys and tenants, and writes none to shards.
//! 4. Either decision is a new state on top of those in the shards, which names the state that it replaces.
//!    So nodes that know that state or an older one take it. A node that knows a newer one does not, and asks
//!    for a decision too: the newest keys that a running node knows can always be written back.
//! 5. A node that starts after the rollback knows nothing newer, and uses the older keys.

use std::sync::Arc;

use duly_core::Millis;
use duly_store::{AccessRemedy, Error, Result};

use super::{AccessPoll, AccessState, Holders, KnownAccess, Snapshot, most};
use crate::{
    deployment::Deployment,
    error::{before_change, unavailable},
};

/// Wait before a repetition of a change: an operator must decide first.
const RETRY_AFTER: Millis = Millis::from_secs(60);

/// Keys of the shards that do not follow from those that this node knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RolledBack {
    found: AccessState,
    known: AccessState,
}

impl RolledBack {
    fn describe(self) -> String {
        let (found, known) = (self.found.version, self.known.version);
        format!(
            "the keys and tenants in Redis (version {found}) lack changes that this node knows (version \
             {known}), as after all masters were restored from older data: this node admits callers by what \
             it knows, and keys and tenants cannot be changed until an administrator decides at this node: \
             `duly store repair --keys write-back` writes back what it knows, `duly store repair --keys \
             accept` accepts what is in Redis, and keys that were revoked or deleted since then work again"
        )
    }
}

impl KnownAccess {
    pub(super) fn settled(&self) -> Arc<Snapshot> {
        Arc::clone(&self.settled.lock())
    }

    /// Remembers keys that a majority of the shards has.
    pub(super) fn settle(&self, snapshot: &Arc<Snapshot>) {
        let mut settled = self.settled.lock();
        if snapshot.state.version > settled.state.version {
            *settled = Arc::clone(snapshot);
        }
    }

    /// Returns the newest keys that this node knows and that follow from the settled ones.
    fn newest(&self) -> Arc<Snapshot> {
        let (settled, read) = (self.settled(), self.read());
        let is_newer = read.state.version > settled.state.version && read.follows(settled.state);
        if is_newer { read } else { settled }
    }

    /// Returns `true` if a poll of all shards may find something new.
    pub(crate) fn is_doubtful(&self) -> bool {
        let polled = *self.polled.lock();
        let settled = self.settled.lock().state;
        polled.is_some_and(|polled| polled != settled) || self.rolled_back.lock().is_some()
    }

    /// Returns the sentence for operators if the keys were rolled back.
    pub(crate) fn rolled_back(&self) -> Option<String> {
        self.rolled_back.lock().map(RolledBack::describe)
    }
}

impl Deployment {
    /// Checks that the keys of the shards follow from those that a majority had, and remembers them if a
    /// majority has them.
    pub(super) async fn expect_settled(&self, poll: &AccessPoll, holders: &Holders) -> Result<()> {
        let (state, holder) = most(holders)?;
        let known = poll.settled.state;
        let fault = RolledBack { found: state, known: self.access.newest().state };
        let follows = if state == known {
            true
        } else if state.version < known.version || *self.access.rolled_back.lock() == Some(fault) {
            false
        } else {
            let (_, loaded) = self.load(holder, &self.access.read()).await?;
            if loaded.state != state {
                return Err(unavailable("keys changed meanwhile"));
            }
            let follows = loaded.follows(known);
            if follows && self.is_majority(&holders[&state]) {
                self.access.settle(&loaded);
            }
            follows
        };
        if follows {
            if self.access.rolled_back.lock().take().is_some() {
                tracing::info!(
                    "keys and tenants in the store are those that this node knows again"
                );
            }
            return Ok(());
        }
        if !self.is_majority(&poll.shards()) {
            return Err(unavailable("too few shards reply to know which keys most of them have"));
        }
        if self.access.rolled_back.lock().replace(fault) != Some(fault) {
            tracing::error!(
                found = state.version,
                known = fault.known.version,
                "keys and tenants in the store are older than those that this node knows; they cannot be \
                 changed until `duly store repair --keys`"
            );
        }
        Err(Error::Unavailable { reason: fault.describe(), retry_after: RETRY_AFTER })
    }

    /// Makes the keys that this node knows, or those in the shards, the keys of all nodes. Returns `false` if
    /// the shards have all that this node knows.
    pub(crate) async fn repair_access(&self, remedy: AccessRemedy) -> Result<bool> {
        let poll = before_change(self.access_states_of_majority().await)?;
        let known = self.access.newest();
        let holders = poll.holders();
        let (state, holder) = most(&holders)?;
        let found = before_change(self.load(holder, &Arc::default()).await)?.1;
        if found.follows(poll.settled.state) {
            *self.access.rolled_back.lock() = None;
            return Ok(false);
        }
        self.expect_most(&poll, &holders)?;
        let records = match remedy {
            AccessRemedy::WriteBack => known.records.clone(),
            AccessRemedy::Accept => found.records.clone(),
        };
        let newest = self.access.newest.lock().version;
        let next = AccessState::new(newest.max(known.state.version).max(state.version) + 1);
        let next = Arc::new(found.next(next, records, Some(known.state)));
        before_change(self.rewrite_access(&poll, &next).await)?;
        tracing::warn!(
            remedy = remedy.as_str(),
            version = next.state.version,
            "keys and tenants repaired on an operator's call; they can be changed again"
        );
        self.access.keep(Arc::clone(&next));
        // No shard has this state yet, so each takes all keys.
        self.spread_access(next.state, &next, &[]).await?;
        self.access.settle(&next);
        *self.access.rolled_back.lock() = None;
        Ok(true)
    }
}
