//! The public API for tests: paths, request bodies, and the meaning of responses.
//!
//! This module is pure: it builds and reads JSON. A request that sets a payload puts a mark into
//! the payload (see [`crate::history`]), with text derived from the mark, so a wrong payload is
//! detected.

use serde_json::{Value, json};

use crate::history::{Action, Answer, Due, SettleVerdict};
use crate::wire::{Error, Response};

/// Percent-encodes everything but unreserved characters, for one segment of a path.
pub fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Returns the path of a namespace, with `rest` after it.
pub fn path(namespace: &str, rest: &str) -> String {
    format!("/v1/namespaces/{namespace}{rest}")
}

/// Returns the payload with a mark.
pub fn payload(mark: u64) -> Value {
    json!({ "mark": mark, "pad": pad(mark) })
}

/// Returns the mark of a payload, if the payload is exactly the result of [`payload`].
pub fn mark_of(payload: &Value) -> Option<u64> {
    let mark = payload.get("mark")?.as_u64()?;
    let whole = payload.as_object()?.len() == 2 && payload.get("pad")?.as_str()? == pad(mark);
    whole.then_some(mark)
}

fn pad(mark: u64) -> String {
    let length = usize::try_from(mark * 7 % 97).unwrap_or(0);
    format!("{:x}é", mark.wrapping_mul(0x9E37_79B9_7F4A_7C15)).repeat(1 + length / 12)
}

/// Returns the operation for `…/batch` that does this action.
pub fn batch_operation(id: Option<&str>, action: &Action, replace: IfExists) -> Value {
    match action {
        Action::Schedule { .. } => json!({ "schedule": schedule_body(id, action, replace) }),
        Action::Reschedule { .. } => {
            let mut body = reschedule_body(action);
            body["id"] = json!(id);
            json!({ "reschedule": body })
        }
        Action::Cancel => json!({ "cancel": { "id": id } }),
        Action::Fire | Action::Redrive => json!({ "fire": { "id": id } }),
    }
}

/// Behaviour of a schedule call for an id that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Refuses the call.
    Fail,
    /// Keeps the existing timer.
    Keep,
    /// Replaces the existing timer.
    Replace,
}

/// Returns the body of a schedule call.
pub fn schedule_body(id: Option<&str>, action: &Action, if_exists: IfExists) -> Value {
    let mut body = json!({});
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    if let Action::Schedule { mark, due } = action {
        body["payload"] = payload(*mark);
        set_due(&mut body, *due);
    }
    match if_exists {
        IfExists::Fail => {}
        IfExists::Keep => body["if_exists"] = json!("keep"),
        IfExists::Replace => body["if_exists"] = json!("replace"),
    }
    body
}

/// Returns the body of a PATCH.
pub fn reschedule_body(action: &Action) -> Value {
    let mut body = json!({});
    if let Action::Reschedule { mark, due } = action {
        if let Some(mark) = mark {
            body["payload"] = payload(*mark);
        }
        if let Some(due) = due {
            set_due(&mut body, *due);
        }
    }
    body
}

fn set_due(body: &mut Value, due: Due) {
    match due {
        Due::At(ms) => body["due_at"] = json!(ms),
        Due::In(delay_ms) => body["delay"] = json!(format!("{delay_ms}ms")),
    }
}

/// Returns one settlement.
pub fn settlement(token: &str, verdict: &SettleVerdict) -> Value {
    match verdict {
        SettleVerdict::Ack => json!({ "token": token, "ack": {} }),
        SettleVerdict::Retry { after_ms: None } => json!({ "token": token, "retry": {} }),
        SettleVerdict::Retry { after_ms: Some(after_ms) } => {
            json!({ "token": token, "retry": { "after": format!("{after_ms}ms") } })
        }
        SettleVerdict::Dead => json!({ "token": token, "dead": { "reason": "requested" } }),
        SettleVerdict::Extend { lease_ms } => {
            json!({ "token": token, "extend": { "lease": format!("{lease_ms}ms") } })
        }
    }
}

