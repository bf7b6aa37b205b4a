//! The transport form of timers, for exports and imports, in JSON only.
//!
//! It is checked as a schedule is, and has the history of the timer as well.

use bytes::Bytes;
use duly_core::{
    Incarnation, Invalid, Payload, State, Timer as StoredTimer, TimerId, TimerSpec, TimerView,
    payload::Form,
    request_hash::RequestHash,
    timer::{
        Attempt as StoredAttempt, AttemptOutcome as CoreOutcome, DeadLetter as StoredDeadLetter,
        HISTORY_MAX, REASON_BYTES_MAX,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Attempt, AttemptOutcome, DeadReason, Destination, Duration, MessageFormat, NamespaceSettings,
    Problem, Retry, Schedule, Time,
    headers::{self, CredentialsForm, Header, HeaderList},
    number::{ranged, within},
    payload::{self, PayloadFields},
    trace,
    words::{Word, Words},
};

/// Most attempts of an imported timer, so that further attempts can be counted.
pub const ATTEMPTS_MAX: u32 = 1_000_000_000;

/// A page of an export.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExportPage)]
pub struct Export {
    /// The namespace; on the first page only.
    pub namespace: Option<ExportedNamespace>,
    /// The timers.
    pub timers: Vec<MovedTimer>,
    /// The place to continue from; absent at the end. A page may be short and still have one.
    pub cursor: Option<String>,
}

/// A namespace in the form from which another server creates it.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
pub struct ExportedNamespace {
    /// Its name.
    pub name: String,
    /// `true`: claims are refused.
    pub paused: bool,
    /// The time at which it resumes by itself, while it is paused.
    pub resumes_at: Option<Time>,
    /// Its settings as a PUT takes them, with the credentials of its destinations and without its
    /// signing secrets.
    pub settings: NamespaceSettings,
    /// Fingerprints of the signing secrets, which have to be set by hand.
    pub signing_secret_fingerprints: Vec<String>,
}

/// Timers of another server for one namespace.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = ImportRequest)]
pub struct Import<'a> {
    /// The timers, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<MovedTimer>, max_items = 10000)]
    pub timers: Vec<&'a RawValue>,
}

/// A timer or dead letter in the form of another server. An export returns it complete; it is not meant
/// to be written by hand.
#[skip_serializing_none]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct MovedTimer {
    /// The id.
    #[schema(min_length = 1, max_length = 256)]
    id: String,
    /// The time at which it is due.
    due_at: Time,
    /// The time at which it was created, or replaced.
    created_at: Time,
    /// The time at which a caller last changed it.
    updated_at: Time,
    /// 1 at creation, +1 at every accepted change by a caller.
    #[schema(minimum = 1)]
    #[serde(deserialize_with = "ranged::<1, { u32::MAX as u64 }, _, _>")]
    revision: u32,
    /// Distinguishes the timer from others that had its id. Part of its delivery id.
    #[schema(pattern = "^[0-9a-fA-F]{16}$")]
    incarnation: String,
    /// The number of its firing. Part of its delivery id.
    #[serde(deserialize_with = "ranged::<0, { u32::MAX as u64 }, _, _>")]
    occurrence: u32,
    /// Hash of the request that made it, by which that request is recognised.
    #[schema(pattern = "^[0-9a-fA-F]{32}$")]
    request_hash: String,
    /// The payload, if it was given as JSON on one line: its exact text.
    #[serde(default, with = "payload::json")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Bytes>,
    /// The payload, if it was given as JSON of several lines: that text.
    payload_json: Option<String>,
    /// The payload, if it was given as text.
    #[serde(default, with = "payload::text")]
    #[schema(value_type = Option<String>)]
    payload_text: Option<Bytes>,
    /// The payload, if it was given as base64.
    #[serde(default, with = "payload::base64_text")]
    #[schema(value_type = Option<String>)]
    payload_base64: Option<Bytes>,
    /// Headers that travel with it.
    #[serde(default, with = "headers", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<HeaderList>)]
    headers: Vec<Header>,
    /// Tags to find it by.
    #[schema(max_items = 16)]
    tags: Option<Vec<String>>,
    /// Key by which a broker partitions.
    slot_key: Option<String>,
    /// Its own destination, with the credentials in its headers.
    destination: Option<Destination>,
    /// Its own retry policy.
    retry: Option<Retry>,
    /// Longest time after the due time; past it the timer becomes a dead letter.
    expire_after: Option<Duration>,
    /// W3C trace context of the call that scheduled it.
    #[schema(pattern = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
    trace_parent: Option<String>,
    /// Attempts of its firing that were begun.
    #[schema(maximum = 1_000_000_000)]
    #[serde(deserialize_with = "ranged::<0, { ATTEMPTS_MAX as u64 }, _, _>")]
    attempts: u32,
    /// Attempts that had ended when its present budget of attempts began; default 0.
    #[serde(default, deserialize_with = "ranged::<0, { ATTEMPTS_MAX as u64 }, _, _>")]
    budget_from: Option<u32>,
    /// The time at which the next attempt may start, after a failed one.
    next_attempt_at: Option<Time>,
    /// The time at which the first attempt began.
    fired_at: Option<Time>,
    /// `true`: an attempt began whose outcome is not known.
    maybe_delivered: Option<bool>,
    /// The last 16 attempts, oldest first.
    #[schema(max_items = 16)]
    history: Option<Vec<Attempt>>,
    /// Time and reason of its dead-lettering: it is a dead letter.
    dead_letter: Option<DeadLetter>,
}

