//! Batches on the wire: operations are read one by one, so that one that does not parse refuses
//! only itself.

use duly_core::{Invalid, NamespaceName, TimerId};
use duly_store::{Answer, Command, Operation};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    Integer, PatchIn, ScheduleIn, TimerOut, json,
    patch::{Change, IdIn, check_revision},
    problem::ProblemOut,
};

/// Most operations of one batch.
pub const OPERATIONS_MAX: usize = 10_000;
/// What an operation must be.
const ONE_OPERATION: &str = "one with exactly one of schedule, cancel, reschedule, fire";

/// Operations on timers of one namespace. One id's operations run in order; items are independent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Batch)]
pub struct BatchIn<'a> {
    /// The operations, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<OperationIn>)]
    pub operations: Vec<&'a RawValue>,
}

/// Exactly one operation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Operation)]
pub struct OperationIn<'a> {
    /// Schedule a timer.
    #[serde(borrow)]
    pub(super) schedule: Option<ScheduleIn<'a>>,
    /// Cancel a timer.
    pub(super) cancel: Option<CancelIn>,
    /// Change a pending timer; `id` is required.
    #[serde(borrow)]
    pub(super) reschedule: Option<PatchIn<'a>>,
    /// Make a timer due now, or its next attempt.
    pub(super) fire: Option<FireIn>,
}

/// Which timer to cancel.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Cancel)]
pub struct CancelIn {
    /// Its id.
    pub(super) id: String,
    /// Only if it has this revision; checked before its state.
    pub(super) if_revision: Option<Integer>,
}

/// Which timer to fire.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Fire)]
pub struct FireIn {
    /// Its id.
    pub(super) id: String,
}

impl OperationIn<'_> {
    /// Checks it.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one operation.
    pub fn check(
        self,
        namespace: &NamespaceName,
        make_id: impl FnOnce() -> TimerId,
    ) -> Result<Command, Invalid> {
        let operation = match (self.schedule, self.cancel, self.reschedule, self.fire) {
            (Some(schedule), None, None, None) => {
                let (schedule, if_exists) =
                    schedule.check(make_id).map_err(|invalid| invalid.within("schedule"))?;
                Operation::Schedule { schedule: Box::new(schedule), if_exists }
            }
            (None, Some(cancel), None, None) => {
                cancel.check().map_err(|invalid| invalid.within("cancel"))?
            }
            (None, None, Some(change), None) => {
                reschedule(change).map_err(|invalid| invalid.within("reschedule"))?
            }
            (None, None, None, Some(fire)) => Operation::Fire {
                id: TimerId::new(&fire.id).map_err(|invalid| invalid.within("fire"))?,
            },
            _ => return Err(Invalid::unseen("", ONE_OPERATION)),
        };
        Ok(Command { namespace: namespace.clone(), operation, answer: Answer::Brief })
    }
}

impl CancelIn {
    fn check(self) -> Result<Operation, Invalid> {
        Ok(Operation::Cancel {
            id: TimerId::new(&self.id)?,
            if_revision: check_revision(self.if_revision)?,
        })
    }
}

fn reschedule(change: PatchIn<'_>) -> Result<Operation, Invalid> {
    let change = change.check(IdIn::Body).map_err(|mut invalid| {
        if invalid.field == json::BODY {
            invalid.field.clear();
        }
        invalid
    });
    match change? {
        Change { id: Some(id), patch, if_revision } => {
            Ok(Operation::Reschedule { id, patch: Box::new(patch), if_revision })
        }
        Change { id: None, .. } => Err(Invalid::unseen("id", "given")),
    }
}

/// What became of the operations, in their order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchResults)]
pub struct BatchOut<'a> {
    /// One result for each operation.
    #[schema(value_type = Vec<OperationResultOut>)]
    pub results: Vec<OperationResult<'a>>,
}

/// What became of one operation, or of one imported timer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum OperationResult<'a> {
    /// The timer, for schedule, reschedule and fire.
    Timer {
        /// It.
        timer: Box<TimerOut<'a>>,
    },
    /// For cancel.
    Cancelled(CancelledOut),
    /// For an imported timer.
    Imported {
        /// Always.
        imported: bool,
    },
    /// For an imported timer that has been here before.
    Existing {
        /// Always.
        existing: bool,
        /// Its state here.
        state: &'static str,
    },
    /// It was refused.
    Error {
        /// Why.
        error: Box<ProblemOut>,
    },
}

/// What became of one operation: exactly one of `timer`, `outcome`, `error`; `attempts`,
/// `maybe_delivered` and `already` stand beside `outcome`.
#[derive(Debug, ToSchema)]
#[schema(as = OperationResult)]
#[expect(dead_code, reason = "describes OperationResult in the OpenAPI document")]
pub struct OperationResultOut<'a> {
    /// The timer, for schedule, reschedule and fire.
    timer: Option<TimerOut<'a>>,
    /// `cancelled`, for cancel.
    outcome: Option<String>,
    /// Attempts that were made.
    attempts: Option<u32>,
    /// Whether one of them may have arrived.
    maybe_delivered: Option<bool>,
    /// `true`: it had been cancelled before.
    already: Option<bool>,
    /// Why it was refused.
    error: Option<ProblemOut>,
}

/// Which results of a stream are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Results {
    /// One for each line.
    All,
    /// Those of lines that were refused, and a summary.
    Errors,
}

impl Results {
    /// Reads the query parameter.
    ///
    /// # Errors
    /// When it is another word.
    pub fn parse(text: Option<&str>) -> Result<Option<Self>, Invalid> {
        match text {
            None => Ok(None),
            Some("all") => Ok(Some(Self::All)),
            Some("errors") => Ok(Some(Self::Errors)),
            Some(other) => Err(Invalid::new("results", other, "all or errors")),
        }
    }
}

/// A line of the answer to a stream.
#[derive(Debug, Serialize)]
pub struct LineOut<'a> {
    /// Which line of the request, from 1.
    pub line: u64,
    /// What became of it.
    #[serde(flatten)]
    pub result: OperationResult<'a>,
}

/// The last line of an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LastOut {
    /// Every line was dealt with.
    Summary {
        /// Lines that held an operation.
        lines: u64,
        /// Such as were carried out.
        accepted: u64,
        /// Such as were refused.
        refused: u64,
    },
    /// What comes behind a line was not looked at.
    Stopped {
        /// The last line that was dealt with.
        after_line: u64,
        /// Why.
        error: Box<ProblemOut>,
    },
}

/// A cancelled timer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cancelled)]
pub struct CancelledOut {
    /// Always `cancelled`.
    outcome: &'static str,
    /// Attempts that were made.
    attempts: u32,
    /// Whether one of them may have arrived.
    maybe_delivered: bool,
    /// `true`: it had been cancelled before.
    #[serde(skip_serializing_if = "Option::is_none")]
    already: Option<bool>,
}

impl CancelledOut {
    /// The answer of a cancel that was taken.
    pub const fn new(cancelled: Cancelled) -> Self {
        Self {
            outcome: "cancelled",
            attempts: cancelled.attempts,
            maybe_delivered: cancelled.maybe_delivered,
            already: if cancelled.already { Some(true) } else { None },
        }
    }
}

/// What the store says of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled {
    /// Attempts that were made.
    pub attempts: u32,
    /// Whether one of them may have arrived.
    pub maybe_delivered: bool,
    /// Whether it had been cancelled before.
    pub already: bool,
}