/// Returns the Unix milliseconds of a time in a response (`2030-01-31T12:00:00.000Z`).
pub fn time_ms(value: &Value) -> Option<u64> {
    if let Some(ms) = value.as_u64() {
        return Some(ms);
    }
    duly_bench::wire::time_ms(value.as_str()?)
}

/// Returns the result of an action from the response to its call.
pub fn call_result(action: &Action, result: &Result<Response, Error>) -> Answer {
    match result {
        Err(Error::NotSent(_)) => Answer::Refused,
        Err(Error::InDoubt(_) | Error::Late) => Answer::InDoubt,
        Ok(response) if response.status >= 500 => Answer::InDoubt,
        Ok(response) if !response.is_success() => Answer::Refused,
        Ok(response) => success_result(action, &response.json()),
    }
}

/// Returns the result of an operation from one result of a batch.
pub fn item_result(action: &Action, item: &Value) -> Answer {
    if let Some(problem) = item.get("error") {
        let status = problem["status"].as_u64().unwrap_or(500);
        return if status >= 500 { Answer::InDoubt } else { Answer::Refused };
    }
    let body = item.get("timer").unwrap_or(item);
    let mut merged = body.clone();
    for flag in ["existing", "replaced"] {
        if item[flag] == true {
            merged[flag] = json!(true);
        }
    }
    success_result(action, &merged)
}

fn success_result(action: &Action, body: &Value) -> Answer {
    let due_ms = time_ms(&body["due_at"]);
    let with_due = |result: fn(u64) -> Answer| due_ms.map_or(Answer::InDoubt, result);
    match action {
        Action::Schedule { mark, .. } if body["existing"] == true => {
            // The existing timer is from an earlier attempt of this call, or from another call.
            match due_ms {
                Some(due_ms) if mark_of(&body["payload"]) == Some(*mark) => {
                    Answer::Created { due_ms }
                }
                _ => Answer::Unchanged,
            }
        }
        Action::Schedule { .. } if body["replaced"] == true => {
            with_due(|due_ms| Answer::Replaced { due_ms })
        }
        Action::Schedule { .. } => with_due(|due_ms| Answer::Created { due_ms }),
        Action::Reschedule { .. } | Action::Fire => with_due(|due_ms| Answer::Changed { due_ms }),
        Action::Cancel => Answer::Cancelled {
            attempts: body["attempts"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            maybe_delivered: body["maybe_delivered"] == true,
        },
        Action::Redrive => match body["redriven"].as_u64() {
            // A dead letter that is named has a result of its own.
            Some(0) if body["errors"][0]["error"].is_object() => {
                item_result(action, &body["errors"][0])
            }
            Some(0) => Answer::Unchanged,
            _ => Answer::Redriven,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_answers() {
        assert_eq!(time_ms(&json!("2023-11-14T22:13:20.123Z")), Some(1_700_000_000_123));
        assert_eq!(time_ms(&json!(5)), Some(5));
        assert_eq!(time_ms(&json!(null)), None);
    }

    #[test]
    fn a_redrive_in_doubt_is_not_taken_for_no_change() {
        let none = json!({ "redriven": 0 });
        let failed = |status| json!({ "redriven": 0, "errors": [{ "index": 0, "error": { "status": status } }] });
        for (body, expected) in [
            (none, Answer::Unchanged),
            (failed(404), Answer::Refused),
            (failed(503), Answer::InDoubt),
            (json!({ "redriven": 1 }), Answer::Redriven),
        ] {
            assert_eq!(success_result(&Action::Redrive, &body), expected, "{body}");
        }
    }

    #[test]
    fn only_complete_payloads_have_a_mark() {
        for mark in 0..500 {
            assert_eq!(mark_of(&payload(mark)), Some(mark));
        }
        let mut mixed = payload(4);
        mixed["mark"] = json!(5);
        assert_eq!(mark_of(&mixed), None);
        assert_eq!(encode_segment("a/b %é"), "a%2Fb%20%25%C3%A9");
    }
}
