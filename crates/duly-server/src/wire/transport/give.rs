//! Timers and namespaces on their way out.

use duly_core::{
    Payload, State, Timer, Timestamp,
    namespace::SigningSecret,
    payload::Form,
    timer::{AttemptOutcome, DeadLetter},
};
use duly_store::{TimerView, namespaces::Namespace};
use serde::Serialize;
use utoipa::ToSchema;

use super::TransportIn;
use crate::wire::{
    DestinationOut, DurationOut, FallbackOut, HeadersOut, LimitsOut, NamespaceIn, RetryOut,
    TimeOut,
    headers::Credentials,
    payload::{self, Base64Out, JsonOut, TextOut},
    timer::History,
};

/// A page of an export.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Export)]
pub struct ExportOut<'a> {
    /// The namespace; on the first page only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ExportedNamespaceOut<'a>>,
    /// The timers in transport form.
    #[schema(value_type = Vec<TransportIn>)]
    pub timers: Vec<TransportOut<'a>>,
    /// Where to go on; absent at the end. A page may be short and still have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A namespace as it is made anew elsewhere.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExportedNamespace)]
pub struct ExportedNamespaceOut<'a> {
    /// Its name.
    name: &'a str,
    /// Whether claims are refused.
    paused: bool,
    /// When it goes on by itself, while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    resumes_at: Option<TimeOut>,
    /// Its settings as a PUT takes them, with the credentials of its destinations and without its
    /// signing secrets.
    #[schema(value_type = NamespaceIn)]
    settings: SettingsOut<'a>,
    /// Fingerprints of the signing secrets, which have to be set by hand.
    signing_secret_fingerprints: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SettingsOut<'a> {
    destination: DestinationOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<FallbackOut<'a>>,
    retry: RetryOut<'a>,
    lease: DurationOut,
    retention: DurationOut,
    weight: u32,
    limits: LimitsOut,
}

impl<'a> From<&'a Namespace> for ExportedNamespaceOut<'a> {
    fn from(namespace: &'a Namespace) -> Self {
        let settings = &namespace.settings;
        let secrets = settings.signing_secrets.iter();
        let fallback = settings.fallback.as_ref();
        Self {
            name: namespace.name.as_str(),
            paused: namespace.paused,
            resumes_at: namespace.resumes_at.map(TimeOut),
            settings: SettingsOut {
                destination: DestinationOut::of(&settings.destination, Credentials::Whole),
                fallback: fallback.map(|f| FallbackOut::of(f, Credentials::Whole)),
                retry: RetryOut(&settings.retry),
                lease: settings.lease.into(),
                retention: settings.retention.into(),
                weight: settings.weight,
                limits: (&settings.limits).into(),
            },
            signing_secret_fingerprints: secrets.map(SigningSecret::fingerprint).collect(),
        }
    }
}

/// A timer in transport form; a field is absent where it has none.
#[derive(Debug, Serialize)]
pub struct TransportOut<'a> {
    id: &'a str,
    due_at: TimeOut,
    created_at: TimeOut,
    updated_at: TimeOut,
    revision: u32,
    incarnation: String,
    occurrence: u32,
    request_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<JsonOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_json: Option<TextOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<TextOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Base64Out<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<HeadersOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<DestinationOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<DurationOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_parent: Option<&'a str>,
    attempts: u32,
    #[serde(skip_serializing_if = "is_zero")]
    budget_from: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fired_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe_delivered: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<History<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<DeadLetterOut>,
}

#[derive(Debug, Serialize)]
struct DeadLetterOut {
    at: TimeOut,
    reason: &'static str,
}

impl<'a> TransportOut<'a> {
    /// The transport form of a timer or dead letter; nothing of a tombstone, which has ended.
    pub fn new(view: &'a TimerView) -> Option<Self> {
        let mut out = Self::of(view.timer()?);
        if view.state == State::InFlight {
            // Nobody knows here what becomes of the attempt under way. Without an end of its lease it
            // would be claimable at once, as its due time is.
            out.attempts = view.attempts();
            out.maybe_delivered = Some(AttemptOutcome::LeaseLost.is_unknown());
            out.next_attempt_at = Some(view.leased_until.unwrap_or(view.due_at()).into());
            out.fired_at = out.fired_at.or(view.claimed_at.map(TimeOut));
        }
        Some(out)
    }

    fn of(timer: &'a Timer) -> Self {
        let payload = timer.payload.as_ref();
        let in_lines = payload.filter(|payload| has_lines(payload));
        let destination = timer.destination.as_ref();
        Self {
            id: timer.id.as_str(),
            due_at: timer.due_at.into(),
            created_at: timer.created_at.into(),
            updated_at: timer.updated_at.into(),
            revision: timer.revision,
            incarnation: format!("{:016x}", timer.incarnation.0),
            occurrence: timer.occurrence,
            request_hash: format!("{:032x}", timer.request_hash.0),
            payload: payload::json_of(payload.filter(|_| in_lines.is_none())),
            payload_json: in_lines.map(|payload| TextOut(&payload.bytes)),
            payload_text: payload::text_of(payload),
            payload_base64: payload::base64_of(payload),
            headers: (!timer.headers.is_empty()).then_some(HeadersOut(&timer.headers)),
            tags: (!timer.tags.is_empty()).then_some(timer.tags.as_slice()),
            slot_key: timer.slot_key.as_ref().map(|key| key.as_str()),
            destination: destination.map(|to| DestinationOut::of(to, Credentials::Whole)),
            retry: timer.retry.as_ref().map(RetryOut),
            expire_after: timer.expire_after.map(DurationOut),
            trace_parent: timer.trace_parent.as_deref(),
            attempts: timer.attempts,
            budget_from: timer.budget_from,
            next_attempt_at: timer.next_attempt_at.map(TimeOut),
            fired_at: timer.fired_at.map(TimeOut),
            maybe_delivered: timer.maybe_delivered.then_some(true),
            history: History::of(&timer.history),
            dead_letter: timer.dead_letter.map(DeadLetterOut::from),
        }
    }
}

impl From<DeadLetter> for DeadLetterOut {
    fn from(dead_letter: DeadLetter) -> Self {
        let at: Timestamp = dead_letter.at;
        Self { at: at.into(), reason: dead_letter.reason.as_str() }
    }
}

/// Whether its JSON text would end the line that it stands in.
fn has_lines(payload: &Payload) -> bool {
    payload.form == Form::Json && payload.bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
