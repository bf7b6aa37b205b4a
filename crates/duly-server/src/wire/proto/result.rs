//! What became of operations.

use duly_proto::v1::{self, ScheduleOutcome, operation_result::Result as Kind};
use duly_store::{Operation, Outcome, TimerView};

use super::{problem::problem_out, timer::timer_out};
use crate::http::{Problem, refused::Asked};

/// What is answered to one operation.
pub(crate) type Answered = Result<Kind, Problem>;

/// What became of an operation; `path` is its place in the message, in front of a field at fault.
pub(crate) fn answered(asked: Asked, outcome: Outcome, path: &str) -> Answered {
    let scheduled = |view: &TimerView, outcome: ScheduleOutcome| {
        let timer = Some(timer_out(view));
        Ok(Kind::Scheduled(v1::ScheduleResponse { timer, outcome: outcome.into() }))
    };
    match outcome {
        Outcome::Created(view) => scheduled(&view, ScheduleOutcome::Created),
        Outcome::Existing(view) => scheduled(&view, ScheduleOutcome::Existing),
        Outcome::Replaced(view) => scheduled(&view, ScheduleOutcome::Replaced),
        Outcome::Changed(view) | Outcome::Unchanged(view) => Ok(Kind::Timer(timer_out(&view))),
        Outcome::Cancelled { attempts, maybe_delivered, already } => {
            Ok(Kind::Cancelled(v1::CancelResponse { attempts, maybe_delivered, already }))
        }
        Outcome::Refused(refusal) => Err(Problem::refused(refusal, asked, path)),
        Outcome::Failed(error) => Err(error.into()),
        Outcome::Purged => Err(Problem::fault("an outcome of another kind")),
    }
}

/// One result of a batch.
pub(crate) fn result_out(answered: Answered) -> v1::OperationResult {
    let kind = answered.unwrap_or_else(|problem| Kind::Error(problem_out(*problem.into_body())));
    v1::OperationResult { result: Some(kind) }
}

/// The path of a lone operation in its request.
pub(crate) const fn path_of(operation: &Operation) -> &'static str {
    Asked::by(operation).name()
}
