//! Timers on their way in: checked as a schedule is, and what has happened to them since.

use duly_core::{
    Incarnation, Invalid, Timer, TimerId, Timestamp,
    request_hash::RequestHash,
    timer::{Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, HISTORY_MAX, REASON_BYTES_MAX},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::ATTEMPTS_MAX;
use crate::wire::{
    DestinationIn, Duration, Headers, Integer, ProblemOut, RetryIn, ScheduleIn, Time, payload,
    timer::AttemptOut, trace,
};

/// Timers of another server for one namespace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Import)]
pub struct ImportIn<'a> {
    /// The timers in transport form, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<TransportIn>)]
    pub timers: Vec<&'a RawValue>,
}

/// A timer or dead letter as another server had it. An export gives it whole; it is not meant to be
/// written by hand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = MovedTimer)]
pub struct TransportIn<'a> {
    /// The id.
    id: String,
    /// When it is due.
    due_at: Time,
    /// When it was made, or replaced.
    created_at: Time,
    /// When a caller last changed it.
    updated_at: Time,
    /// 1 at creation, +1 at every accepted change by a caller.
    revision: Integer,
    /// Tells it from other timers that had its id: 16 hexadecimal digits. Part of its delivery id.
    incarnation: String,
    /// Which firing it is at. Part of its delivery id.
    occurrence: Integer,
    /// Hash of the request that made it, by which that request is known again: 32 hexadecimal digits.
    request_hash: String,
    /// The payload, if it was given as JSON on one line: its exact text.
    #[serde(borrow, default, deserialize_with = "payload::present")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The payload, if it was given as JSON of several lines: that text.
    payload_json: Option<String>,
    /// The payload, if it was given as text.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    payload_text: Option<payload::TextIn<'a>>,
    /// The payload, if it was given as base64.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    payload_base64: Option<payload::TextIn<'a>>,
    /// Headers that travel with it.
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    headers: Option<Headers>,
    /// Tags to find it by.
    tags: Option<Vec<String>>,
    /// Key by which a broker partitions.
    slot_key: Option<String>,
    /// Its own destination, with the credentials in its headers.
    destination: Option<DestinationIn>,
    /// Its own retry policy.
    retry: Option<RetryIn>,
    /// Later than this after due it becomes a dead letter.
    expire_after: Option<Duration>,
    /// W3C trace context of the call that scheduled it.
    trace_parent: Option<String>,
    /// Attempts of its firing that were begun.
    attempts: Integer,
    /// Such as had ended when its present budget of attempts began; default 0.
    budget_from: Option<Integer>,
    /// When the next attempt may start, after a failed one.
    next_attempt_at: Option<Time>,
    /// When the first attempt began.
    fired_at: Option<Time>,
    /// An attempt began whose outcome is not known.
    maybe_delivered: Option<bool>,
    /// The last 16 attempts, oldest first.
    #[schema(value_type = Option<Vec<AttemptOut>>)]
    history: Option<Vec<AttemptIn>>,
    /// When and why it was given up: it is a dead letter.
    dead_letter: Option<DeadLetterIn>,
}

/// One attempt that has ended.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct AttemptIn {
    attempt: Integer,
    at: Time,
    outcome: String,
    #[serde(default)]
    reason: String,
}

/// When and why a firing was given up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = DeadLetter)]
struct DeadLetterIn {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    at: Time,
    /// `attempts_spent`, `rejected`, `expired`, `corrupt` or `overdue`.
    reason: String,
}

/// What became of imported timers, in their order.
#[derive(Debug, ToSchema)]
#[schema(as = ImportResults)]
#[expect(dead_code, reason = "describes the answer in the OpenAPI document")]
pub struct ImportOut {
    /// One result for each timer.
    results: Vec<ImportResultOut>,
}

/// What became of one timer: exactly one of `imported`, `existing`, `error`; `state` stands beside
/// `existing`.
#[derive(Debug, ToSchema)]
#[schema(as = ImportResult)]
#[expect(dead_code, reason = "describes OperationResult in the OpenAPI document")]
pub struct ImportResultOut {
    /// `true`: it is here now as it was there.
    imported: Option<bool>,
    /// `true`: it has been here before; nothing changed.
    existing: Option<bool>,
    /// Its state here: `cancelled` and `finished` ones do not come back.
    state: Option<String>,
    /// Why it was refused.
    error: Option<ProblemOut>,
}

