//! Values without a tag of their own.

use duly_core::{
    Destination, Millis, RetryPolicy,
    destination::{HttpDestination, LaneKey, Method},
    headers::Headers,
    limits::Limits,
    namespace::Fallback,
    payload::Form,
    retry::Exponential,
    timer::{Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, SettledToken, Verdict},
};

use crate::{ReadError, ReadFields, WriteFields, code_in};

/// Forms of payloads, by their codes.
pub const FORMS: [Form; 3] = [Form::Json, Form::Text, Form::Binary];
const METHODS: [Method; 3] = [Method::Post, Method::Put, Method::Patch];
const VERDICTS: [Verdict; 4] = [Verdict::Ack, Verdict::Retry, Verdict::Dead, Verdict::Release];

const PULL: u8 = 1;
const HTTP: u8 = 2;

const EXPONENTIAL: u8 = 1;
const DELAYS: u8 = 2;

pub(crate) fn encode_headers(w: &mut impl WriteFields, headers: &Headers) {
    for (name, value) in headers.iter() {
        w.text(name);
        w.text(value);
    }
}

pub(crate) fn decode_headers<'a, R: ReadFields<'a>>(r: &mut R) -> Result<Headers, R::Error> {
    let mut pairs = Vec::new();
    while !r.is_done() {
        pairs.push((r.text()?.to_owned(), r.text()?.to_owned()));
    }
    Ok(Headers::from_stored(pairs))
}

pub(crate) fn encode_destination(w: &mut impl WriteFields, destination: &Destination) {
    match destination {
        Destination::Pull => w.u8(PULL),
        Destination::Http(http) => {
            w.u8(HTTP);
            w.u8(code_in(&METHODS, &http.method));
            w.number(http.timeout.ms());
            w.text(http.url().as_str());
            encode_headers(w, &http.headers);
        }
    }
}

pub(crate) fn decode_destination<'a, R: ReadFields<'a>>(
    r: &mut R,
) -> Result<Destination, R::Error> {
    match r.u8()? {
        PULL => Ok(Destination::Pull),
        HTTP => {
            let method = r.code(&METHODS, "method")?;
            let timeout = r.millis()?;
            let mut http = HttpDestination::from_stored(r.text()?)?;
            (http.method, http.timeout) = (method, timeout);
            http.headers = decode_headers(r)?;
            Ok(Destination::Http(http))
        }
        other => Err(R::Error::unknown("destination", u64::from(other))),
    }
}

/// Decodes a destination and returns its lane, without building the destination.
///
/// # Errors
/// For bytes that the format does not write.
pub fn decode_lane_key<'a, R: ReadFields<'a>>(r: &mut R) -> Result<LaneKey, R::Error> {
    match r.u8()? {
        PULL => Ok(LaneKey::Pull),
        HTTP => {
            r.code(&METHODS, "method")?;
            let _timeout = r.millis()?;
            Ok(HttpDestination::lane_key_of_stored(r.text()?)?)
        }
        other => Err(R::Error::unknown("destination", u64::from(other))),
    }
}

pub(crate) fn encode_retry(w: &mut impl WriteFields, retry: &RetryPolicy) {
    match retry {
        RetryPolicy::Exponential(policy) => {
            w.u8(EXPONENTIAL);
            w.count(policy.max_attempts);
            w.number(policy.min_backoff.ms());
            w.number(policy.max_backoff.ms());
            w.float(policy.multiplier);
            w.float(policy.jitter);
        }
        RetryPolicy::Delays(waits) => {
            w.u8(DELAYS);
            waits.iter().for_each(|wait| w.number(wait.ms()));
        }
    }
}

pub(crate) fn decode_retry<'a, R: ReadFields<'a>>(r: &mut R) -> Result<RetryPolicy, R::Error> {
    let policy = match r.u8()? {
        EXPONENTIAL => RetryPolicy::Exponential(Exponential {
            max_attempts: r.count()?,
            min_backoff: r.millis()?,
            max_backoff: r.millis()?,
            multiplier: r.float()?,
            jitter: r.float()?,
        }),
        DELAYS => {
            let mut waits = Vec::new();
            while !r.is_done() {
                waits.push(r.millis()?);
            }
            RetryPolicy::Delays(waits)
        }
        other => return Err(R::Error::unknown("retry policy", u64::from(other))),
    };
    Ok(policy.check()?)
}

