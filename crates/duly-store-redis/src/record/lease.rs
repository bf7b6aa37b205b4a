//! A lease: a field of the hash `x:<num>`, there while somebody holds the timer.
//!
//! ```text
//! 0 nonce u64 | 8 since u48 | 14 until u48 | 20 claimable_at u48 | 26 who: C, or a run in hex
//! ```
//!
//! Times are Unix milliseconds. The end of a node's lease is 0: it lives as long as the node. The attempt is not in it: it is
//! the one after those that the record counts.

use duly_core::Timestamp;
use duly_store::MemberId;

use super::fields::{Reader, Result, Unreadable};

/// Who holds a firing, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) since: Timestamp,
    pub(crate) claimable_at: Timestamp,
    pub(crate) holder: Holder,
}

/// Who holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A consumer, until then.
    Consumer(Timestamp),
    /// A run of a node.
    Node(MemberId),
}

impl Lease {
    /// Reads a field that may be absent, and then is empty.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>> {
        (!bytes.is_empty()).then(|| Self::unpack(bytes)).transpose()
    }

    pub(crate) fn unpack(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader(bytes);
        let nonce = r.u64()?;
        let (since, until, claimable_at) = (r.time()?, r.time()?, r.time()?);
        let holder = match r.rest_text()?.as_str() {
            "C" => Holder::Consumer(until),
            run => Holder::Node(MemberId(
                u64::from_str_radix(run, 16)
                    .map_err(|_| Unreadable::Impossible("a lease of another form".to_owned()))?,
            )),
        };
        Ok(Self { nonce, since, claimable_at, holder })
    }

    /// When it ends, if it does by itself.
    pub(crate) const fn until(&self) -> Option<Timestamp> {
        match self.holder {
            Holder::Consumer(until) => Some(until),
            Holder::Node(_) => None,
        }
    }

    /// Whether it has ended by the clock.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.until().is_some_and(|until| until <= now)
    }
}

/// A run as the scripts know it.
pub(crate) fn run_name(run: MemberId) -> String {
    format!("{:016x}", run.0)
}
