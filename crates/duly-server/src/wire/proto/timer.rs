//! A timer in an answer. Which fields are shown when is decided in [`TimerOut`].

use duly_core::timer::{Attempt, AttemptOutcome, DeadLetterReason};
use duly_proto::v1;
use duly_store::TimerView;

use super::{
    super::{TimerOut, timer::Mark},
    destination::destination_out,
    headers_out,
    payload::payload_out,
    problem::state_out,
    retry::retry_out,
    time::{duration_out, time_out},
};

/// The answer for a view.
pub(crate) fn timer_out(view: &TimerView) -> v1::Timer {
    let out = TimerOut::new(view, Mark::None);
    let timer = view.timer();
    let (payload, form) = payload_out(timer.and_then(|timer| timer.payload.as_ref()));
    let time = |time: Option<super::super::TimeOut>| time.map(|time| time_out(time.0));
    v1::Timer {
        namespace: out.namespace.to_owned(),
        id: out.id.to_owned(),
        state: state_out(view.state).into(),
        tombstone: out.tombstone.unwrap_or(false),
        due_at: time(out.due_at),
        revision: out.revision,
        occurrence: out.occurrence,
        delivery_id: out.delivery_id,
        payload,
        payload_form: form.into(),
        headers: timer.map(|timer| headers_out(&timer.headers)).unwrap_or_default(),
        tags: out.tags.map(<[String]>::to_vec).unwrap_or_default(),
        slot_key: out.slot_key.map(str::to_owned),
        destination: timer.and_then(|t| t.destination.as_ref()).map(destination_out),
        retry: timer.and_then(|timer| timer.retry.as_ref()).map(retry_out),
        expire_after: timer.and_then(|timer| timer.expire_after).map(duration_out),
        created_at: time(out.created_at),
        updated_at: time(out.updated_at),
        attempts: out.attempts,
        maybe_delivered: out.maybe_delivered.unwrap_or(false),
        next_attempt_at: time(out.next_attempt_at),
        leased_until: time(out.leased_until),
        last_error: out.last_error.map(str::to_owned),
        history: out.history.map_or(&[][..], |it| it.0).iter().map(attempt_out).collect(),
        fired_at: time(out.fired_at),
        finished_at: time(out.finished_at),
        cancelled_at: time(out.cancelled_at),
        dead_at: time(out.dead_at),
        dead_reason: timer
            .and_then(|timer| timer.dead_letter)
            .map_or(v1::DeadReason::Unspecified, |dead_letter| reason_out(dead_letter.reason))
            .into(),
    }
}

fn attempt_out(attempt: &Attempt) -> v1::Attempt {
    let outcome = match attempt.outcome {
        AttemptOutcome::Delivered => v1::AttemptOutcome::Delivered,
        AttemptOutcome::Failed => v1::AttemptOutcome::Failed,
        AttemptOutcome::TimedOut => v1::AttemptOutcome::TimedOut,
        AttemptOutcome::NotConnected => v1::AttemptOutcome::NotConnected,
        AttemptOutcome::ConnectionLost => v1::AttemptOutcome::ConnectionLost,
        AttemptOutcome::LeaseLost => v1::AttemptOutcome::LeaseLost,
        AttemptOutcome::Rejected => v1::AttemptOutcome::Rejected,
    };
    v1::Attempt {
        attempt: attempt.attempt,
        at: Some(time_out(attempt.at)),
        outcome: outcome.into(),
        reason: attempt.reason.clone(),
    }
}

const fn reason_out(reason: DeadLetterReason) -> v1::DeadReason {
    match reason {
        DeadLetterReason::AttemptsSpent => v1::DeadReason::AttemptsSpent,
        DeadLetterReason::Rejected => v1::DeadReason::Rejected,
        DeadLetterReason::Expired => v1::DeadReason::Expired,
        DeadLetterReason::Corrupt => v1::DeadReason::Corrupt,
        DeadLetterReason::Overdue => v1::DeadReason::Overdue,
    }
}
