//! Body of a timer record: fixed numbers, the id, then tagged fields for its optional parts.
//!
//! ```text
//!  0 due_at u64 | 8 created_at u64 | 16 incarnation u64 | 24 request_hash u128
//! 40 revision u32 | 44 occurrence u32 | 48 attempts u32 | 52 budget_from u32 | 56 flags u8
//! 57 id (u32 length, bytes) | tagged fields | 0
//! ```

use bytes::Bytes;
use duly_core::{
    Destination, Incarnation, Millis, Payload, RetryPolicy, Timer, TimerId,
    destination::{HttpDestination, Method},
    headers::Headers,
    payload::Form,
    request_hash::RequestHash,
    retry::Exponential,
    schedule::{SlotKey, Tags},
    timer::{Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, SettledToken, Verdict},
};

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
};

pub(crate) const PAYLOAD: u8 = 1;
const HEADERS: u8 = 2;
const TAGS: u8 = 3;
const SLOT_KEY: u8 = 4;
pub(crate) const DESTINATION: u8 = 5;
const RETRY: u8 = 6;
pub(crate) const EXPIRE_AFTER: u8 = 7;
const TRACE_PARENT: u8 = 8;
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
    if !spec.headers.is_empty() {
        w.field(HEADERS, |w| encode_headers(w, &spec.headers));
    }
    if !spec.tags.is_empty() {
        w.field(TAGS, |w| spec.tags.as_slice().iter().for_each(|tag| w.text(tag)));
    }
    w.optional(SLOT_KEY, spec.slot_key.as_ref(), |w, key| w.raw(key.as_str().as_bytes()));
    w.optional(DESTINATION, spec.destination.as_ref(), encode_destination);
    w.optional(RETRY, spec.retry.as_ref(), encode_retry);
    w.optional(EXPIRE_AFTER, spec.expire_after, |w, after| w.u64(after.ms()));
    w.optional(TRACE_PARENT, spec.trace_parent.as_ref(), |w, trace| w.raw(trace.as_bytes()));
    if timer.updated_at != timer.created_at {
        w.field(UPDATED_AT, |w| w.time(timer.updated_at));
    }
    w.optional(NEXT_ATTEMPT_AT, timer.next_attempt_at, |w, at| w.time(at));
    w.optional(FIRED_AT, timer.fired_at, |w, at| w.time(at));
    if !timer.history.is_empty() {
        w.field(HISTORY, |w| encode_history(w, &timer.history));
    }
    w.optional(LAST_SETTLED, timer.last_settled, encode_settled);
    w.optional(DEATH, timer.dead_letter, |w, dead_letter| {
        w.time(dead_letter.at);
        w.u8(code_in(&DeadLetterReason::ALL, &dead_letter.reason));
    });
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
                let form = from_code(&FORMS, field.u8()?, "payload form")?;
                let bytes = Bytes::copy_from_slice(field.rest());
                spec.payload = Some(Payload { form, bytes });
            }
            HEADERS => spec.headers = decode_headers(&mut field)?,
            TAGS => spec.tags = decode_tags(&mut field)?,
            SLOT_KEY => spec.slot_key = Some(SlotKey::from_stored(utf8(field.rest())?)),
            DESTINATION => spec.destination = Some(decode_destination(&mut field)?),
            RETRY => spec.retry = Some(decode_retry(&mut field)?),
            EXPIRE_AFTER => spec.expire_after = Some(field.millis()?),
            TRACE_PARENT => spec.trace_parent = Some(utf8(field.rest())?),
            UPDATED_AT => timer.updated_at = field.time()?,
            NEXT_ATTEMPT_AT => timer.next_attempt_at = Some(field.time()?),
            FIRED_AT => timer.fired_at = Some(field.time()?),
            HISTORY => timer.history = decode_history(&mut field)?,
            LAST_SETTLED => timer.last_settled = Some(decode_settled(&mut field)?),
            DEATH => {
                let at = field.time()?;
                let reason = from_code(&DeadLetterReason::ALL, field.u8()?, "death reason")?;
                timer.dead_letter = Some(DeadLetter { at, reason });
            }
            other => return Err(unknown_tag(other)),
        }
    }
    Ok(timer)
}

pub(crate) fn unknown_tag(tag: u8) -> DecodeError {
    DecodeError::unknown("field", tag)
}

pub(super) fn utf8(bytes: &[u8]) -> Result<String, DecodeError> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| DecodeError::Impossible("text that is not UTF-8".into()))
}

/// Returns the code of an enumeration's value: its place in the type's own list, from 1.
pub(super) fn code_in<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let place = all.iter().position(|known| known == value).unwrap_or(0);
    u8::try_from(place + 1).expect("enumerations of this format have fewer than 255 members")
}

pub(crate) fn from_code<T: Copy>(
    all: &[T],
    code: u8,
    what: &'static str,
) -> Result<T, DecodeError> {
    usize::from(code)
        .checked_sub(1)
        .and_then(|place| all.get(place).copied())
        .ok_or(DecodeError::unknown(what, code))
}

