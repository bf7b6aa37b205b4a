//! The pools of push slots, each with a scheduler of its own.
//!
//! Each pool has its own workers and bytes, so that a receiver of one pool cannot use up those of another.
//! Every module outside reaches [`Lanes`] through here.

use parking_lot::{Mutex, MutexGuard};

use super::Lanes;

/// The pools of a node: so far one, for webhooks.
pub(crate) struct Pools {
    webhooks: Mutex<Lanes>,
}

impl Pools {
    /// Creates the pools with the lanes of webhooks.
    pub(crate) fn new(webhooks: Lanes) -> Self {
        Self { webhooks: Mutex::new(webhooks) }
    }

    /// Locks the lanes of webhooks.
    pub(crate) fn webhooks(&self) -> MutexGuard<'_, Lanes> {
        self.webhooks.lock()
    }
}
