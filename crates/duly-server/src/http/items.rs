//! What a call of many items holds: operations of a batch, or timers of an import. The two differ in
//! how an item is read; whatever else is done with many of them is done alike in [`super::batch`] and
//! [`super::lines`].

use duly_api::{
    Operation as Message, OperationResult, Source,
    batch::Batch,
    json,
    moved::{Import, ImportResult, MovedTimer},
};
use duly_core::{Invalid, NamespaceName};
use duly_store::{Answer, Command, Operation, Outcome};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    App,
    refused::{Asked, Sent},
};
use crate::{http::Problem, messages};

/// What the items of a call are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    /// Operations on timers.
    Operations,
    /// Timers of another server.
    Timers,
}

impl Items {
    /// The field of a document that holds them.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Timers => "timers",
        }
    }

    /// The items of a document.
    pub(super) fn of(self, text: &[u8]) -> Result<Vec<&RawValue>, Invalid> {
        match self {
            Self::Operations => json::parse_body::<Batch>(text).map(|body| body.operations),
            Self::Timers => json::parse_body::<Import>(text).map(|body| body.timers),
        }
    }

    /// Reads one item. `trace_parent` is that of the call, for what it makes.
    pub(super) fn command(
        self,
        app: &App,
        namespace: &NamespaceName,
        text: &[u8],
        trace_parent: Option<&str>,
    ) -> Result<(Command, Sent), Invalid> {
        let mut when = None;
        let operation = match self {
            Self::Operations => {
                let message: Message = json::parse(text)?;
                when = message.when_text().map(Box::from);
                let mut operation = message.check(Source::Json, || app.make_id())?;
                if let Operation::Schedule { schedule, .. } = &mut operation {
                    schedule.trace_parent = trace_parent.map(str::to_owned);
                }
                operation
            }
            Self::Timers => {
                let timer = Box::new(json::parse::<MovedTimer>(text)?.check()?);
                Operation::Import { timer }
            }
        };
        app.check_operation(&operation)?;
        let sent = Sent { asked: Asked::by(&operation), when };
        Ok((Command { namespace: namespace.clone(), operation, answer: Answer::Brief }, sent))
    }

    /// Returns the result of one item; `path` stands in front of a field at fault.
    pub(super) fn result(self, sent: Sent, outcome: &Outcome, path: &str) -> ItemResult {
        match self {
            Self::Operations => ItemResult::Operation(messages::result(sent, outcome, path)),
            Self::Timers => ItemResult::Timer(messages::imported(outcome, path)),
        }
    }

    /// Returns the result of an item that was refused.
    pub(super) fn refusal(self, problem: Problem) -> ItemResult {
        match self {
            Self::Operations => ItemResult::Operation(messages::refusal(problem)),
            Self::Timers => ItemResult::Timer(messages::not_imported(problem)),
        }
    }
}

/// Result of one item.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ItemResult {
    /// Of an operation.
    Operation(OperationResult),
    /// Of a timer of another server.
    Timer(ImportResult),
}

impl ItemResult {
    /// Returns whether the item was refused.
    pub(super) const fn is_refused(&self) -> bool {
        match self {
            Self::Operation(result) => result.error.is_some(),
            Self::Timer(result) => result.error.is_some(),
        }
    }
}
