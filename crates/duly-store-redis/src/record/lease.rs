//! A lease: a field of the hash `x:<num>`, present while the timer is leased.
//!
//! ```text
//! 0 nonce u64 | 8 since u48 | 14 until u48 | 20 claimable_at u48 | 26 holder: C, or a member id in hex
//! ```
//!
//! Times are Unix milliseconds. The end of a node's lease is 0: it lasts as long as the node. The number
//! of the attempt is not stored: it is the one after those that the record counts.

use duly_decide::{Holder, Lease};
use duly_record::{
    ReadFields as _,
    packed::{Reader, Result, Unreadable},
};
use duly_store::MemberId;

/// Reads the field of a lease; an empty one means that there is no lease.
pub(crate) fn read_lease(bytes: &[u8]) -> Result<Option<Lease>> {
    (!bytes.is_empty()).then(|| unpack_lease(bytes)).transpose()
}

/// Unpacks the field of a lease.
pub(crate) fn unpack_lease(bytes: &[u8]) -> Result<Lease> {
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
    Ok(Lease { nonce, since, claimable_at, holder })
}

/// Returns a member id as the scripts know it.
pub(crate) fn member_id_text(member_id: MemberId) -> String {
    format!("{:016x}", member_id.0)
}
