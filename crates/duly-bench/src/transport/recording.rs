//! Calls with complete results, for the recording client: operations, firings, and final states.
//!
//! A payload begins with its mark, a number used once; filler completes its length. So a payload of
//! another call, or a part of a payload, is detected.

use anyhow::{Context as _, Result};
use duly_api::{OperationResult, Time, Timer, Words as _};
use duly_checker::history::{Action, Answer, EndState};
use futures::future::BoxFuture;

/// Digits of a mark in a payload, and the shortest payload.
pub(crate) const MARK_BYTES: usize = 16;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Number of the timer, which is its id.
    pub(crate) number: u64,
    /// Schedule, reschedule or cancel, with due times as instants.
    pub(crate) action: Action,
    /// `true`: a schedule call replaces an existing timer.
    pub(crate) replaces: bool,
}

/// A leased firing with all its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Id of the timer; any text.
    pub(crate) id: String,
    /// Token of the lease.
    pub(crate) token: String,
    /// Delivery id, as reported by the server.
    pub(crate) delivery_id: String,
    /// Occurrence, as reported by the server.
    pub(crate) occurrence: u32,
    /// Attempt, as reported by the server; from 1.
    pub(crate) attempt: u32,
    /// Due time, Unix ms.
    pub(crate) due_ms: u64,
    /// End of the lease, Unix ms.
    pub(crate) leased_until_ms: u64,
    /// Mark of the payload; `None` if the payload differs from what was sent.
    pub(crate) mark: Option<u64>,
}

/// Result of a read of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    /// State of the timer.
    pub(crate) state: EndState,
    /// Due time, Unix ms, if it has one.
    pub(crate) due_ms: Option<u64>,
    /// Mark of the payload, if it has one.
    pub(crate) mark: Option<u64>,
}

/// A client with complete results. Every error means that the outcome is unknown.
pub(crate) trait RecordingTransport: Send + Sync {
    /// Sends operations as one call; returns one result for each.
    fn ask<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        asks: &'a [Ask],
    ) -> BoxFuture<'a, Result<Vec<Answer>>>;

    /// Leases due firings; waits up to `wait_ms` for the first.
    fn take<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Taken>>>;

    /// Reads a timer.
    fn read<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Last>>;
}

/// Returns the payload with this mark, as long as the filler but not shorter than the mark.
pub(crate) fn marked(mark: u64, filler: &str) -> String {
    let rest = filler.get(MARK_BYTES..).unwrap_or_default();
    format!("{mark:016x}{rest}")
}

/// Returns the mark of a payload, if the payload is exactly the result of [`marked`].
pub(crate) fn mark_of(payload: &[u8], filler: &str) -> Option<u64> {
    let (digits, rest) = payload.split_at_checked(MARK_BYTES)?;
    let mark = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (rest == filler.get(MARK_BYTES..).unwrap_or_default().as_bytes()).then_some(mark)
}

/// Returns `true` if the outcome of an operation refused with this code is unknown.
fn is_in_doubt(code: &str) -> bool {
    matches!(code, "unavailable" | "aborted" | "deadline_exceeded" | "internal")
}

fn unix_ms(time: Option<&Time>) -> Option<u64> {
    Some(time?.check("").ok()?.unix_ms())
}

impl Ask {
    /// Converts a result of this operation.
    pub(super) fn answer(&self, result: OperationResult) -> Answer {
        let timer = match result {
            OperationResult { error: Some(problem), .. } => {
                return if is_in_doubt(&problem.code) { Answer::InDoubt } else { Answer::Refused };
            }
            OperationResult { cancelled: Some(cancelled), .. } => {
                let (attempts, maybe_delivered) = (cancelled.attempts, cancelled.maybe_delivered);
                return Answer::Cancelled { attempts, maybe_delivered };
            }
            OperationResult { timer, .. } => timer,
        };
        let Some(timer) = timer else { return Answer::InDoubt };
        let Some(due_ms) = unix_ms(timer.due_at.as_ref()) else { return Answer::InDoubt };
        match *timer {
            Timer { existing: true, .. } => Answer::Unchanged,
            Timer { replaced: true, .. } => Answer::Replaced { due_ms },
            Timer { .. } if matches!(self.action, Action::Schedule { .. }) => {
                Answer::Created { due_ms }
            }
            Timer { .. } => Answer::Changed { due_ms },
        }
    }
}