/// Time and reason of a firing's dead-lettering.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct DeadLetter {
    /// The time.
    at: Time,
    /// The reason.
    #[serde(with = "Word::<DeadReason>")]
    #[schema(value_type = DeadReason)]
    reason: i32,
}

/// Results of an import, in order.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImportResults {
    /// One result for each timer.
    pub results: Vec<ImportResult>,
}

/// Result of one timer: exactly one of `imported`, `existing`, `error`; `state` comes with `existing`.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ImportResult {
    /// `true`: the timer exists here now as it existed there.
    pub imported: Option<bool>,
    /// `true`: the timer has been here before; nothing changed.
    pub existing: Option<bool>,
    /// Its state here: `cancelled` and `finished` ones do not come back.
    pub state: Option<&'static str>,
    /// The reason for which it was refused.
    pub error: Option<Box<Problem>>,
}

impl MovedTimer {
    /// Returns the transport form of a timer or dead letter; `None` for a tombstone, because its timer
    /// has ended.
    pub fn new(view: &TimerView) -> Option<Self> {
        let mut moved = Self::from(view.timer()?);
        if view.state == State::InFlight {
            // The outcome of the attempt under way is not known here. Without the end of its lease, the
            // timer would be claimable at once, because its due time has passed.
            moved.attempts = view.attempts();
            moved.maybe_delivered = Some(CoreOutcome::LeaseLost.is_unknown());
            moved.next_attempt_at = Some(view.leased_until.unwrap_or(view.due_at()).into());
            moved.fired_at = moved.fired_at.or(view.claimed_at.map(Time::from));
        }
        Some(moved)
    }

    /// Returns the timer, checked.
    ///
    /// # Errors
    /// When a value is not allowed, or fields contradict each other; the error names the field.
    pub fn check(mut self) -> Result<StoredTimer, Invalid> {
        let id = TimerId::new(&self.id)?;
        let others = [&self.payload, &self.payload_text, &self.payload_base64];
        if self.payload_json.is_some() && others.into_iter().any(Option::is_some) {
            let allowed = "left out where another payload is given: a timer has one payload";
            return Err(Invalid::unseen("payload_json", allowed));
        }
        if let Some(text) = self.payload_json.take() {
            let raw: Box<RawValue> = serde_json::from_str(&text)
                .map_err(|_| Invalid::new("payload_json", &text, "text that is JSON"))?;
            self.payload = Some(Bytes::from(String::from(Box::<str>::from(raw))));
        }
        headers::remove_forwarded(&mut self.headers);
        if let Some(destination) = &mut self.destination {
            destination.remove_forwarded();
        }
        let asked = Schedule {
            due_at: Some(self.due_at),
            payload: self.payload,
            payload_text: self.payload_text,
            payload_base64: self.payload_base64,
            headers: self.headers,
            tags: self.tags.unwrap_or_default(),
            slot_key: self.slot_key,
            destination: self.destination,
            retry: self.retry,
            expire_after: self.expire_after,
            ..Schedule::default()
        };
        let (schedule, _) = asked.check(MessageFormat::Json, || id)?;
        let created_at = self.created_at.check("created_at")?;
        let incarnation =
            hex(&self.incarnation, 16, "incarnation", |text| u64::from_str_radix(text, 16).ok())?;
        let request_hash = hex(&self.request_hash, 32, "request_hash", |text| {
            u128::from_str_radix(text, 16).ok()
        })?;
        let mut timer = StoredTimer::new(schedule, created_at, Incarnation(incarnation))?;
        timer.request_hash = RequestHash(request_hash);
        timer.updated_at = self.updated_at.check("updated_at")?;
        timer.revision = within("revision", self.revision, 1, u32::MAX)?;
        timer.occurrence = self.occurrence;
        timer.spec.trace_parent = self.trace_parent;
        timer.attempts = within("attempts", self.attempts, 0, ATTEMPTS_MAX)?;
        timer.budget_from =
            within("budget_from", self.budget_from.unwrap_or(0), 0, timer.attempts)?;
        let time = |field: &str, time: Option<Time>| time.map(|it| it.check(field)).transpose();
        timer.next_attempt_at = time("next_attempt_at", self.next_attempt_at)?;
        timer.fired_at = time("fired_at", self.fired_at)?;
        timer.maybe_delivered = self.maybe_delivered.unwrap_or_default();
        timer.history = history(self.history.unwrap_or_default(), timer.attempts)?;
        timer.dead_letter = self.dead_letter.map(DeadLetter::check).transpose()?;
        is_whole(&timer)?;
        Ok(timer)
    }
}

