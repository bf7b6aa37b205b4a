//! Requests on timers.

use duly_core::{Invalid, TimerId};
use duly_proto::v1;

use super::{
    destination::{destination_out, retry_out},
    headers_out,
    time::{duration_out, state_out, time_out},
};
use crate::{
    change::{Change, TimerField},
    list::Filter,
    operation::Operation,
    payload::{Payload, PayloadForm},
    pull::{Settlement, Verdict},
    schedule::{IfExists, Schedule, When},
};

/// Checks an id, and takes it.
pub(crate) fn id_out(id: &str) -> Result<String, Invalid> {
    Ok(TimerId::new(id)?.as_str().to_owned())
}

fn payload_out(payload: Option<Payload>) -> (Option<bytes::Bytes>, i32) {
    let Some(payload) = payload else { return (None, v1::PayloadForm::Unspecified.into()) };
    let form = match payload.form {
        PayloadForm::Bytes => v1::PayloadForm::Bytes,
        PayloadForm::Text => v1::PayloadForm::Text,
        PayloadForm::Json => v1::PayloadForm::Json,
    };
    (Some(payload.bytes), form.into())
}

/// The schedule of a timer; one without an id gets `own_id`.
pub(crate) fn schedule_out(
    schedule: Schedule,
    own_id: impl FnOnce() -> String,
) -> Result<v1::Schedule, Invalid> {
    if let Some(invalid) = schedule.invalid {
        return Err(invalid);
    }
    let id = match schedule.id {
        Some(id) => id_out(&id)?,
        None => own_id(),
    };
    let when = match schedule.when {
        When::At(due_at) => v1::schedule::When::DueAt(time_out("due_at", due_at)?),
        When::After(delay) => v1::schedule::When::Delay(duration_out(delay)),
    };
    let (payload, payload_form) = payload_out(schedule.payload);
    let if_exists = match schedule.if_exists {
        IfExists::Fail => v1::IfExists::Fail,
        IfExists::Keep => v1::IfExists::Keep,
        IfExists::Replace => v1::IfExists::Replace,
    };
    Ok(v1::Schedule {
        id: Some(id),
        when: Some(when),
        payload,
        payload_form,
        headers: headers_out(schedule.headers),
        tags: schedule.tags,
        slot_key: schedule.slot_key,
        destination: schedule.destination.map(destination_out),
        retry: schedule.retry.map(retry_out),
        expire_after: schedule.expire_after.map(duration_out),
        if_exists: if_exists.into(),
    })
}

/// A change of a timer.
pub(crate) fn change_out(id: &str, change: Change) -> Result<v1::Reschedule, Invalid> {
    let when = match change.when {
        Some(When::At(due_at)) => Some(v1::reschedule::When::DueAt(time_out("due_at", due_at)?)),
        Some(When::After(delay)) => Some(v1::reschedule::When::Delay(duration_out(delay))),
        None => None,
    };
    let (payload, payload_form) = payload_out(change.payload);
    let reset = change.reset.into_iter().map(|field| match field {
        TimerField::Payload => v1::TimerField::Payload,
        TimerField::Headers => v1::TimerField::Headers,
        TimerField::Tags => v1::TimerField::Tags,
        TimerField::Destination => v1::TimerField::Destination,
        TimerField::Retry => v1::TimerField::Retry,
    });
    Ok(v1::Reschedule {
        id: id_out(id)?,
        when,
        payload,
        payload_form,
        headers: change.headers.map(|headers| v1::HeaderList { headers: headers_out(headers) }),
        tags: change.tags.map(|tags| v1::TagList { tags }),
        destination: change.destination.map(destination_out),
        retry: change.retry.map(retry_out),
        reset: reset.map(Into::into).collect(),
        if_revision: change.if_revision,
    })
}

/// An operation of a batch; a schedule without an id gets `own_id`.
pub(crate) fn operation_out(
    operation: Operation,
    own_id: impl FnOnce() -> String,
) -> Result<v1::operation::Operation, Invalid> {
    use v1::operation::Operation as Kind;
    Ok(match operation {
        Operation::Schedule(schedule) => Kind::Schedule(schedule_out(*schedule, own_id)?),
        Operation::Reschedule { id, change } => Kind::Reschedule(change_out(&id, *change)?),
        Operation::Cancel { id, if_revision } => {
            Kind::Cancel(v1::Cancel { id: id_out(&id)?, if_revision })
        }
        Operation::Fire { id } => Kind::Fire(v1::Fire { id: id_out(&id)? }),
    })
}

/// The first page of a list.
pub(crate) fn list_out(namespace: String, filter: Filter) -> Result<v1::ListRequest, Invalid> {
    let time = |field, time: Option<_>| time.map(|time| time_out(field, time)).transpose();
    Ok(v1::ListRequest {
        namespace,
        state: filter.state.map_or(v1::State::Unspecified, state_out).into(),
        due_from: time("due_from", filter.due_from)?,
        due_to: time("due_to", filter.due_to)?,
        id_prefix: filter.id_prefix,
        tag: filter.tag,
        limit: filter.page,
        cursor: None,
    })
}

/// A verdict on a firing.
pub(crate) fn settlement_out(settlement: Settlement) -> v1::Settlement {
    use v1::settlement::Verdict as Kind;
    let verdict = match settlement.verdict {
        Verdict::Ack => Kind::Ack(v1::Ack {}),
        Verdict::Retry { after, reason } => {
            Kind::Retry(v1::RetryVerdict { after: after.map(duration_out), reason })
        }
        Verdict::Dead { reason } => Kind::Dead(v1::DeadVerdict { reason }),
        Verdict::Extend { lease } => {
            Kind::Extend(v1::ExtendVerdict { lease: Some(duration_out(lease)) })
        }
    };
    v1::Settlement { token: settlement.token, verdict: Some(verdict) }
}
