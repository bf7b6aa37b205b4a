//! Dead letters.

use duly_core::Invalid;
use duly_proto::v1;

use super::{
    super::{
        DeadLetteredOut, OverdueIn, PurgeIn, PurgedOut, RedriveIn, RedrivenOut,
        letters::DeadLetterErrorOut,
    },
    problem::problem_out,
    time::{maybe_duration_in, time_in, time_out},
};

/// Which letters to send again, as a caller wrote it.
pub(crate) fn redrive_in(request: v1::RedriveRequest) -> Result<RedriveIn, Invalid> {
    use v1::redrive_request::Which;
    let mut read = RedriveIn {
        cursor: request.cursor,
        delay: maybe_duration_in("delay", request.delay)?,
        per_second: request.per_second,
        ..RedriveIn::default()
    };
    match request.which {
        None => {}
        Some(Which::Ids(ids)) => read.ids = Some(ids.names),
        Some(Which::DeliveryIds(ids)) => read.delivery_ids = Some(ids.names),
        Some(Which::All(all)) => read.all = Some(all),
    }
    Ok(read)
}

/// Which letters to drop, as a caller wrote it.
pub(crate) fn purge_in(request: v1::PurgeRequest) -> PurgeIn {
    use v1::purge_request::Which;
    let mut read = PurgeIn { cursor: request.cursor, ..PurgeIn::default() };
    match request.which {
        None => {}
        Some(Which::Ids(ids)) => read.ids = Some(ids.names),
        Some(Which::DeliveryIds(ids)) => read.delivery_ids = Some(ids.names),
        Some(Which::All(all)) => read.all = Some(all),
    }
    read
}

/// Which timers to give up, as a caller wrote it.
pub(crate) fn overdue_in(request: v1::DeadLetterOverdueRequest) -> Result<OverdueIn, Invalid> {
    let due_by = request.due_by.map(|time| time_in("due_by", time)).transpose()?;
    Ok(OverdueIn { due_by, cursor: request.cursor })
}

/// What a redrive did.
pub(crate) fn redriven_out(out: RedrivenOut) -> v1::RedriveResponse {
    let RedrivenOut { redriven, cursor, errors } = out;
    v1::RedriveResponse { redriven, cursor, errors: errors_out(errors) }
}

/// What a purge did.
pub(crate) fn purged_out(out: PurgedOut) -> v1::PurgeResponse {
    let PurgedOut { purged, cursor, errors } = out;
    v1::PurgeResponse { purged, cursor, errors: errors_out(errors) }
}

/// What was given up.
pub(crate) fn given_up_out(out: DeadLetteredOut) -> v1::DeadLetterOverdueResponse {
    let DeadLetteredOut { dead_lettered, due_by, cursor } = out;
    v1::DeadLetterOverdueResponse { dead_lettered, due_by: Some(time_out(due_by.0)), cursor }
}

fn errors_out(errors: Vec<DeadLetterErrorOut>) -> Vec<v1::DeadLetterError> {
    let error = |DeadLetterErrorOut { index, error }: DeadLetterErrorOut| v1::DeadLetterError {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        error: Some(problem_out(error)),
    };
    errors.into_iter().map(error).collect()
}