impl Taken {
    /// Converts a firing.
    pub(super) fn new(firing: duly_api::Firing, filler: &str) -> Result<Self> {
        let time = |time: &Option<Time>| {
            unix_ms(time.as_ref()).context("the server answered a firing without its times")
        };
        Ok(Self {
            due_ms: time(&firing.due_at)?,
            leased_until_ms: time(&firing.leased_until)?,
            mark: firing.payload_text.as_deref().and_then(|text| mark_of(text, filler)),
            id: firing.id,
            token: firing.token,
            delivery_id: firing.delivery_id,
            occurrence: firing.occurrence,
            attempt: firing.attempt,
        })
    }
}

impl Last {
    /// Result for a timer that does not exist.
    pub(super) const NOT_FOUND: Self = Self { state: EndState::NotFound, due_ms: None, mark: None };

    /// Converts a timer.
    pub(super) fn new(timer: &Timer, filler: &str) -> Result<Self> {
        let state = EndState::parse(timer.state().as_str())
            .context("the server answered a state that is none")?;
        let mark = timer.payload_text.as_deref().and_then(|text| mark_of(text, filler));
        Ok(Self { state, due_ms: unix_ms(timer.due_at.as_ref()), mark })
    }
}

#[cfg(test)]
mod tests {
    use duly_api::BatchResponse;
    use duly_checker::history::Due;

    use super::*;

    #[test]
    fn an_answer_is_read_from_a_result_of_a_batch() {
        let due_at = "2023-11-14T22:13:20.123Z";
        let timer = |marks: &str| {
            format!(
                r#"{{"timer": {{"namespace": "a", "id": "7", "state": "scheduled", "due_at": "{due_at}", "attempts": 0{marks}}}}}"#
            )
        };
        let due_ms = 1_700_000_000_123;
        let schedule = Action::Schedule { mark: 7, due: Due::At(due_ms) };
        let change = Action::Reschedule { mark: None, due: Some(Due::At(due_ms)) };
        let error = |code| {
            format!(
                r#"{{"error": {{"type": "", "title": "", "status": 400, "code": "{code}", "detail": ""}}}}"#
            )
        };
        let cancelled = r#"{"outcome": "cancelled", "attempts": 2, "maybe_delivered": true}"#;
        for (action, result, answer) in [
            (schedule, timer(""), Answer::Created { due_ms }),
            (schedule, timer(r#", "existing": true"#), Answer::Unchanged),
            (schedule, timer(r#", "replaced": true"#), Answer::Replaced { due_ms }),
            (change, timer(""), Answer::Changed { due_ms }),
            (
                Action::Cancel,
                cancelled.to_owned(),
                Answer::Cancelled { attempts: 2, maybe_delivered: true },
            ),
            (change, error("not_found"), Answer::Refused),
            (change, error("aborted"), Answer::InDoubt),
        ] {
            let body = format!(r#"{{"results": [{result}]}}"#);
            let response: BatchResponse = serde_json::from_str(&body).unwrap();
            let ask = Ask { number: 7, action, replaces: false };
            let [result] = <[_; 1]>::try_from(response.results).unwrap();
            assert_eq!(ask.answer(result), answer, "{body}");
        }
    }

    #[test]
    fn only_complete_payloads_have_a_mark() {
        let filler = "0123456789abcdef0123";
        for mark in [0, 7, u64::MAX] {
            let payload = marked(mark, filler);
            assert_eq!(payload.len(), filler.len());
            assert_eq!(mark_of(payload.as_bytes(), filler), Some(mark));
            for cut in 0..payload.len() {
                assert_eq!(mark_of(&payload.as_bytes()[..cut], filler), None, "cut at {cut}");
            }
        }
        assert_eq!(mark_of(marked(7, "").as_bytes(), ""), Some(7));
        assert_eq!(mark_of(b"000000000000000701x3", filler), None);
    }
}
