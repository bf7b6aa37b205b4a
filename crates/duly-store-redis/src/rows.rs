//! The rows of one shard, as the loops of `duly-decide` load and write them. Before an operation is refused at a limit,
//! what has ended is swept and the limit is rebalanced.
//!
//! Each command and each settlement has a value of its own, and many are under way at once.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId, timer::DeadLetterId};
use duly_decide::{Cause, Change, LimitKind, OwnWay, Rows, SettleItem, Wanted, Written};
use duly_store::{Answer, Command, Error, Operation, Result, SettleVerdict};

use crate::{
    change::WriteResult,
    deployment::{Deployment, NamespaceRef, ReadRequest},
    error::before_change,
    namespaces::Absence,
    quota::NamespaceLimit,
    rate::{Grant, too_fast},
    row::Row,
    script::Script,
    token::Ticket,
    verdicts::{acknowledge, extend, parse_outcome, words},
};

/// The rows of one shard, for one command or settlement.
pub(crate) struct ShardRows<'a> {
    deployment: &'a Deployment,
    shard: ShardId,
    /// The token of the settlement.
    ticket: Option<&'a Ticket>,
    /// Granted by the coordinator shard of the rate, for an operation that has made no timer yet.
    grant: Option<Grant>,
}

impl<'a> ShardRows<'a> {
    pub(crate) const fn new(
        deployment: &'a Deployment,
        shard: ShardId,
        ticket: Option<&'a Ticket>,
    ) -> Self {
        Self { deployment, shard, ticket, grant: None }
    }

    /// Gives back a grant that was not used.
    pub(crate) async fn give_back(self, namespace: &NamespaceName) {
        if let Some(grant) = self.grant {
            self.deployment.give_back(namespace, &grant, grant.count).await;
        }
    }

    async fn row(&self, wanted: Wanted<'_>) -> Result<Option<Row>> {
        match wanted {
            Wanted::Command(command) => self.deployment.row(self.shard, request_of(command)).await,
            Wanted::Settlement(_) => {
                let Some(ticket) = self.ticket else { return Ok(None) };
                let bare = ReadRequest::bare(NamespaceRef::Numbered(&ticket.num), Some(&ticket.id));
                let firing = Some((ticket.incarnation, ticket.occurrence));
                self.deployment.row(self.shard, ReadRequest { firing, ..bare }).await
            }
        }
    }

    async fn write_one(&mut self, change: &Change<'_, Row>) -> Result<Written> {
        let Change { row, draft, cause } = *change;
        let operation = match cause {
            Cause::Clock => {
                return before_change(self.write_draft(change, Script::Change, None).await);
            }
            Cause::Settlement => return self.write_draft(change, Script::Change, None).await,
            Cause::Operation(operation) => operation,
        };
        let script = match operation {
            Operation::Schedule { .. }
            | Operation::Import { .. }
            | Operation::Reschedule { .. }
            | Operation::Redrive { .. } => Script::Grow,
            _ => Script::Change,
        };
        let name = &row.control.name;
        let admission = self.deployment.rate_admission(self.shard, name, self.grant.is_some());
        let rate = draft.quota_use.schedule.then_some(admission);
        let written = self.write_draft(change, script, rate).await;
        if matches!(written, Ok(Written::Done) | Err(Error::InDoubt { .. })) {
            // A timer that may have been made counts.
            self.grant = None;
        }
        written
    }

    async fn write_draft(
        &mut self,
        Change { row, draft, .. }: &Change<'_, Row>,
        script: Script,
        rate: Option<&'static str>,
    ) -> Result<Written> {
        let (deployment, shard, control) = (self.deployment, self.shard, &row.control);
        Ok(match deployment.write(shard, row, draft, script, rate).await? {
            WriteResult::Done => Written::Done,
            WriteResult::Changed => Written::Changed,
            WriteResult::Closing => {
                before_change(deployment.wait_for_deletion_lock(shard, control).await)?;
                Written::Changed
            }
            WriteResult::Full(limit) => Written::Full(limit),
            WriteResult::NeedsGrant => {
                let grant = before_change(deployment.grant(&control.name, 1).await)?;
                if grant.count == 0 {
                    return Ok(Written::Refused(too_fast(control, grant.wait)));
                }
                self.grant = Some(grant);
                Written::Changed
            }
            WriteResult::RateExceeded(wait_ms) => {
                Written::Refused(too_fast(control, Duration::from_millis(wait_ms)))
            }
        })
    }
}

impl Rows for ShardRows<'_> {
    type Row = Row;

    async fn load(&mut self, wanted: &[Wanted<'_>]) -> Vec<Result<Option<Row>>> {
        let mut rows = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            rows.push(self.row(*wanted).await);
        }
        rows
    }

    async fn write(&mut self, changes: &[Change<'_, Row>]) -> Vec<Result<Written>> {
        let mut written = Vec::with_capacity(changes.len());
        for change in changes {
            written.push(self.write_one(change).await);
        }
        written
    }

    async fn find(&mut self, namespace: &NamespaceName) -> Result<bool> {
        let absence = before_change(self.deployment.absent(self.shard, namespace).await)?;
        Ok(absence == Absence::Taken)
    }

    async fn sweep(&mut self) -> Result<()> {
        before_change(self.deployment.sweep_all(self.shard).await)
    }

    async fn make_room(&mut self, row: &Row, limit: LimitKind) -> Result<bool> {
        let limit = NamespaceLimit::of(&row.control, limit);
        before_change(self.deployment.rebalance(self.shard, limit).await)
    }

    /// Acks and extensions take a script each.
    async fn settle_own_way(&mut self, item: SettleItem<'_>) -> Result<OwnWay> {
        let settlement = item.settlement;
        let call = match (&settlement.verdict, self.ticket) {
            (SettleVerdict::Extend { lease }, Some(ticket)) => extend(ticket, settlement, *lease),
            (SettleVerdict::Ack, Some(ticket)) => {
                acknowledge(&[(0, ticket.clone(), settlement.clone())])
            }
            _ => return Ok(OwnWay::None),
        };
        let mut words = words(self.deployment.router.call(self.shard, call).await?)?;
        Ok(parse_outcome(&mut words)?.map_or(OwnWay::Changed, OwnWay::Done))
    }
}

/// Returns what an operation needs to read.
fn request_of(command: &Command) -> ReadRequest<'_> {
    let operation = &command.operation;
    let mut request = ReadRequest {
        payload_bytes_max: match command.answer {
            Answer::Whole => u64::MAX,
            Answer::Within(bytes_max) => bytes_max,
            Answer::Brief => 0,
        },
        ..ReadRequest::bare(NamespaceRef::Named(&command.namespace), operation.id())
    };
    match operation {
        Operation::Import { timer } => {
            request.firing = Some((timer.incarnation, timer.occurrence));
        }
        Operation::Redrive { letter: DeadLetterId::Delivery(did), .. }
        | Operation::Purge { letter: DeadLetterId::Delivery(did) } => {
            request.dead_letter = Some(*did);
        }
        _ => {}
    }
    request
}