const FORMS: [Form; 3] = [Form::Json, Form::Text, Form::Binary];
pub(crate) const METHODS: [Method; 3] = [Method::Post, Method::Put, Method::Patch];
const VERDICTS: [Verdict; 4] = [Verdict::Ack, Verdict::Retry, Verdict::Dead, Verdict::Release];

pub(super) fn encode_headers(w: &mut FieldWriter<'_>, headers: &Headers) {
    for (name, value) in headers.iter() {
        w.text(name);
        w.text(value);
    }
}

pub(super) fn decode_headers(r: &mut FieldReader<'_>) -> Result<Headers, DecodeError> {
    let mut pairs = Vec::new();
    while !r.is_done() {
        pairs.push((r.text()?.to_owned(), r.text()?.to_owned()));
    }
    Ok(Headers::from_stored(pairs))
}

fn decode_tags(r: &mut FieldReader<'_>) -> Result<Tags, DecodeError> {
    let mut tags = Vec::new();
    while !r.is_done() {
        tags.push(r.text()?.to_owned());
    }
    Ok(Tags::from_stored(tags))
}

/// Codes of destinations.
pub(crate) const PULL: u8 = 1;
pub(crate) const HTTP: u8 = 2;

pub(super) fn encode_destination(w: &mut FieldWriter<'_>, destination: &Destination) {
    match destination {
        Destination::Pull => w.u8(PULL),
        Destination::Http(http) => {
            w.u8(HTTP);
            w.u8(code_in(&METHODS, &http.method));
            w.u64(http.timeout.ms());
            w.text(http.url().as_str());
            encode_headers(w, &http.headers);
        }
    }
}

pub(super) fn decode_destination(r: &mut FieldReader<'_>) -> Result<Destination, DecodeError> {
    match r.u8()? {
        PULL => Ok(Destination::Pull),
        HTTP => {
            let method = from_code(&METHODS, r.u8()?, "method")?;
            let timeout = r.millis()?;
            let mut http = HttpDestination::from_stored(r.text()?)?;
            http.method = method;
            http.timeout = timeout;
            http.headers = decode_headers(r)?;
            Ok(Destination::Http(http))
        }
        other => Err(DecodeError::unknown("destination", other)),
    }
}

pub(super) fn encode_retry(w: &mut FieldWriter<'_>, retry: &RetryPolicy) {
    match retry {
        RetryPolicy::Exponential(policy) => {
            w.u8(1);
            w.u32(policy.max_attempts);
            w.u64(policy.min_backoff.ms());
            w.u64(policy.max_backoff.ms());
            w.u64(policy.multiplier.to_bits());
            w.u64(policy.jitter.to_bits());
        }
        RetryPolicy::Delays(waits) => {
            w.u8(2);
            waits.iter().for_each(|wait| w.u64(wait.ms()));
        }
    }
}

pub(super) fn decode_retry(r: &mut FieldReader<'_>) -> Result<RetryPolicy, DecodeError> {
    let policy = match r.u8()? {
        1 => RetryPolicy::Exponential(Exponential {
            max_attempts: r.u32()?,
            min_backoff: r.millis()?,
            max_backoff: r.millis()?,
            multiplier: f64::from_bits(r.u64()?),
            jitter: f64::from_bits(r.u64()?),
        }),
        2 => {
            let mut waits = Vec::new();
            while !r.is_done() {
                waits.push(Millis::from_ms(r.u64()?));
            }
            RetryPolicy::Delays(waits)
        }
        other => return Err(DecodeError::unknown("retry policy", other)),
    };
    Ok(policy.check()?)
}

pub(super) fn encode_history(w: &mut FieldWriter<'_>, history: &[Attempt]) {
    for attempt in history {
        w.u32(attempt.attempt);
        w.time(attempt.at);
        w.u8(code_in(&AttemptOutcome::ALL, &attempt.outcome));
        w.text(&attempt.reason);
    }
}

pub(super) fn decode_history(r: &mut FieldReader<'_>) -> Result<Vec<Attempt>, DecodeError> {
    let mut history = Vec::new();
    while !r.is_done() {
        history.push(Attempt {
            attempt: r.u32()?,
            at: r.time()?,
            outcome: from_code(&AttemptOutcome::ALL, r.u8()?, "attempt outcome")?,
            reason: r.text()?.to_owned(),
        });
    }
    Ok(history)
}

pub(super) fn encode_settled(w: &mut FieldWriter<'_>, settled: SettledToken) {
    w.u64(settled.nonce);
    w.u8(code_in(&VERDICTS, &settled.verdict));
}

pub(super) fn decode_settled(r: &mut FieldReader<'_>) -> Result<SettledToken, DecodeError> {
    Ok(SettledToken { nonce: r.u64()?, verdict: from_code(&VERDICTS, r.u8()?, "verdict")? })
}

#[cfg(test)]
mod tests;
