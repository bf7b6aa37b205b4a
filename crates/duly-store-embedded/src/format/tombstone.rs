//! Body of an ended timer's record.
//!
//! ```text
//!  0 expires_at u64 (0: no tombstone is kept) | 8 number u32 | 12 ended_at u64 | 20 due_at u64
//! 28 attempts u32 | 32 ended u8 (1 finished, 2 cancelled) | 33 flags u8 | 34 id (u32 length, bytes)
//!    tagged fields | 0
//! ```

use duly_core::{
    Incarnation, TimerId, Tombstone,
    request_hash::RequestHash,
    tombstone::{Details, Ended},
};
use duly_record::{
    ReadFields as _, WriteFields as _, code_in,
    values::{decode_settled, encode_settled},
};

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    timer,
};

pub(crate) const DETAILS: u8 = 1;
pub(crate) const FIRED_AT: u8 = 2;
const HISTORY: u8 = 3;
const SETTLED: u8 = 4;
pub(crate) const UNCOUNTED: u8 = 5;

const MAYBE_DELIVERED: u8 = 1;

/// Ways to end, by their code.
pub(crate) const ENDED: [Ended; 2] = [Ended::Finished, Ended::Cancelled];

pub(super) fn encode(w: &mut FieldWriter<'_>, tombstone: &Tombstone) {
    w.time(tombstone.ended_at);
    w.time(tombstone.due_at);
    w.u32(tombstone.attempts);
    w.u8(code_in(&ENDED, &tombstone.ended));
    w.u8(if tombstone.maybe_delivered { MAYBE_DELIVERED } else { 0 });
    w.text(tombstone.id.as_str());
    if let Some(details) = &tombstone.details {
        w.field(DETAILS, |w| {
            w.time(details.created_at);
            w.time(details.updated_at);
            w.u32(details.revision);
            w.u64(details.incarnation.0);
            w.u32(details.occurrence);
            w.u128(details.request_hash.0);
        });
        w.optional(FIRED_AT, details.fired_at, |w, at| w.time(at));
        if !details.history.is_empty() {
            w.field(HISTORY, |w| timer::encode_history(w, &details.history));
        }
        w.optional(SETTLED, details.settled, encode_settled);
        if details.uncounted > 0 {
            w.field(UNCOUNTED, |w| w.u32(details.uncounted));
        }
    }
    w.end();
}

pub(super) fn decode(r: &mut FieldReader<'_>) -> Result<Tombstone, DecodeError> {
    let (ended_at, due_at, attempts) = (r.time()?, r.time()?, r.u32()?);
    let ended = r.code(&ENDED, "end")?;
    let maybe_delivered = r.u8()? & MAYBE_DELIVERED != 0;
    let id = TimerId::new(r.text()?)?;
    let mut details: Option<Box<Details>> = None;
    while let Some((tag, mut field)) = r.field()? {
        let known = || DecodeError::Impossible("a tombstone's field before its details".into());
        match tag {
            DETAILS => {
                details = Some(Box::new(Details {
                    created_at: field.time()?,
                    updated_at: field.time()?,
                    revision: field.u32()?,
                    incarnation: Incarnation(field.u64()?),
                    occurrence: field.u32()?,
                    request_hash: RequestHash(field.u128()?),
                    fired_at: None,
                    uncounted: 0,
                    history: Vec::new(),
                    settled: None,
                }));
            }
            FIRED_AT => details.as_mut().ok_or_else(known)?.fired_at = Some(field.time()?),
            HISTORY => {
                details.as_mut().ok_or_else(known)?.history = timer::decode_history(&mut field)?;
            }
            SETTLED => {
                details.as_mut().ok_or_else(known)?.settled = Some(decode_settled(&mut field)?);
            }
            UNCOUNTED => details.as_mut().ok_or_else(known)?.uncounted = field.u32()?,
            other => return Err(timer::unknown_tag(other)),
        }
    }
    Ok(Tombstone { id, ended, ended_at, due_at, attempts, maybe_delivered, details })
}
