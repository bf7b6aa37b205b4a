//! Body of a timer record: fixed numbers, the id, then tagged fields for its optional parts.
//!
//! ```text
//!  0 due_at u64 | 8 created_at u64 | 16 incarnation u64 | 24 request_hash u128
//! 40 revision u32 | 44 occurrence u32 | 48 attempts u32 | 52 budget_from u32 | 56 flags u8
//! 57 id (u32 length, bytes) | tagged fields | 0
//! ```

use bytes::Bytes;
use duly_core::{Incarnation, Payload, Timer, TimerId, request_hash::RequestHash, timer::Attempt};
use duly_record::{
    Layout, ReadFields as _, WriteFields as _, code_in,
    values::{
        FORMS, decode_attempt, decode_dead_letter, decode_settled, encode_attempt,
        encode_dead_letter, encode_settled,
    },
};

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
};

pub(crate) const PAYLOAD: u8 = 1;
pub(crate) const DESTINATION: u8 = Layout::EMBEDDED.spec.destination;
pub(crate) const EXPIRE_AFTER: u8 = Layout::EMBEDDED.spec.expire_after;
const UPDATED_AT: u8 = 9;
pub(crate) const NEXT_ATTEMPT_AT: u8 = 10;
const FIRED_AT: u8 = 11;
const HISTORY: u8 = 12;
pub(crate) const LAST_SETTLED: u8 = 13;
pub(crate) const DEATH: u8 = 14;

const MAYBE_DELIVERED: u8 = 1;

pub(super) fn encode(w: &mut FieldWriter<'_>, timer: &Timer) {
    w.time(timer.due_at);
    w.time(timer.created_at);
    w.u64(timer.incarnation.0);
    w.u128(timer.request_hash.0);
    w.u32(timer.revision);
    w.u32(timer.occurrence);
    w.u32(timer.attempts);
    w.u32(timer.budget_from);
    w.u8(if timer.maybe_delivered { MAYBE_DELIVERED } else { 0 });
    w.text(timer.id.as_str());
    let spec = &timer.spec;
    w.optional(PAYLOAD, spec.payload.as_ref(), |w, payload| {
        w.u8(code_in(&FORMS, &payload.form));
        w.raw(&payload.bytes);
    });
    Layout::EMBEDDED.encode_spec(w, spec);
    if timer.updated_at != timer.created_at {
        w.field(UPDATED_AT, |w| w.time(timer.updated_at));
    }
    w.optional(NEXT_ATTEMPT_AT, timer.next_attempt_at, |w, at| w.time(at));
    w.optional(FIRED_AT, timer.fired_at, |w, at| w.time(at));
    if !timer.history.is_empty() {
        w.field(HISTORY, |w| encode_history(w, &timer.history));
    }
    w.optional(LAST_SETTLED, timer.last_settled, encode_settled);
    w.optional(DEATH, timer.dead_letter, encode_dead_letter);
    w.end();
}

pub(super) fn decode(r: &mut FieldReader<'_>) -> Result<Timer, DecodeError> {
    let (due_at, created_at) = (r.time()?, r.time()?);
    let (incarnation, request_hash) = (Incarnation(r.u64()?), RequestHash(r.u128()?));
    let (revision, occurrence) = (r.u32()?, r.u32()?);
    let (attempts, budget_from) = (r.u32()?, r.u32()?);
    let flags = r.u8()?;
    let id = TimerId::new(r.text()?)?;
    let mut timer = Timer {
        revision,
        occurrence,
        attempts,
        budget_from,
        maybe_delivered: flags & MAYBE_DELIVERED != 0,
        ..Timer::bare(id, due_at, created_at, incarnation, request_hash)
    };
    let spec = &mut timer.spec;
    while let Some((tag, mut field)) = r.field()? {
        match tag {
            PAYLOAD => {
                let form = field.code(&FORMS, "payload form")?;
                let bytes = Bytes::copy_from_slice(field.rest());
                spec.payload = Some(Payload { form, bytes });
            }
            UPDATED_AT => timer.updated_at = field.time()?,
            NEXT_ATTEMPT_AT => timer.next_attempt_at = Some(field.time()?),
            FIRED_AT => timer.fired_at = Some(field.time()?),
            HISTORY => timer.history = decode_history(&mut field)?,
            LAST_SETTLED => timer.last_settled = Some(decode_settled(&mut field)?),
            DEATH => timer.dead_letter = Some(decode_dead_letter(&mut field)?),
            other if Layout::EMBEDDED.decode_spec(other, &mut field, spec)? => {}
            other => return Err(unknown_tag(other)),
        }
    }
    Ok(timer)
}

pub(crate) fn unknown_tag(tag: u8) -> DecodeError {
    DecodeError::unknown("field", tag)
}

pub(super) fn encode_history(w: &mut FieldWriter<'_>, history: &[Attempt]) {
    history.iter().for_each(|attempt| encode_attempt(w, attempt));
}

pub(super) fn decode_history(r: &mut FieldReader<'_>) -> Result<Vec<Attempt>, DecodeError> {
    let mut history = Vec::new();
    while !r.is_done() {
        history.push(decode_attempt(r)?);
    }
    Ok(history)
}

#[cfg(test)]
mod tests;
