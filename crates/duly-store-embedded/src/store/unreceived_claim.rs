//! A claim on its way to its caller.

use std::sync::Arc;

use duly_store::Claimed;

use crate::shell::Inbox;

/// A claim that its caller has not received yet. If it is dropped, its firings are handed back. No
/// consumer has received them, so the attempt does not count.
pub(super) struct UnreceivedClaim {
    pub(super) claimed: Claimed,
    pub(super) inbox: Arc<Inbox>,
}

impl UnreceivedClaim {
    /// Hands the claim to its caller.
    pub(super) fn deliver(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for UnreceivedClaim {
    fn drop(&mut self) {
        let firings = std::mem::take(&mut self.claimed.firings);
        if firings.is_empty() {
            return;
        }
        self.inbox.push_always(move |engine| {
            for firing in &firings {
                engine.release_unreceived(&firing.token);
            }
        });
    }
}
