//! The lease of a firing.

use duly_core::Timestamp;
use duly_store::MemberId;

/// The lease of a firing: its holder and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The random part of its token.
    pub nonce: u64,
    /// The time of the claim.
    pub since: Timestamp,
    /// The earliest time of the attempt.
    pub claimable_at: Timestamp,
    /// The holder.
    pub holder: Holder,
}

/// Holder of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A consumer, until this time.
    Consumer(Timestamp),
    /// A node, by its member id.
    Node(MemberId),
}

impl Lease {
    /// Returns the end of the lease, if it has one of its own.
    pub const fn until(&self) -> Option<Timestamp> {
        match self.holder {
            Holder::Consumer(until) => Some(until),
            Holder::Node(_) => None,
        }
    }

    /// Returns `true` if the lease has ended by the clock.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}
