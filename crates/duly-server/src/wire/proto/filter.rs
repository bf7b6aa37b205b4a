//! Cancelling by filter.

use duly_core::Invalid;
use duly_proto::v1::{self, cancel_many_request::Which};

use super::{
    super::{BulkCancelIn, BulkCancelledOut, bulk::FilterIn},
    known,
    list::state_in,
    operation::integer,
    time::{time_in, time_out},
};

/// Which timers to cancel, as a caller wrote it.
pub(crate) fn cancel_in(request: v1::CancelManyRequest) -> Result<BulkCancelIn, Invalid> {
    let (filter, all) = match request.which {
        None => (None, None),
        Some(Which::Filter(filter)) => {
            (Some(filter_in(filter).map_err(|invalid| invalid.within("filter"))?), None)
        }
        Some(Which::All(all)) => (None, Some(all)),
    };
    Ok(BulkCancelIn {
        filter,
        all,
        limit: integer(request.limit),
        cursor: request.cursor,
        dry_run: request.dry_run.then_some(true),
    })
}

fn filter_in(filter: v1::CancelFilter) -> Result<FilterIn, Invalid> {
    let time = |name: &str, time: Option<prost_types::Timestamp>| {
        time.map(|time| time_in(name, time)).transpose()
    };
    Ok(FilterIn {
        tag: filter.tag,
        id_prefix: filter.id_prefix,
        due_from: time("due_from", filter.due_from)?,
        due_to: time("due_to", filter.due_to)?,
        state: state_in(known("state", filter.state)?).map(|state| state.as_str().to_owned()),
    })
}

/// What a call cancelled. Whether it was a dry run its caller knows.
pub(crate) fn cancelled_out(out: BulkCancelledOut) -> v1::CancelManyResponse {
    let BulkCancelledOut {
        cancelled,
        maybe_delivered,
        skipped,
        dry_run: _,
        cursor,
        examined,
        up_to,
    } = out;
    let up_to = up_to.map(|up_to| time_out(up_to.0));
    v1::CancelManyResponse { cancelled, maybe_delivered, skipped, cursor, examined, up_to }
}
