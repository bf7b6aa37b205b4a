//! A timer, its tombstone, or its dead letter.

use duly_client::{
    Attempt, Destination, HttpDestination, Outcome, Page, RetryPolicy, Scheduled, Timer,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{DurationOut, HeadersOut, TimeOut, json, payload::PayloadOut};
use crate::failure::Failure;

#[derive(Serialize)]
struct TimerOut<'a> {
    namespace: &'a str,
    id: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    existing: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replaced: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tombstone: bool,
    due_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<HeadersOut<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<DestinationOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_after: Option<DurationOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<TimeOut>,
    attempts: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    maybe_delivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased_until: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<AttemptOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fired_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_at: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct AttemptOut<'a> {
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<TimeOut>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum DestinationOut<'a> {
    Pull {},
    Http {
        url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        headers: Option<HeadersOut<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<DurationOut>,
    },
}

#[derive(Serialize)]
struct RetryOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_backoff: Option<DurationOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_backoff: Option<DurationOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delays: Vec<DurationOut>,
}

/// A page of timers.
#[derive(Serialize)]
struct TimersOut<'a> {
    timers: Vec<TimerOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    examined: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to: Option<TimeOut>,
}

/// A timer.
pub(crate) fn timer(timer: &Timer) -> Result<String, Failure> {
    Ok(json(&out(timer)?))
}

/// The answer to a schedule.
pub(crate) fn scheduled(scheduled: &Scheduled) -> Result<String, Failure> {
    Ok(json(&TimerOut {
        existing: scheduled.outcome == Outcome::Existing,
        replaced: scheduled.outcome == Outcome::Replaced,
        ..out(&scheduled.timer)?
    }))
}

/// A page of a list.
pub(crate) fn timers(page: &Page<Timer>) -> Result<String, Failure> {
    Ok(json(&TimersOut {
        timers: page.items.iter().map(out).collect::<Result<_, _>>()?,
        cursor: page.cursor.as_deref(),
        examined: page.examined,
        up_to: page.up_to.map(TimeOut),
    }))
}

fn out(timer: &Timer) -> Result<TimerOut<'_>, Failure> {
    let PayloadOut { json, text, base64 } = PayloadOut::new(timer.payload.as_ref())?;
    Ok(TimerOut {
        namespace: &timer.namespace,
        id: &timer.id,
        state: timer.state.as_str(),
        existing: false,
        replaced: false,
        tombstone: timer.tombstone,
        due_at: timer.due_at.map(TimeOut),
        revision: timer.revision,
        occurrence: timer.occurrence,
        delivery_id: timer.delivery_id.as_deref(),
        payload: json,
        payload_text: text,
        payload_base64: base64,
        headers: (!timer.headers.is_empty()).then_some(HeadersOut(&timer.headers)),
        tags: &timer.tags,
        slot_key: timer.slot_key.as_deref(),
        destination: timer.destination.as_ref().and_then(destination),
        retry: timer.retry.as_ref().map(retry),
        expire_after: timer.expire_after.map(DurationOut),
        created_at: timer.created_at.map(TimeOut),
        updated_at: timer.updated_at.map(TimeOut),
        attempts: timer.attempts,
        maybe_delivered: timer.maybe_delivered,
        next_attempt_at: timer.next_attempt_at.map(TimeOut),
        leased_until: timer.leased_until.map(TimeOut),
        last_error: timer.last_error.as_deref(),
        history: timer.history.iter().map(attempt).collect(),
        fired_at: timer.fired_at.map(TimeOut),
        finished_at: timer.finished_at.map(TimeOut),
        cancelled_at: timer.cancelled_at.map(TimeOut),
        dead_at: timer.dead_at.map(TimeOut),
        dead_reason: timer.dead_reason.as_deref(),
    })
}

fn attempt(attempt: &Attempt) -> AttemptOut<'_> {
    AttemptOut {
        attempt: attempt.attempt,
        at: attempt.at.map(TimeOut),
        outcome: &attempt.outcome,
        reason: &attempt.reason,
    }
}

/// None for a kind that is newer than this command.
fn destination(destination: &Destination) -> Option<DestinationOut<'_>> {
    match destination {
        Destination::Pull => Some(DestinationOut::Pull {}),
        Destination::Http(HttpDestination { url, method, headers, timeout }) => {
            Some(DestinationOut::Http {
                url,
                method: method.as_deref(),
                headers: (!headers.is_empty()).then_some(HeadersOut(headers)),
                timeout: timeout.map(DurationOut),
            })
        }
        _ => None,
    }
}

fn retry(retry: &RetryPolicy) -> RetryOut {
    RetryOut {
        max_attempts: retry.max_attempts,
        min_backoff: retry.min_backoff.map(DurationOut),
        max_backoff: retry.max_backoff.map(DurationOut),
        multiplier: retry.multiplier,
        jitter: retry.jitter,
        delays: retry.delays.iter().copied().map(DurationOut).collect(),
    }
}