impl From<&StoredTimer> for MovedTimer {
    fn from(timer: &StoredTimer) -> Self {
        // Each field is named here, so that a new field is a compile error until it moves.
        let TimerSpec {
            payload,
            headers,
            tags,
            slot_key,
            destination,
            retry,
            expire_after,
            trace_parent,
        } = &timer.spec;
        let payload = payload.as_ref();
        let in_lines = payload.filter(|payload| has_lines(payload));
        let forms = PayloadFields::of(payload.filter(|_| in_lines.is_none()));
        let text = |payload: &Payload| String::from_utf8_lossy(&payload.bytes).into_owned();
        let tags = tags.as_slice();
        let history = timer.history.iter().map(Attempt::from);
        Self {
            id: timer.id.as_str().to_owned(),
            due_at: timer.due_at.into(),
            created_at: timer.created_at.into(),
            updated_at: timer.updated_at.into(),
            revision: timer.revision,
            incarnation: format!("{:016x}", timer.incarnation.0),
            occurrence: timer.occurrence,
            request_hash: format!("{:032x}", timer.request_hash.0),
            payload: forms.json,
            payload_json: in_lines.map(text),
            payload_text: forms.text,
            payload_base64: forms.base64,
            headers: headers::shown(headers),
            tags: (!tags.is_empty()).then(|| tags.to_vec()),
            slot_key: slot_key.as_ref().map(|key| key.as_str().to_owned()),
            destination: destination
                .as_ref()
                .map(|it| Destination::shown(it, CredentialsForm::Whole)),
            retry: retry.as_ref().map(Retry::from),
            expire_after: expire_after.map(Duration::from),
            trace_parent: trace_parent.clone(),
            attempts: timer.attempts,
            budget_from: (timer.budget_from > 0).then_some(timer.budget_from),
            next_attempt_at: timer.next_attempt_at.map(Time::from),
            fired_at: timer.fired_at.map(Time::from),
            maybe_delivered: timer.maybe_delivered.then_some(true),
            history: (!timer.history.is_empty()).then(|| history.collect()),
            dead_letter: timer.dead_letter.map(|dead_letter| DeadLetter {
                at: dead_letter.at.into(),
                reason: DeadReason::from(dead_letter.reason).into(),
            }),
        }
    }
}

/// Returns `true` if the JSON text of a payload has line breaks, which would end its line of an export.
fn has_lines(payload: &Payload) -> bool {
    payload.form == Form::Json && payload.bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Refuses a timer whose fields contradict each other.
fn is_whole(timer: &StoredTimer) -> Result<(), Invalid> {
    if let Some(text) = timer.spec.trace_parent.as_ref().filter(|text| !trace::is_proper(text)) {
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

impl DeadLetter {
    fn check(self) -> Result<StoredDeadLetter, Invalid> {
        let field = "dead_letter.reason";
        let reason = DeadReason::known(field, self.reason)?.and_then(DeadReason::to_core);
        let reason = reason.ok_or_else(|| Invalid::unseen(field, "given"))?;
        Ok(StoredDeadLetter { at: self.at.check("dead_letter.at")?, reason })
    }
}

fn history(attempts: Vec<Attempt>, made: u32) -> Result<Vec<StoredAttempt>, Invalid> {
    if attempts.len() > HISTORY_MAX {
        let allowed = format!("at most {HISTORY_MAX} attempts");
        return Err(Invalid::new("history", format!("{} attempts", attempts.len()), allowed));
    }
    let checked = attempts.into_iter().enumerate();
    checked
        .map(|(i, one)| one.check(made).map_err(|e| e.within(&format!("history[{i}]"))))
        .collect()
}

impl Attempt {
    fn check(self, made: u32) -> Result<StoredAttempt, Invalid> {
        if self.reason.len() > REASON_BYTES_MAX {
            let allowed = format!("at most {REASON_BYTES_MAX} bytes");
            return Err(Invalid::new("reason", self.reason, allowed));
        }
        let outcome = AttemptOutcome::known("outcome", self.outcome)?;
        let outcome = outcome.and_then(AttemptOutcome::to_core);
        Ok(StoredAttempt {
            attempt: within("attempt", self.attempt, 1, made)?,
            at: self.at.ok_or_else(|| Invalid::unseen("at", "given"))?.check("at")?,
            outcome: outcome.ok_or_else(|| Invalid::unseen("outcome", "given"))?,
            reason: self.reason,
        })
    }
}

/// Parses hexadecimal digits, of a fixed number.
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

#[cfg(test)]
mod tests;
