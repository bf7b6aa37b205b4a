//! A problem as the result of one item.

use duly_core::{Millis, State};
use duly_proto::v1;

use super::{
    super::ProblemOut,
    time::{duration_out, time_out},
};

/// Why an item was refused.
pub(crate) fn problem_out(problem: ProblemOut) -> v1::Problem {
    v1::Problem {
        code: problem.code().as_str().to_owned(),
        detail: problem.detail,
        field: problem.field,
        seen: problem.seen,
        allowed: problem.allowed,
        retry_after: problem.retry_after_ms.map(|ms| duration_out(Millis::from_ms(ms))),
        state: problem.state.map_or(v1::State::Unspecified, state_out).into(),
        leased_until: problem.leased_until.map(|until| time_out(until.0)),
        attempts: problem.attempts,
        maybe_delivered: problem.maybe_delivered,
        expected_revision: problem.expected_revision,
        actual_revision: problem.actual_revision,
    }
}

/// A state in an answer.
pub(crate) const fn state_out(state: State) -> v1::State {
    match state {
        State::Scheduled => v1::State::Scheduled,
        State::Due => v1::State::Due,
        State::InFlight => v1::State::InFlight,
        State::Retrying => v1::State::Retrying,
        State::Finished => v1::State::Finished,
        State::Dead => v1::State::Dead,
        State::Cancelled => v1::State::Cancelled,
    }
}
