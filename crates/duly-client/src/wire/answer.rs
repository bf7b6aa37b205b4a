//! Answers about timers and firings.

use duly_proto::v1;

use super::{
    destination::{destination_in, retry_in},
    headers_in, required,
    time::{duration_from, state_from, time_from},
};
use crate::{
    error::{Error, of_problem},
    operation::Done,
    payload::{Payload, PayloadForm},
    pull::{Firing, Leased, Settled},
    timer::{Attempt, Cancelled, Outcome, Scheduled, Timer},
};

fn payload_in(bytes: Option<bytes::Bytes>, form: i32) -> Result<Option<Payload>, Error> {
    let Some(bytes) = bytes else { return Ok(None) };
    let form = match v1::PayloadForm::try_from(form) {
        Ok(v1::PayloadForm::Unspecified | v1::PayloadForm::Bytes) => PayloadForm::Bytes,
        Ok(v1::PayloadForm::Text) => PayloadForm::Text,
        Ok(v1::PayloadForm::Json) => PayloadForm::Json,
        Err(_) => return Err(Error::answer(format!("{form} is no known form of a payload"))),
    };
    Ok(Some(Payload { bytes, form }))
}

/// A word of the contract out of the name of a number: `DEAD_REASON_EXPIRED` is `expired`.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

pub(crate) fn timer_in(timer: v1::Timer) -> Result<Timer, Error> {
    let state = state_from(timer.state)
        .ok_or_else(|| Error::answer(format!("{} is no known state", timer.state)))?;
    let dead_reason = match timer.dead_reason() {
        v1::DeadReason::Unspecified => None,
        reason => Some(word(reason.as_str_name(), "DEAD_REASON_")),
    };
    let attempts = timer.history.into_iter().map(|attempt| Attempt {
        attempt: attempt.attempt,
        at: attempt.at.and_then(time_from),
        outcome: word(attempt.outcome().as_str_name(), "ATTEMPT_OUTCOME_"),
        reason: attempt.reason,
    });
    Ok(Timer {
        namespace: timer.namespace,
        id: timer.id,
        state,
        tombstone: timer.tombstone,
        due_at: timer.due_at.and_then(time_from),
        revision: timer.revision,
        occurrence: timer.occurrence,
        delivery_id: timer.delivery_id,
        payload: payload_in(timer.payload, timer.payload_form)?,
        headers: headers_in(timer.headers),
        tags: timer.tags,
        slot_key: timer.slot_key,
        destination: timer.destination.map(destination_in).transpose()?,
        retry: timer.retry.map(retry_in),
        expire_after: timer.expire_after.map(duration_from),
        created_at: timer.created_at.and_then(time_from),
        updated_at: timer.updated_at.and_then(time_from),
        attempts: timer.attempts,
        maybe_delivered: timer.maybe_delivered,
        next_attempt_at: timer.next_attempt_at.and_then(time_from),
        leased_until: timer.leased_until.and_then(time_from),
        last_error: timer.last_error,
        history: attempts.collect(),
        fired_at: timer.fired_at.and_then(time_from),
        finished_at: timer.finished_at.and_then(time_from),
        cancelled_at: timer.cancelled_at.and_then(time_from),
        dead_at: timer.dead_at.and_then(time_from),
        dead_reason,
    })
}

pub(crate) fn scheduled_in(response: v1::ScheduleResponse) -> Result<Scheduled, Error> {
    let outcome = match response.outcome() {
        v1::ScheduleOutcome::Created => Outcome::Created,
        v1::ScheduleOutcome::Existing => Outcome::Existing,
        v1::ScheduleOutcome::Replaced => Outcome::Replaced,
        v1::ScheduleOutcome::Unspecified => {
            return Err(Error::answer(format!("{} is no known outcome", response.outcome)));
        }
    };
    Ok(Scheduled { outcome, timer: timer_in(required("timer", response.timer)?)? })
}

/// What became of one operation of a batch.
pub(crate) fn done_in(kind: v1::operation_result::Result) -> Result<Done, Error> {
    use v1::operation_result::Result as Kind;
    match kind {
        Kind::Scheduled(response) => Ok(Done::Scheduled(Box::new(scheduled_in(response)?))),
        Kind::Timer(timer) => Ok(Done::Changed(Box::new(timer_in(timer)?))),
        Kind::Cancelled(response) => Ok(Done::Cancelled(cancelled_in(response))),
        Kind::Error(problem) => Err(of_problem(problem)),
    }
}

pub(crate) const fn cancelled_in(response: v1::CancelResponse) -> Cancelled {
    let v1::CancelResponse { attempts, maybe_delivered, already } = response;
    Cancelled { attempts, maybe_delivered, already }
}

pub(crate) fn firing_in(firing: v1::Firing) -> Result<Firing, Error> {
    Ok(Firing {
        payload: payload_in(firing.payload, firing.payload_form)?,
        token: firing.token,
        delivery_id: firing.delivery_id,
        id: firing.id,
        occurrence: firing.occurrence,
        attempt: firing.attempt,
        due_at: firing.due_at.and_then(time_from),
        leased_until: firing.leased_until.and_then(time_from),
        headers: headers_in(firing.headers),
        slot_key: firing.slot_key,
    })
}

pub(crate) fn leased_in(response: v1::LeaseResponse) -> Result<Leased, Error> {
    let firings = response.firings.into_iter().map(firing_in);
    Ok(Leased { firings: firings.collect::<Result<_, _>>()?, paused: response.paused })
}

/// What became of one settlement.
pub(crate) fn settled_in(result: v1::SettleResult) -> Result<Settled, Error> {
    let number = match required("result of a settlement", result.result)? {
        v1::settle_result::Result::Outcome(number) => number,
        v1::settle_result::Result::Error(problem) => return Err(of_problem(problem)),
    };
    match v1::SettleOutcome::try_from(number) {
        Ok(v1::SettleOutcome::Ok) => Ok(Settled::Done),
        Ok(v1::SettleOutcome::Dead) => Ok(Settled::Dead),
        Ok(v1::SettleOutcome::AlreadySettled) => Ok(Settled::Already),
        Ok(v1::SettleOutcome::LeaseLost) => Ok(Settled::LeaseLost),
        Ok(v1::SettleOutcome::InvalidToken) => Ok(Settled::InvalidToken),
        Ok(v1::SettleOutcome::Unspecified) | Err(_) => {
            Err(Error::answer(format!("{number} is no known outcome of a settlement")))
        }
    }
}
