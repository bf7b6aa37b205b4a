//! A tombstone: a field of `s:<num>`, which is dropped when its retention is over.
//!
//! ```text
//! 0 'F' finished or 'C' cancelled | 1 ended_at u48 | 7 bytes of the lease u8 | lease | core
//! ```
//!
//! Scripts write it from the bytes of record and lease. The attempt that ended a finished timer is not
//! stored: it is computed here, from the lease under which it was acknowledged.

use duly_core::{
    Timer, TimerId, Tombstone,
    timer::{Attempt, AttemptOutcome, SettledToken, Verdict},
    tombstone::Ended,
};
use duly_record::{
    ReadFields as _, WriteFields as _,
    packed::{Reader, Result, Unreadable, Writer},
};

use super::{Record, unpack_core, unpack_lease};

/// Packs the tombstone of a cancelled timer, whose record was read.
pub(crate) fn cancelled(tombstone: &Tombstone) -> Vec<u8> {
    let mut w = Writer::default();
    w.u8(b'C');
    w.time(tombstone.ended_at);
    w.u8(0);
    w.raw(&core_bytes(tombstone));
    w.0
}

/// Returns the core of the record of an ended timer.
fn core_bytes(tombstone: &Tombstone) -> Vec<u8> {
    let details = tombstone.details.as_deref().expect("the record was read");
    let bare = Timer::bare(
        tombstone.id.clone(),
        tombstone.due_at,
        details.created_at,
        details.incarnation,
        details.request_hash,
    );
    let timer = Timer {
        updated_at: details.updated_at,
        revision: details.revision,
        occurrence: details.occurrence,
        attempts: tombstone.attempts,
        budget_from: details.uncounted,
        fired_at: details.fired_at,
        maybe_delivered: tombstone.maybe_delivered,
        history: details.history.clone(),
        last_settled: details.settled,
        ..bare
    };
    Record::of(timer).packed_core()
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
        let lease = unpack_lease(lease)?;
        let attempt = timer.attempts + 1;
        timer.attempt_concluded(Attempt::new(attempt, lease.since, AttemptOutcome::Delivered, ""));
        timer.last_settled = Some(SettledToken { nonce: lease.nonce, verdict: Verdict::Ack });
    }
    Ok(Tombstone::of(&timer, ended, ended_at))
}
