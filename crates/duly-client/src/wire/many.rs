//! Requests on many timers.

use duly_core::Invalid;
use duly_proto::v1;

use super::time::{duration_out, state_out, time_out};
use crate::{
    list::Filter,
    many::{Letters, Redrive},
};

/// What fits; how long a page is belongs to lists.
pub(crate) fn filter_out(filter: Filter) -> Result<v1::CancelFilter, Invalid> {
    let time = |field, time: Option<_>| time.map(|time| time_out(field, time)).transpose();
    Ok(v1::CancelFilter {
        tag: filter.tag,
        id_prefix: filter.id_prefix,
        due_from: time("filter.due_from", filter.due_from)?,
        due_to: time("filter.due_to", filter.due_to)?,
        state: filter.state.map_or(v1::State::Unspecified, state_out).into(),
    })
}

/// Which letters to send again.
pub(crate) fn redrive_out(namespace: String, redrive: Redrive) -> v1::RedriveRequest {
    use v1::redrive_request::Which;
    let which = match redrive.letters {
        Letters::Ids(names) => Which::Ids(v1::DeadLetterNames { names }),
        Letters::DeliveryIds(names) => Which::DeliveryIds(v1::DeadLetterNames { names }),
        Letters::All => Which::All(true),
    };
    v1::RedriveRequest {
        namespace,
        which: Some(which),
        cursor: None,
        delay: redrive.delay.map(duration_out),
        per_second: redrive.per_second,
    }
}

/// Which letters to drop.
pub(crate) fn purge_out(namespace: String, letters: Letters) -> v1::PurgeRequest {
    use v1::purge_request::Which;
    let which = match letters {
        Letters::Ids(names) => Which::Ids(v1::DeadLetterNames { names }),
        Letters::DeliveryIds(names) => Which::DeliveryIds(v1::DeadLetterNames { names }),
        Letters::All => Which::All(true),
    };
    v1::PurgeRequest { namespace, which: Some(which), cursor: None }
}
