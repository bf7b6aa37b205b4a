//! Operations on timers as callers send them, alone or as the items of a call: a batch of operations, or timers of an
//! import.
//!
//! Batch and import differ in how an item is read and in the form of its result. The modules `batch` and `lines` of
//! HTTP do everything else for both.
//!
//! A front can send the store nothing else than a [`CheckedCommand`], and no items but through an [`ItemCall`].

use duly_api::{
    MessageFormat, Operation as Message, OperationResult,
    batch::{Batch, OPERATIONS_MAX},
    json,
    moved::{Import, ImportResult, MovedTimer},
};
use duly_core::{Code, Invalid, NamespaceName, TimerId, access::Action};
use duly_store::{Answer, Command, Operation, Outcome};
use rand::RngCore;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Admitted, CheckedCommand};
use crate::{
    memory::budget::Reservation,
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
        admitted: &Admitted,
        namespace: &NamespaceName,
        text: &[u8],
    ) -> Result<(CheckedCommand, SentOperation), Invalid> {
        if self == Self::Operations {
            let message = json::parse(text)?;
            return admitted.check_message(namespace, message, MessageFormat::Json);
        }
        let timer = Box::new(json::parse::<MovedTimer>(text)?.check()?);
        let command = admitted.check_operation(namespace.clone(), Operation::Import { timer })?;
        Ok((command, OperationKind::Import.into()))
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

/// A call of items, or a step of a stream of them, which has begun. Only [`Admitted::begin_items`] and
/// [`Admitted::begin_step`] make one.
#[derive(Debug)]
pub(crate) struct ItemCall(Admitted);

/// The items of a call: refusals, and commands of the accepted items.
#[derive(Debug)]
pub(crate) struct SortedItems {
    slots: Vec<Result<SentOperation, Problem>>,
    commands: Vec<Command>,
}

/// The items of a call, carried out.
#[derive(Debug)]
pub(crate) struct AppliedItems {
    slots: Vec<Result<SentOperation, Problem>>,
    outcomes: Result<Vec<Outcome>, Problem>,
}

impl Admitted {
    /// Returns an id for a timer without one.
    pub(crate) fn make_id(&self) -> TimerId {
        let mut random = [0; 10];
        rand::rng().fill_bytes(&mut random);
        TimerId::generate(self.now(), random)
    }

    /// Returns the command of a message, checked. An error names the field within the message.
    pub(crate) fn check_message(
        &self,
        namespace: &NamespaceName,
        message: Message,
        source: MessageFormat,
    ) -> Result<(CheckedCommand, SentOperation), Invalid> {
        let when = message.when_text().map(Box::from);
        let operation = message.check(source, || self.make_id())?;
        let sent = SentOperation::of(&operation, when);
        let command = self.check_operation(namespace.clone(), operation);
        Ok((command.map_err(|invalid| invalid.within(sent.kind.name()))?, sent))
    }

    /// Begins a call of `count` items: refuses too many, and reserves the memory of their results and of `more` bytes.
    pub(crate) fn begin_items(
        &self,
        items: Items,
        count: usize,
        more: usize,
    ) -> Result<(ItemCall, Reservation), Problem> {
        if count > OPERATIONS_MAX {
            return Err(too_many(items.field(), count, OPERATIONS_MAX));
        }
        let reservation = self.budget().reserve(count * OPERATION_BYTES + more)?;
        Ok((ItemCall(self.clone()), reservation))
    }

    /// Begins a step of a stream of items, which ends with the key of the caller or the space of the audit log, and
    /// reserves `bytes`.
    pub(crate) fn begin_step(&self, bytes: usize) -> Result<(ItemCall, Reservation), Problem> {
        self.check_still_valid()?;
        self.audit.check_writable()?;
        Ok((ItemCall(self.clone()), self.budget().reserve(bytes)?))
    }

    /// Carries items out. A shard that fails refuses only its own items, unless all shards fail.
    pub(crate) async fn apply_items(
        &self,
        namespace: &NamespaceName,
        SortedItems { slots, commands }: SortedItems,
    ) -> AppliedItems {
        AppliedItems { slots, outcomes: self.apply_many(namespace, commands).await }
    }
}

impl ItemCall {
    /// Separates refused items from commands. Items that the caller has no right to are refused.
    pub(crate) fn sort(
        self,
        read: impl Iterator<Item = Result<(CheckedCommand, SentOperation), Problem>>,
    ) -> SortedItems {
        let mut commands = Vec::with_capacity(read.size_hint().0);
        let slots = read.map(|item| {
            let (command, sent) = item?;
            let command = command.into_command();
            if matches!(command.operation, Operation::Fire { .. }) {
                self.0.check(Action::Operate)?;
            }
            commands.push(command);
            Ok(sent)
        });
        SortedItems { slots: slots.collect(), commands }
    }
}

impl AppliedItems {
    /// Returns the problem of all items, if there is one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.outcomes.as_ref().err()
    }

    /// Returns the items, or the problem of all of them.
    pub(crate) fn unless_failed(self) -> Result<Self, Problem> {
        let Self { slots, outcomes } = self;
        Ok(Self { slots, outcomes: Ok(outcomes?) })
    }

    /// Returns the outcome of each item, or the problem of all of them for each.
    pub(crate) fn outcomes(self) -> impl Iterator<Item = ItemOutcome> {
        let (outcomes, refused) = match self.outcomes {
            Ok(outcomes) => (outcomes, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let mut outcomes = outcomes.into_iter();
        self.slots.into_iter().map(move |slot| {
            let sent = slot?;
            match (outcomes.next(), &refused) {
                (Some(outcome), _) => Ok((sent, outcome)),
                (None, Some(problem)) => Err(problem.clone()),
                (None, None) => Err(Problem::fault("an operation has no outcome")),
            }
        })
    }
}

/// Returns the command of an operation whose response does not show the whole timer.
pub(super) fn brief(namespace: NamespaceName, operation: Operation) -> Command {
    Command { namespace, operation, answer: Answer::Brief }
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
pub(super) fn too_many(field: &str, count: usize, max: usize) -> Problem {
    let allowed = format!("at most {max} entries");
    let detail = format!("{field} must have {allowed}; got {count}: split the request");
    let seen = Some(format!("{count} entries"));
    Problem::new(Code::RequestTooLarge, detail).at(field, seen, &allowed)
}
