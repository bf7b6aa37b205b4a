//! Operations on timers: what a caller asks for, alone or in a batch.

use duly_core::{Invalid, NamespaceName, TimerId};
use duly_proto::v1::{self, operation::Operation, reschedule, schedule};
use duly_store::{Answer, Command};

use super::{
    super::{
        Duration, Field, Integer, OperationIn, PatchIn, ScheduleIn, Time,
        batch::{CancelIn, FireIn},
        schedule::IfExistsIn,
    },
    destination::destination_in,
    headers_in, known,
    payload::payload_in,
    retry::retry_in,
    time::{duration_in, maybe_duration_in, time_in},
};

/// Where a timer's id is chosen that its caller left out.
pub(crate) trait MakeId: FnOnce() -> TimerId {}

impl<F: FnOnce() -> TimerId> MakeId for F {}

/// The command that an operation is; an error names the field below the operation's own name.
pub(crate) fn command(
    namespace: &NamespaceName,
    operation: Option<Operation>,
    answer: Answer,
    make_id: impl MakeId,
) -> Result<Command, Invalid> {
    let mut read = OperationIn::default();
    match operation {
        None => {}
        Some(Operation::Schedule(schedule)) => {
            let schedule = schedule_in(schedule).map_err(|i| i.within("schedule"))?;
            read.schedule = Some(schedule);
        }
        Some(Operation::Cancel(cancel)) => {
            let if_revision = integer(cancel.if_revision);
            read.cancel = Some(CancelIn { id: cancel.id, if_revision });
        }
        Some(Operation::Reschedule(change)) => {
            let change = reschedule_in(change).map_err(|i| i.within("reschedule"))?;
            read.reschedule = Some(change);
        }
        Some(Operation::Fire(fire)) => read.fire = Some(FireIn { id: fire.id }),
    }
    let command = read.check(namespace, make_id)?;
    Ok(Command { answer, ..command })
}

fn schedule_in(schedule: v1::Schedule) -> Result<ScheduleIn<'static>, Invalid> {
    let (due_at, delay) = match schedule.when {
        None => (None, None),
        Some(schedule::When::DueAt(at)) => (Some(time_in("due_at", at)?), None),
        Some(schedule::When::Delay(delay)) => (None, Some(duration_in("delay", delay)?)),
    };
    let if_exists = match known("if_exists", schedule.if_exists)? {
        v1::IfExists::Unspecified => None,
        v1::IfExists::Fail => Some(IfExistsIn::Fail),
        v1::IfExists::Keep => Some(IfExistsIn::Keep),
        v1::IfExists::Replace => Some(IfExistsIn::Replace),
    };
    Ok(ScheduleIn {
        id: schedule.id,
        due_at,
        delay,
        payload_given: payload_in(schedule.payload, schedule.payload_form)?,
        headers: headers_in(schedule.headers),
        tags: (!schedule.tags.is_empty()).then_some(schedule.tags),
        slot_key: schedule.slot_key,
        destination: schedule
            .destination
            .map(|it| destination_in("destination", it))
            .transpose()?,
        retry: schedule.retry.map(|it| retry_in("retry", it)).transpose()?,
        expire_after: maybe_duration_in("expire_after", schedule.expire_after)?,
        if_exists,
        ..ScheduleIn::default()
    })
}

fn reschedule_in(change: v1::Reschedule) -> Result<PatchIn<'static>, Invalid> {
    let (due_at, delay): (Field<Time>, Field<Duration>) = match change.when {
        None => (Field::Absent, Field::Absent),
        Some(reschedule::When::DueAt(at)) => (Field::Value(time_in("due_at", at)?), Field::Absent),
        Some(reschedule::When::Delay(delay)) => {
            (Field::Absent, Field::Value(duration_in("delay", delay)?))
        }
    };
    let mut read = PatchIn {
        id: Some(change.id),
        due_at,
        delay,
        payload_given: payload_in(change.payload, change.payload_form)?,
        headers: given(change.headers.map(|it| headers_in(it.headers).unwrap_or_default())),
        tags: given(change.tags.map(|it| it.tags)),
        destination: given(
            change.destination.map(|it| destination_in("destination", it)).transpose()?,
        ),
        retry: given(change.retry.map(|it| retry_in("retry", it)).transpose()?),
        if_revision: integer(change.if_revision),
        ..PatchIn::default()
    };
    for (i, number) in change.reset.into_iter().enumerate() {
        let field = format!("reset[{i}]");
        match known(&field, number)? {
            v1::TimerField::Unspecified => {
                return Err(Invalid::unseen(field, "the name of a field"));
            }
            v1::TimerField::Payload if read.payload_given.is_some() => {
                return Err(given_and_reset(field, "payload"));
            }
            v1::TimerField::Payload => read.payload = Field::Null,
            v1::TimerField::Headers => reset(&mut read.headers, field, "headers")?,
            v1::TimerField::Tags => reset(&mut read.tags, field, "tags")?,
            v1::TimerField::Destination => reset(&mut read.destination, field, "destination")?,
            v1::TimerField::Retry => reset(&mut read.retry, field, "retry")?,
        }
    }
    Ok(read)
}

/// A whole number that may be absent.
pub(crate) fn integer(number: Option<impl Into<i128>>) -> Option<Integer> {
    number.map(|number| Integer(number.into()))
}

/// A field of a change that is left alone where nothing is given.
pub(super) fn given<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Absent, Field::Value)
}

/// Brings a field back to its default, unless a value is given for it.
pub(super) fn reset<T>(place: &mut Field<T>, field: String, name: &str) -> Result<(), Invalid> {
    if matches!(place, Field::Value(_)) {
        return Err(given_and_reset(field, name));
    }
    *place = Field::Null;
    Ok(())
}

fn given_and_reset(field: String, name: &str) -> Invalid {
    Invalid::new(field, name, format!("left out where {name} is given"))
}
