//! The items of a call: operations of a batch, or timers of an import.
//!
//! The two differ in how an item is read and in the form of its result. [`super::batch`] and
//! [`super::lines`] do everything else for both.

use duly_api::{
    MessageFormat, Operation as Message, OperationResult,
    batch::Batch,
    json,
    moved::{Import, ImportResult, MovedTimer},
};
use duly_core::{Invalid, NamespaceName, access::Action};
use duly_store::{Answer, Command, Operation, Outcome};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    App,
    refusal_texts::{OperationKind, SentOperation},
};
use crate::{call, http::Problem, messages};

/// The kind of the items of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    /// Operations on timers.
    Operations,
    /// Timers of another server.
    Timers,
}

impl Items {
    /// Returns the operation that takes the items, and the right that it needs.
    pub(super) const fn operation(self) -> (&'static str, Action) {
        match self {
            Self::Operations => ("POST /v1/namespaces/{namespace}/batch", Action::Schedule),
            Self::Timers => ("POST /v1/namespaces/{namespace}/import", Action::Transfer),
        }
    }

    /// Returns the field of a document that holds the items.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Timers => "timers",
        }
    }

    /// Returns the items of a document.
    pub(super) fn of(self, text: &[u8]) -> Result<Vec<&RawValue>, Invalid> {
        match self {
            Self::Operations => json::parse_body::<Batch>(text).map(|body| body.operations),
            Self::Timers => json::parse_body::<Import>(text).map(|body| body.timers),
        }
    }

    /// Reads one item.
    pub(super) fn command(
        self,
        app: &App,
        namespace: &NamespaceName,
        text: &[u8],
    ) -> Result<(Command, SentOperation), Invalid> {
        if self == Self::Operations {
            let message = json::parse(text)?;
            return command(app, namespace, message, MessageFormat::Json);
        }
        let timer = Box::new(json::parse::<MovedTimer>(text)?.check()?);
        let operation = Operation::Import { timer };
        app.check_receiver(namespace, &operation)?;
        Ok((brief(namespace.clone(), operation), OperationKind::Import.into()))
    }

    /// Returns the result of one item; what `path` returns stands in front of a field at fault.
    pub(super) fn result(
        self,
        sent: SentOperation,
        outcome: Option<&Outcome>,
        path: impl FnOnce(OperationKind) -> String,
    ) -> ItemResult {
        let Some(outcome) = outcome else {
            return self.refusal(Problem::fault("an operation has no outcome"));
        };
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

/// Returns the command of an operation, checked.
pub(crate) fn command(
    app: &App,
    namespace: &NamespaceName,
    message: Message,
    source: MessageFormat,
) -> Result<(Command, SentOperation), Invalid> {
    let when = message.when_text().map(Box::from);
    let operation = message.check(source, || app.make_id())?;
    let kind = OperationKind::of(&operation);
    app.check_receiver(namespace, &operation).map_err(|invalid| invalid.within(kind.name()))?;
    Ok((brief(namespace.clone(), operation), SentOperation { kind, when }))
}

/// Returns the command of an operation whose response does not show the whole timer.
pub(crate) fn brief(namespace: NamespaceName, operation: Operation) -> Command {
    Command { namespace, operation, answer: Answer::Brief }
}

/// For each item the sent operation or its refusal, and the commands of the accepted items.
pub(crate) type SortedItems = (Vec<Result<SentOperation, Problem>>, Vec<Command>);

/// Separates refused items from commands. Items that the caller has no right to are refused.
pub(crate) fn sort_items(
    read: impl Iterator<Item = Result<(Command, SentOperation), Problem>>,
) -> SortedItems {
    let caller = call::caller();
    let mut commands = Vec::with_capacity(read.size_hint().0);
    let slots = read.map(|item| {
        let (command, sent) = item?;
        if matches!(command.operation, Operation::Fire { .. }) {
            caller.check(Action::Operate)?;
        }
        commands.push(command);
        Ok(sent)
    });
    (slots.collect(), commands)
}

/// Result of one item.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ItemResult {
    /// The result of an operation.
    Operation(OperationResult),
    /// The result of a timer of another server.
    Timer(ImportResult),
}

impl ItemResult {
    /// Returns `true` if the item was refused.
    pub(super) const fn is_refused(&self) -> bool {
        match self {
            Self::Operation(result) => result.error.is_some(),
            Self::Timer(result) => result.error.is_some(),
        }
    }
}
