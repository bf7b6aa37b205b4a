//! The rows of a store, and the loops that load, decide and write.

use std::{borrow::Borrow, future::Future, mem};

use duly_core::{Millis, NamespaceName, operate::Decision, timer::DeadLetterId};
use duly_store::{Command, Error, Operation, Outcome, Refusal, Result, SettleOutcome, Settlement};

use crate::{Case, Draft, SettleDecision};

/// Attempts of a change while other callers keep changing the timer first.
pub const TRIES: usize = 8;

/// The rows of a store.
///
/// Each method has one result per item, in the order of the items. An error of [`Self::load`], and of all methods
/// that no caller asked for (`find`, `sweep`, `make_room`, a change by the clock), means that nothing of the command
/// was carried out; it is never [`Error::InDoubt`].
pub trait Rows: Send {
    /// A case, with the bytes or versions that the store compares when it writes.
    type Row: Borrow<Case> + Send + Sync;

    /// Reads the rows that items need. `None`: there is no such namespace.
    fn load(
        &mut self,
        wanted: &[Wanted<'_>],
    ) -> impl Future<Output = Vec<Result<Option<Self::Row>>>> + Send;

    /// Writes changes, each unless something of its row has changed since it was read.
    fn write(
        &mut self,
        changes: &[Change<'_, Self::Row>],
    ) -> impl Future<Output = Vec<Result<Written>>> + Send;

    /// Looks for a namespace that [`Self::load`] has not found. Returns `true` if it may be there now.
    fn find(&mut self, namespace: &NamespaceName) -> impl Future<Output = Result<bool>> + Send;

    /// Writes all that the clock has ended, so that counts are exact.
    fn sweep(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Makes room for one more at a limit of the row's namespace. Returns `false` if there is none.
    fn make_room(
        &mut self,
        row: &Self::Row,
        limit: LimitKind,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Settles a lease that is held in the store's own way, if it has one for this verdict.
    fn settle_own_way(
        &mut self,
        _item: SettleItem<'_>,
    ) -> impl Future<Output = Result<OwnWay>> + Send {
        async { Ok(OwnWay::None) }
    }
}

/// The item that rows are read for.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// A command: the id of its operation, or its dead letter.
    Command(&'a Command),
    /// A settlement: the firing of its token.
    Settlement(&'a Settlement),
}

/// A change of a row.
#[derive(Debug)]
pub struct Change<'a, R> {
    /// The row as it was read.
    pub row: &'a R,
    /// The change.
    pub draft: &'a Draft,
    /// Its cause.
    pub cause: Cause<'a>,
}

/// Cause of a change.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// The clock has ended something before an operation.
    Clock,
    /// A caller's operation.
    Operation(&'a Operation),
    /// A settlement, or the clock before it.
    Settlement,
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// It is written.
    Done,
    /// Something has changed since it was read.
    Changed,
    /// The namespace is at this limit.
    Full(LimitKind),
    /// The store refuses it.
    Refused(Refusal),
}

duly_core::named_enum! {
    /// A limit on the number of timers of a namespace.
    pub enum LimitKind {
        /// Pending timers.
        Pending = "pending",
        /// Dead letters.
        Dead = "dead",
    }
}

impl LimitKind {
    /// Returns the refusal of an operation above the limit.
    fn refusal(self, case: &Case) -> Refusal {
        let (name, limits) = (&case.namespace, &case.settings.limits);
        match self {
            Self::Pending => Refusal::pending_full(name, limits.max_pending.unwrap_or(0)),
            Self::Dead => Refusal::dead_letters_full(name, limits.max_dead),
        }
    }
}

/// Result of a settlement in the store's own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnWay {
    /// The store has none for this verdict.
    None,
    /// The timer has changed meanwhile.
    Changed,
    /// The outcome.
    Done(SettleOutcome),
}

/// Returns the error of an item that lost against other changes at each attempt.
pub fn contended() -> Error {
    Error::Overloaded {
        reason: format!("other callers kept changing the timer; gave up after {TRIES} attempts"),
        retry_after: Millis::from_ms(100),
    }
}

/// A command, with the random number for a timer that it creates.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The command.
    pub command: &'a Command,
    /// A random number.
    pub random: u64,
}

/// A command without an outcome yet.
struct Open<'a> {
    place: usize,
    item: Item<'a>,
    /// `true`: what the clock has ended was written.
    is_swept: bool,
    /// The refusal to return if other callers took the room each time that some was made.
    last_limit: Option<Refusal>,
}

/// The step that follows from a row.
enum Next {
    Answer(Outcome),
    Again,
    /// Write this; `None`: it is a change by the clock, and the row is read again.
    Write(Draft, Option<Box<Decision>>),
}

/// Carries out commands on different ids. Returns their outcomes in their order.
pub async fn apply<R: Rows>(rows: &mut R, items: &[Item<'_>]) -> Vec<Result<Outcome>> {
    let mut outcomes: Vec<_> = items.iter().map(|_| None).collect();
    let mut open: Vec<_> = items.iter().copied().enumerate().map(Open::new).collect();
    if open.iter().any(|open| open.is_swept)
        && let Err(error) = rows.sweep().await
    {
        for swept in open.extract_if(.., |open| open.is_swept) {
            outcomes[swept.place] = Some(Err(error.clone()));
        }
    }
    for _ in 0..TRIES {
        if open.is_empty() {
            break;
        }
        let wanted: Vec<_> = open.iter().map(|open| Wanted::Command(open.item.command)).collect();
        let loaded = rows.load(&wanted).await;
        let mut writes = Vec::new();
        for (mut item, row) in mem::take(&mut open).into_iter().zip(loaded) {
            let next = match row {
                Ok(Some(row)) => item.next(rows, row.borrow()).await.map(|next| (next, Some(row))),
                Ok(None) => item.without_namespace(rows).await.map(|next| (next, None)),
                Err(error) => Err(error),
            };
            match next {
                Ok((Next::Write(draft, decision), Some(row))) => {
                    writes.push((item, row, draft, decision));
                }
                Ok((Next::Answer(outcome), _)) => outcomes[item.place] = Some(Ok(outcome)),
                Ok(_) => open.push(item),
                Err(error) => outcomes[item.place] = Some(Err(error)),
            }
        }
        let changes: Vec<_> = writes
            .iter()
            .map(|(item, row, draft, decision)| {
                let operation = &item.item.command.operation;
                let cause = decision.as_ref().map_or(Cause::Clock, |_| Cause::Operation(operation));
                Change { row, draft, cause }
            })
            .collect();
        let written = if changes.is_empty() { Vec::new() } else { rows.write(&changes).await };
        for ((mut item, row, _, decision), written) in writes.into_iter().zip(written) {
            match item.after(rows, &row, decision, written).await {
                Ok(Some(outcome)) => outcomes[item.place] = Some(Ok(outcome)),
                Ok(None) => open.push(item),
                Err(error) => outcomes[item.place] = Some(Err(error)),
            }
        }
    }
    for Open { place, last_limit, .. } in open {
        outcomes[place] = Some(last_limit.map(Outcome::Refused).ok_or_else(contended));
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(contended()))).collect()
}

impl<'a> Open<'a> {
    fn new((place, item): (usize, Item<'a>)) -> Self {
        // They are refused by the number of dead letters, which the clock may have raised.
        let is_swept = matches!(
            item.command.operation,
            Operation::DeadLetter { .. } | Operation::Import { .. }
        );
        Self { place, item, is_swept, last_limit: None }
    }

    async fn without_namespace(&self, rows: &mut impl Rows) -> Result<Next> {
        let namespace = &self.item.command.namespace;
        if rows.find(namespace).await? {
            return Ok(Next::Again);
        }
        Ok(Next::Answer(Outcome::Refused(Refusal::UnknownNamespace(namespace.clone()))))
    }

    /// Returns the step that follows from the row.
    async fn next(&mut self, rows: &mut impl Rows, case: &Case) -> Result<Next> {
        let Command { namespace, operation, answer } = self.item.command;
        if let (Some(letter @ DeadLetterId::Delivery(_)), None) =
            (operation.letter(), &case.dead_letter)
        {
            if self.is_swept {
                let (namespace, letter) = (namespace.clone(), letter.clone());
                let unknown = Refusal::UnknownDeadLetter { namespace, letter };
                return Ok(Next::Answer(Outcome::Refused(unknown)));
            }
            // The timer may be a dead letter by the clock, without a write yet.
            self.is_swept = true;
            rows.sweep().await?;
            return Ok(Next::Again);
        }
        if let Some(draft) = case.due() {
            return Ok(Next::Write(draft, None));
        }
        let decision = match case.decide(operation.clone(), self.item.random, *answer) {
            Ok(decision) => decision?,
            Err(refusal) => return Ok(Next::Answer(Outcome::Refused(refusal))),
        };
        Ok(match case.draft(&decision) {
            Some(draft) => Next::Write(draft, Some(Box::new(decision))),
            None => Next::Answer(Outcome::of(decision, &case.namespace, case.now)),
        })
    }

    /// Returns the outcome after a write; `None` if the row is read again.
    async fn after<R: Rows>(
        &mut self,
        rows: &mut R,
        row: &R::Row,
        decision: Option<Box<Decision>>,
        written: Result<Written>,
    ) -> Result<Option<Outcome>> {
        let case = row.borrow();
        let (written, Some(decision)) = (written?, decision) else { return Ok(None) };
        match written {
            Written::Done => Ok(Some(Outcome::of(*decision, &case.namespace, case.now))),
            Written::Changed => Ok(None),
            Written::Refused(refusal) => Ok(Some(Outcome::Refused(refusal))),
            Written::Full(_) if !self.is_swept => {
                // What has ended by the clock is no longer pending.
                self.is_swept = true;
                rows.sweep().await.map(|()| None)
            }
            Written::Full(limit) => {
                let refusal = limit.refusal(case);
                if !rows.make_room(row, limit).await? {
                    return Ok(Some(Outcome::Refused(refusal)));
                }
                self.last_limit = Some(refusal);
                Ok(None)
            }
        }
    }
}

/// A settlement, with the random part of its token.
#[derive(Debug, Clone, Copy)]
pub struct SettleItem<'a> {
    /// The settlement.
    pub settlement: &'a Settlement,
    /// The random part of its token.
    pub nonce: u64,
}

/// Carries out settlements of different firings. Returns their outcomes in their order.
pub async fn settle<R: Rows>(rows: &mut R, items: &[SettleItem<'_>]) -> Vec<Result<SettleOutcome>> {
    let mut outcomes: Vec<_> = items.iter().map(|_| None).collect();
    let mut open: Vec<_> = items.iter().copied().enumerate().collect();
    for _ in 0..TRIES {
        if open.is_empty() {
            break;
        }
        let wanted: Vec<_> =
            open.iter().map(|(_, item)| Wanted::Settlement(item.settlement)).collect();
        let loaded = rows.load(&wanted).await;
        let mut writes = Vec::new();
        for ((place, item), row) in mem::take(&mut open).into_iter().zip(loaded) {
            match row {
                Err(error) => outcomes[place] = Some(Err(error)),
                Ok(None) => outcomes[place] = Some(Ok(SettleOutcome::LeaseLost)),
                Ok(Some(row)) => match next_of(rows, item, row.borrow()).await {
                    Ok(SettleNext::Answer(outcome)) => outcomes[place] = Some(Ok(outcome)),
                    Ok(SettleNext::Again) => open.push((place, item)),
                    Ok(SettleNext::Write(draft, outcome)) => {
                        writes.push((place, item, row, draft, outcome));
                    }
                    Err(error) => outcomes[place] = Some(Err(error)),
                },
            }
        }
        let changes: Vec<_> = writes
            .iter()
            .map(|(_, _, row, draft, _)| Change { row, draft, cause: Cause::Settlement })
            .collect();
        let written = if changes.is_empty() { Vec::new() } else { rows.write(&changes).await };
        for ((place, item, _, _, outcome), written) in writes.into_iter().zip(written) {
            match (written, outcome) {
                (Ok(Written::Done), Some(outcome)) => outcomes[place] = Some(Ok(outcome)),
                (Ok(_), _) => open.push((place, item)),
                (Err(error), _) => outcomes[place] = Some(Err(error)),
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(contended()))).collect()
}

enum SettleNext {
    Answer(SettleOutcome),
    Again,
    /// Write this. No outcome: it is a change by the clock, and the row is read again.
    Write(Draft, Option<SettleOutcome>),
}

async fn next_of(rows: &mut impl Rows, item: SettleItem<'_>, case: &Case) -> Result<SettleNext> {
    let Settlement { namespace, verdict, .. } = item.settlement;
    if namespace.as_ref().is_some_and(|name| *name != case.namespace) {
        return Ok(SettleNext::Answer(SettleOutcome::InvalidToken));
    }
    if let Some(draft) = case.due() {
        return Ok(SettleNext::Write(draft, None));
    }
    if case.holds(item.nonce) {
        match rows.settle_own_way(item).await? {
            OwnWay::None => {}
            OwnWay::Changed => return Ok(SettleNext::Again),
            OwnWay::Done(outcome) => return Ok(SettleNext::Answer(outcome)),
        }
    }
    Ok(match case.decide_settlement(item.nonce, verdict) {
        SettleDecision::Answer(outcome) => SettleNext::Answer(outcome),
        SettleDecision::Write(draft, outcome) => SettleNext::Write(*draft, Some(outcome)),
    })
}
