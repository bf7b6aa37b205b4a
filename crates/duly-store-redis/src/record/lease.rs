//! A lease: a field of the hash `x:<num>`, present while the timer is leased.
//!
//! ```text
//! 0 nonce u64 | 8 since u48 | 14 until u48 | 20 claimable_at u48 | 26 holder: C, or a member id in hex
//! ```
//!
//! Times are Unix milliseconds. The end of a node's lease is 0: it lasts as long as the node. The number
//! of the attempt is not stored: it is the one after those that the record counts.

use duly_core::Timestamp;
use duly_record::{
    ReadFields as _,
    packed::{Reader, Result, Unreadable},
};
use duly_store::MemberId;

/// The lease of a firing: its holder and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) since: Timestamp,
    pub(crate) claimable_at: Timestamp,
    pub(crate) holder: Holder,
}

/// Holder of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A consumer, until this time.
    Consumer(Timestamp),
    /// A node, by its member id.
    Node(MemberId),
}

impl Lease {
    /// Reads a field; an empty one means that there is no lease.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>> {
        (!bytes.is_empty()).then(|| Self::unpack(bytes)).transpose()
    }

    pub(crate) fn unpack(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader(bytes);
        let nonce = r.word()?;
        let (since, until, claimable_at) = (r.time()?, r.time()?, r.time()?);
        let holder = match r.rest_text()?.as_str() {
            "C" => Holder::Consumer(until),
            member_id => Holder::Node(MemberId(
                u64::from_str_radix(member_id, 16)
                    .map_err(|_| Unreadable::Impossible("a lease of another form".to_owned()))?,
            )),
        };
        Ok(Self { nonce, since, claimable_at, holder })
    }

    /// Returns the end of the lease, if it has one of its own.
    pub(crate) const fn until(&self) -> Option<Timestamp> {
        match self.holder {
            Holder::Consumer(until) => Some(until),
            Holder::Node(_) => None,
        }
    }

    /// Returns `true` if the lease has ended by the clock.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}

/// Returns a member id as the scripts know it.
pub(crate) fn member_id_text(member_id: MemberId) -> String {
    format!("{:016x}", member_id.0)
}
