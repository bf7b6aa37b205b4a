//! What a call of many items holds: operations of a batch, or timers of an import. The two differ in
//! how an item is read; whatever else is done with many of them is done alike in [`super::batch`] and
//! [`super::lines`].

use duly_core::{Invalid, NamespaceName};
use duly_store::{Answer, Command, Operation};
use serde_json::value::RawValue;

use super::App;
use crate::wire::{BatchIn, ImportIn, OperationIn, TransportIn, json};

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
            Self::Operations => json::parse_body::<BatchIn>(text).map(|body| body.operations),
            Self::Timers => json::parse_body::<ImportIn>(text).map(|body| body.timers),
        }
    }

    /// Reads one item. `trace_parent` is that of the call, for what it makes.
    pub(super) fn command(
        self,
        app: &App,
        namespace: &NamespaceName,
        text: &[u8],
        trace_parent: Option<&str>,
    ) -> Result<Command, Invalid> {
        match self {
            Self::Operations => {
                let operation: OperationIn = json::parse(text)?;
                let mut command = operation.check(namespace, || app.make_id())?;
                app.check_operation(&command.operation)?;
                if let Operation::Schedule { schedule, .. } = &mut command.operation {
                    schedule.trace_parent = trace_parent.map(str::to_owned);
                }
                Ok(command)
            }
            Self::Timers => {
                let timer = Box::new(json::parse::<TransportIn>(text)?.check()?);
                let operation = Operation::Import { timer };
                app.check_operation(&operation)?;
                Ok(Command { namespace: namespace.clone(), operation, answer: Answer::Brief })
            }
        }
    }
}