impl TransportIn<'_> {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed, or fields contradict each other; the error names the field.
    pub fn check(self) -> Result<Timer, Invalid> {
        let id = TimerId::new(&self.id)?;
        let text = self.payload_json;
        let others =
            [self.payload.is_some(), self.payload_text.is_some(), self.payload_base64.is_some()];
        if text.is_some() && others.contains(&true) {
            let allowed = "left out where another payload is given: a timer has one payload";
            return Err(Invalid::unseen("payload_json", allowed));
        }
        let in_lines: Option<&RawValue> = match &text {
            Some(text) => Some(
                serde_json::from_str(text)
                    .map_err(|_| Invalid::new("payload_json", text, "text that is JSON"))?,
            ),
            None => None,
        };
        let asked = ScheduleIn {
            id: None,
            due_at: Some(self.due_at),
            delay: None,
            payload: in_lines.or(self.payload),
            payload_text: self.payload_text,
            payload_base64: self.payload_base64,
            payload_given: None,
            headers: self.headers.map(Headers::without_forwarded),
            tags: self.tags,
            slot_key: self.slot_key,
            destination: self.destination.map(DestinationIn::without_forwarded),
            retry: self.retry,
            expire_after: self.expire_after,
            repeat: None,
            if_exists: None,
        };
        let (schedule, _) = asked.check(|| id)?;
        let created_at = self.created_at.check("created_at")?;
        let incarnation = Incarnation(hex(&self.incarnation, 16, "incarnation", |text| {
            u64::from_str_radix(text, 16).ok()
        })?);
        let mut timer = Timer::new(schedule, created_at, incarnation)?;
        timer.request_hash = RequestHash(hex(&self.request_hash, 32, "request_hash", |text| {
            u128::from_str_radix(text, 16).ok()
        })?);
        timer.updated_at = self.updated_at.check("updated_at")?;
        timer.revision = self.revision.within_u32("revision", 1, u32::MAX)?;
        timer.occurrence = self.occurrence.within_u32("occurrence", 0, u32::MAX)?;
        timer.trace_parent = self.trace_parent;
        timer.attempts = self.attempts.within_u32("attempts", 0, ATTEMPTS_MAX)?;
        if let Some(from) = self.budget_from {
            timer.budget_from = from.within_u32("budget_from", 0, timer.attempts)?;
        }
        timer.next_attempt_at = optional(self.next_attempt_at.as_ref(), "next_attempt_at")?;
        timer.fired_at = optional(self.fired_at.as_ref(), "fired_at")?;
        timer.maybe_delivered = self.maybe_delivered.unwrap_or_default();
        timer.history = history(self.history.unwrap_or_default(), timer.attempts)?;
        timer.dead_letter = self.dead_letter.map(DeadLetterIn::check).transpose()?;
        is_whole(&timer)?;
        Ok(timer)
    }
}

/// Refuses a timer whose parts contradict each other.
fn is_whole(timer: &Timer) -> Result<(), Invalid> {
    if let Some(text) = timer.trace_parent.as_ref().filter(|text| !trace::is_proper(text)) {
        return Err(Invalid::new("trace_parent", text, trace::ALLOWED));
    }
    match (timer.dead_letter, timer.next_attempt_at) {
        (Some(_), Some(_)) => {
            Err(Invalid::unseen("next_attempt_at", "left out: a dead letter has no next attempt"))
        }
        (None, None) if timer.attempts > 0 => {
            let allowed = "given where attempts were made, unless it is a dead letter";
            Err(Invalid::unseen("next_attempt_at", allowed))
        }
        _ => Ok(()),
    }
}

impl DeadLetterIn {
    fn check(self) -> Result<DeadLetter, Invalid> {
        let reason = word(
            &self.reason,
            DeadLetterReason::ALL.map(|r| (r.as_str(), r)),
            "dead_letter.reason",
        )?;
        Ok(DeadLetter { at: self.at.check("dead_letter.at")?, reason })
    }
}

fn history(attempts: Vec<AttemptIn>, made: u32) -> Result<Vec<Attempt>, Invalid> {
    if attempts.len() > HISTORY_MAX {
        let allowed = format!("at most {HISTORY_MAX} attempts");
        return Err(Invalid::new("history", format!("{} attempts", attempts.len()), allowed));
    }
    let checked = attempts.into_iter().enumerate();
    checked
        .map(|(i, one)| one.check(made).map_err(|e| e.within(&format!("history[{i}]"))))
        .collect()
}

impl AttemptIn {
    fn check(self, made: u32) -> Result<Attempt, Invalid> {
        if self.reason.len() > REASON_BYTES_MAX {
            let allowed = format!("at most {REASON_BYTES_MAX} bytes");
            return Err(Invalid::new("reason", self.reason, allowed));
        }
        Ok(Attempt {
            attempt: self.attempt.within_u32("attempt", 1, made)?,
            at: self.at.check("at")?,
            outcome: word(&self.outcome, AttemptOutcome::ALL.map(|o| (o.as_str(), o)), "outcome")?,
            reason: self.reason,
        })
    }
}

fn optional(time: Option<&Time>, field: &str) -> Result<Option<Timestamp>, Invalid> {
    time.map(|time| time.check(field)).transpose()
}

/// One of these words.
fn word<T, const N: usize>(
    text: &str,
    words: [(&'static str, T); N],
    field: &str,
) -> Result<T, Invalid> {
    let allowed = words.each_ref().map(|(word, _)| *word).join(", ");
    let found = words.into_iter().find(|(word, _)| *word == text);
    found
        .map(|(_, value)| value)
        .ok_or_else(|| Invalid::new(field, text, format!("one of {allowed}")))
}

/// So many hexadecimal digits.
fn hex<T>(
    text: &str,
    digits: usize,
    field: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Invalid> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = is_hex.then(|| parse(text)).flatten();
    parsed.ok_or_else(|| Invalid::new(field, text, format!("{digits} hexadecimal digits")))
}