pub(crate) fn encode_fallback(w: &mut impl WriteFields, fallback: &Fallback) {
    w.count(fallback.after_attempts);
    w.number(fallback.after_open.ms());
    encode_destination(w, &fallback.destination);
}

pub(crate) fn decode_fallback<'a, R: ReadFields<'a>>(r: &mut R) -> Result<Fallback, R::Error> {
    let (after_attempts, after_open) = (r.count()?, r.millis()?);
    let destination = decode_destination(r)?;
    if destination.is_pull() {
        return Err(R::Error::impossible("consumers as a fallback"));
    }
    Ok(Fallback { destination, after_attempts, after_open })
}

/// Encodes limits as one value; an absent limit is the largest number.
pub(crate) fn encode_limits(w: &mut impl WriteFields, limits: &Limits) {
    w.count(limits.schedule_per_second.unwrap_or(u32::MAX));
    w.count(limits.deliver_per_second.unwrap_or(u32::MAX));
    w.count(limits.max_in_flight);
    w.number(limits.max_pending.unwrap_or(u64::MAX));
    w.number(limits.max_payload_bytes);
    w.number(limits.max_delay.map_or(u64::MAX, Millis::ms));
    w.number(limits.max_dead);
    w.number(limits.max_retained);
}

pub(crate) fn decode_limits<'a, R: ReadFields<'a>>(r: &mut R) -> Result<Limits, R::Error> {
    fn limit<T: PartialEq>(value: T, none: T) -> Option<T> {
        (value != none).then_some(value)
    }
    Ok(Limits {
        schedule_per_second: limit(r.count()?, u32::MAX),
        deliver_per_second: limit(r.count()?, u32::MAX),
        max_in_flight: r.count()?,
        max_pending: limit(r.number()?, u64::MAX),
        max_payload_bytes: r.number()?,
        max_delay: limit(r.number()?, u64::MAX).map(Millis::from_ms),
        max_dead: r.number()?,
        max_retained: r.number()?,
    })
}

/// Encodes an attempt of the history.
pub fn encode_attempt(w: &mut impl WriteFields, attempt: &Attempt) {
    let Attempt { attempt, at, outcome, reason } = attempt;
    w.count(*attempt);
    w.time(*at);
    w.u8(code_in(&AttemptOutcome::ALL, outcome));
    w.text(reason);
}

/// Decodes an attempt of the history.
///
/// # Errors
/// For bytes that the format does not write.
pub fn decode_attempt<'a, R: ReadFields<'a>>(r: &mut R) -> Result<Attempt, R::Error> {
    Ok(Attempt {
        attempt: r.count()?,
        at: r.time()?,
        outcome: r.code(&AttemptOutcome::ALL, "attempt outcome")?,
        reason: r.text()?.to_owned(),
    })
}

/// Encodes the token that was settled last.
pub fn encode_settled(w: &mut impl WriteFields, settled: SettledToken) {
    w.word(settled.nonce);
    w.u8(code_in(&VERDICTS, &settled.verdict));
}

/// Decodes the token that was settled last.
///
/// # Errors
/// For bytes that the format does not write.
pub fn decode_settled<'a, R: ReadFields<'a>>(r: &mut R) -> Result<SettledToken, R::Error> {
    let nonce = r.word()?;
    Ok(SettledToken { nonce, verdict: r.code(&VERDICTS, "verdict")? })
}

/// Encodes the time and reason of a dead-lettering.
pub fn encode_dead_letter(w: &mut impl WriteFields, dead_letter: DeadLetter) {
    w.time(dead_letter.at);
    w.u8(code_in(&DeadLetterReason::ALL, &dead_letter.reason));
}

/// Decodes the time and reason of a dead-lettering.
///
/// # Errors
/// For bytes that the format does not write.
pub fn decode_dead_letter<'a, R: ReadFields<'a>>(r: &mut R) -> Result<DeadLetter, R::Error> {
    let at = r.time()?;
    let reason = r.code(&DeadLetterReason::ALL, "death reason")?;
    Ok(DeadLetter { at, reason })
}

#[cfg(test)]
mod tests;
