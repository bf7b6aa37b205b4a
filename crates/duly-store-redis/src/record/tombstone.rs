//! A tombstone: a field of `s:<num>`, which is dropped when its retention is over.
//!
//! ```text
//! 0 'F' finished or 'C' cancelled | 1 ended_at u48 | 7 bytes of the lease u8 | lease | core
//! ```
//!
//! Scripts write it from the bytes of record and lease. The attempt that ended a finished timer is not
//! stored: it is computed here, from the lease under which it was acknowledged.

use duly_core::{
    TimerId, Timestamp, Tombstone,
    timer::{Attempt, AttemptOutcome, SettledToken, Verdict},
    tombstone::Ended,
};

use super::{
    Lease,
    fields::{Reader, Result, Unreadable, Writer},
    unpack_core,
};

/// Returns the tombstone of a cancelled timer, from the core of its record.
pub(crate) fn cancelled(core: &[u8], at: Timestamp) -> Vec<u8> {
    let mut w = Writer::default();
    w.u8(b'C');
    w.time(at);
    w.u8(0);
    w.raw(core);
    w.0
}

pub(crate) fn decode(id: TimerId, bytes: &[u8]) -> Result<Tombstone> {
    let mut r = Reader(bytes);
    let ended = match r.u8()? {
        b'F' => Ended::Finished,
        b'C' => Ended::Cancelled,
        other => return Err(Unreadable::Unknown { what: "tombstone", value: u64::from(other) }),
    };
    let ended_at = r.time()?;
    let lease_bytes = usize::from(r.u8()?);
    let lease = r.take(lease_bytes)?;
    let mut timer = unpack_core(id, r.rest())?;
    if !lease.is_empty() {
        let lease = Lease::unpack(lease)?;
        let attempt = timer.attempts + 1;
        timer.attempt_concluded(Attempt::new(attempt, lease.since, AttemptOutcome::Delivered, ""));
        timer.last_settled = Some(SettledToken { nonce: lease.nonce, verdict: Verdict::Ack });
    }
    Ok(Tombstone::of(&timer, ended, ended_at))
}
