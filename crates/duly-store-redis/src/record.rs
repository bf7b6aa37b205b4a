//! The records of this store: the packed timer (`duly_record::packed`) in the hash `r:<num>`, the lease beside it,
//! and tombstones.
//!
//! The id of a timer is the name of the field; otherwise it is only in one sorted set. A payload that is stored apart
//! is in `p:<num>`.

use duly_record::packed::Unreadable;
use duly_store::Error;

mod lease;
#[cfg(test)]
mod tests;
mod tombstone;

pub(crate) use duly_record::packed::{Packed, Record, TIMES, core_of, unpack_core};
pub(crate) use lease::{member_id_text, read_lease, unpack_lease};
pub(crate) use tombstone::{cancelled, decode as decode_tombstone};

/// Returns the key of the firing of a record among the records of its namespace.
pub(crate) fn firing_key_of(record: &Record) -> Vec<u8> {
    let timer = &record.timer;
    crate::keys::firing_key(&timer.id, timer.incarnation, timer.occurrence)
}

/// Returns the error of a record that is not of the format.
pub(crate) fn unreadable(error: Unreadable) -> Error {
    Error::Damaged(format!("a record in Redis: {error}"))
}
