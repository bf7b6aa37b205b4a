//! Which timers to list.

use duly_core::{Invalid, NamespaceName, State};
use duly_proto::v1;
use duly_store::query::{ListRequest, ListState, PAGE_BYTES};

use super::{known, operation::integer, time::time_in};
use crate::http::timers::list::page_limit;

/// What a caller wants to list, without the place that its cursor names.
pub(crate) fn list_in(
    namespace: NamespaceName,
    request: v1::ListRequest,
) -> Result<ListRequest, Invalid> {
    let time = |name: &str, time: Option<prost_types::Timestamp>| {
        time.map(|time| time_in(name, time)?.check(name)).transpose()
    };
    Ok(ListRequest {
        namespace,
        state: state_in(known("state", request.state)?).map_or(ListState::Pending, ListState::Only),
        due_from: time("due_from", request.due_from)?,
        due_to: time("due_to", request.due_to)?,
        id_prefix: request.id_prefix,
        tag: request.tag,
        limit: page_limit(integer(request.limit))?,
        bytes_max: PAGE_BYTES,
        after: None,
    })
}

/// The state that a number stands for; none where it is not said.
pub(super) const fn state_in(state: v1::State) -> Option<State> {
    Some(match state {
        v1::State::Unspecified => return None,
        v1::State::Scheduled => State::Scheduled,
        v1::State::Due => State::Due,
        v1::State::InFlight => State::InFlight,
        v1::State::Retrying => State::Retrying,
        v1::State::Finished => State::Finished,
        v1::State::Dead => State::Dead,
        v1::State::Cancelled => State::Cancelled,
    })
}
