//! The items of a call: operations of a batch, or timers of an import.
//!
//! The two differ in how an item is read and in the form of its result. The modules `batch` and
//! `lines` of HTTP do everything else for both.

use duly_api::{
    MessageFormat, Operation as Message, OperationResult,
    batch::Batch,
    json,
    moved::{Import, ImportResult, MovedTimer},
};
use duly_core::{Code, Invalid, NamespaceName, access::Action};
use duly_store::{Answer, Command, Operation, Outcome};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Admitted, App};
use crate::{
    messages::{self, ItemOutcome},
    problem::{
        Problem,
        refusal_texts::{OperationKind, SentOperation},
    },
};

/// The kind of the items of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Items {
    /// Operations on timers.
    Operations,
    /// Timers of another server.
    Timers,
}

impl Items {
    /// Returns the field of a document that holds the items.
    pub(crate) const fn field(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Timers => "timers",
        }
    }

    /// Returns the items of a document.
    pub(crate) fn of(self, text: &[u8]) -> Result<Vec<&RawValue>, Invalid> {
        match self {
            Self::Operations => json::parse_body::<Batch>(text).map(|body| body.operations),
            Self::Timers => json::parse_body::<Import>(text).map(|body| body.timers),
        }
    }

    /// Reads one item.
    pub(crate) fn command(
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
    pub(crate) fn result(
        self,
        admitted: &Admitted,
        item: ItemOutcome,
        path: impl FnOnce(OperationKind) -> String,
    ) -> ItemResult {
        match self {
            Self::Operations => {
                ItemResult::Operation(messages::result(admitted.caller(), item, path))
            }
            Self::Timers => ItemResult::Timer(messages::imported(item, path)),
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
    let sent = SentOperation::of(&operation, when);
    app.check_receiver(namespace, &operation)
        .map_err(|invalid| invalid.within(sent.kind.name()))?;
    Ok((brief(namespace.clone(), operation), sent))
}

/// Returns the command of an operation whose response does not show the whole timer.
pub(crate) fn brief(namespace: NamespaceName, operation: Operation) -> Command {
    Command { namespace, operation, answer: Answer::Brief }
}

/// For each item the sent operation or its refusal, and the commands of the accepted items.
pub(crate) type SortedItems = (Vec<Result<SentOperation, Problem>>, Vec<Command>);

/// Separates refused items from commands. Items that the caller has no right to are refused.
pub(crate) fn sort_items(
    admitted: &Admitted,
    read: impl Iterator<Item = Result<(Command, SentOperation), Problem>>,
) -> SortedItems {
    let mut commands = Vec::with_capacity(read.size_hint().0);
    let slots = read.map(|item| {
        let (command, sent) = item?;
        if matches!(command.operation, Operation::Fire { .. }) {
            admitted.check(Action::Operate)?;
        }
        commands.push(command);
        Ok(sent)
    });
    (slots.collect(), commands)
}

/// Returns the outcome of each item of [`sort_items`], from those of the commands, or from the problem of all of them.
pub(crate) fn outcomes_of(
    slots: Vec<Result<SentOperation, Problem>>,
    outcomes: Result<Vec<Outcome>, Problem>,
) -> impl Iterator<Item = ItemOutcome> {
    let (outcomes, refused) = match outcomes {
        Ok(outcomes) => (outcomes, None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let mut outcomes = outcomes.into_iter();
    slots.into_iter().map(move |slot| {
        let sent = slot?;
        match (outcomes.next(), &refused) {
            (Some(outcome), _) => Ok((sent, outcome)),
            (None, Some(problem)) => Err(problem.clone()),
            (None, None) => Err(Problem::fault("an operation has no outcome")),
        }
    })
}

/// Result of one item.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ItemResult {
    /// The result of an operation.
    Operation(OperationResult),
    /// The result of a timer of another server.
    Timer(ImportResult),
}

impl ItemResult {
    /// Returns `true` if the item was refused.
    pub(crate) const fn is_refused(&self) -> bool {
        match self {
            Self::Operation(result) => result.error.is_some(),
            Self::Timer(result) => result.error.is_some(),
        }
    }
}

/// Bytes of one batch, even if `server.body_bytes_max` is more.
pub(crate) const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Approximate memory of an operation and its result. It is reserved before anything is done, since the
/// response cannot be refused afterwards.
pub(crate) const OPERATION_BYTES: usize = 384;

/// Refuses a list with too many entries.
pub(crate) fn too_many(field: &str, count: usize, max: usize) -> Problem {
    let allowed = format!("at most {max} entries");
    let detail = format!("{field} must have {allowed}; got {count}: split the request");
    let seen = Some(format!("{count} entries"));
    Problem::new(Code::RequestTooLarge, detail).at(field, seen, &allowed)
}
