//! The slow path of an operation: *read, decide, write if nothing has changed*. Before it refuses at a
//! limit, it sweeps what has ended and rebalances the limit.

use std::time::Duration;

use duly_core::{shard::ShardId, timer::DeadLetterId};
use duly_store::{Answer, Command, Error, Operation, Outcome, Refusal, Result};

use crate::{
    case::Control,
    change::{TRIES, WriteResult, contended},
    deployment::{Deployment, NamespaceRef, ReadRequest},
    error::before_change,
    namespaces::Absence,
    quota::{LimitKind, NamespaceLimit},
    rate::{Grant, too_fast},
    script::Script,
};

impl Deployment {
    /// Reads, decides, and writes if nothing has changed in between.
    pub(super) async fn apply_slow(&self, shard: ShardId, command: &Command) -> Result<Outcome> {
        let mut held = None;
        let outcome = self.apply_slow_with_grant(shard, command, &mut held).await;
        // The coordinator shard granted an operation that made no timer.
        if let Some(grant) = held {
            self.give_back(&command.namespace, &grant, grant.count).await;
        }
        outcome
    }

    async fn apply_slow_with_grant(
        &self,
        shard: ShardId,
        command: &Command,
        held: &mut Option<Grant>,
    ) -> Result<Outcome> {
        let random = rand::random();
        let operation = &command.operation;
        let mut swept =
            matches!(operation, Operation::DeadLetter { .. } | Operation::Import { .. });
        if swept {
            // They are refused by the number of dead letters, which the clock may have raised.
            before_change(self.sweep_all(shard).await)?;
        }
        // The refusal to return if other callers took the rebalanced quota each time.
        let mut last_limit = None;
        for _ in 0..TRIES {
            let Some(case) = self.case(shard, wanted(command)).await? else {
                if before_change(self.absent(shard, &command.namespace).await)? == Absence::Taken {
                    continue;
                }
                let unknown = Refusal::UnknownNamespace(command.namespace.clone());
                return Ok(Outcome::Refused(unknown));
            };
            if let (Some(letter), None) = (operation.letter(), &case.dead_letter)
                && case.seen.newest.is_none()
            {
                if swept {
                    let (namespace, letter) = (command.namespace.clone(), letter.clone());
                    return Ok(Outcome::Refused(Refusal::UnknownDeadLetter { namespace, letter }));
                }
                // The timer may be a dead letter by the clock, without a write yet.
                swept = true;
                before_change(self.sweep_all(shard).await)?;
                continue;
            }
            if let Some(draft) = case.due() {
                before_change(self.write(shard, &case, &draft, Script::Change).await)?;
                continue;
            }
            let decision = match case.decide(operation.clone(), random, command.answer) {
                Ok(decision) => decision?,
                Err(refusal) => return Ok(Outcome::Refused(refusal)),
            };
            let Some(mut draft) = case.draft(&decision) else {
                return Ok(Outcome::of(decision, &case.control.name, case.now));
            };
            let admission = self.rate_admission(shard, &case.control.name, held.is_some());
            draft.rate = decision.quota_use.schedule.then_some(admission);
            let script = match operation {
                Operation::Schedule { .. }
                | Operation::Import { .. }
                | Operation::Reschedule { .. }
                | Operation::Redrive { .. } => Script::Grow,
                _ => Script::Change,
            };
            let written = self.write(shard, &case, &draft, script).await;
            if let Err(Error::InDoubt { .. }) = written {
                // It may have been made, and counts.
                *held = None;
            }
            match written? {
                WriteResult::Done => {
                    *held = None;
                    return Ok(Outcome::of(decision, &case.control.name, case.now));
                }
                WriteResult::Changed => {}
                WriteResult::Closing => {
                    before_change(self.wait_for_deletion_lock(shard, &case.control).await)?
                }
                WriteResult::Full(_) if !swept => {
                    // What has ended by the clock is no longer pending.
                    swept = true;
                    before_change(self.sweep_all(shard).await)?;
                }
                WriteResult::Full(kind) => {
                    let refusal = full(kind, &case.control);
                    let limit = NamespaceLimit::of(&case.control, kind);
                    if !before_change(self.rebalance(shard, limit).await)? {
                        return Ok(Outcome::Refused(refusal));
                    }
                    last_limit = Some(refusal);
                }
                WriteResult::NeedsGrant => {
                    let grant = before_change(self.grant(&case.control.name, 1).await)?;
                    if grant.count == 0 {
                        return Ok(Outcome::Refused(too_fast(&case.control, grant.wait)));
                    }
                    *held = Some(grant);
                }
                WriteResult::RateExceeded(wait_ms) => {
                    let wait = Duration::from_millis(wait_ms);
                    return Ok(Outcome::Refused(too_fast(&case.control, wait)));
                }
            }
        }
        if let Some(refusal) = last_limit {
            return Ok(Outcome::Refused(refusal));
        }
        Err(contended())
    }
}

/// Returns what an operation needs to read.
fn wanted(command: &Command) -> ReadRequest<'_> {
    let operation = &command.operation;
    let mut wanted = ReadRequest {
        payload_bytes_max: match command.answer {
            Answer::Whole => u64::MAX,
            Answer::Within(bytes_max) => bytes_max,
            Answer::Brief => 0,
        },
        ..ReadRequest::bare(NamespaceRef::Named(&command.namespace), operation.id())
    };
    match operation {
        Operation::Import { timer } => {
            wanted.firing = Some((timer.incarnation, timer.occurrence));
        }
        Operation::Redrive { letter: DeadLetterId::Delivery(did), .. }
        | Operation::Purge { letter: DeadLetterId::Delivery(did) } => {
            wanted.dead_letter = Some(*did)
        }
        _ => {}
    }
    wanted
}

/// Returns the refusal of an operation above a limit.
fn full(kind: LimitKind, control: &Control) -> Refusal {
    let limits = &control.settings.limits;
    match kind {
        LimitKind::Pending => Refusal::pending_full(&control.name, limits.max_pending.unwrap_or(0)),
        LimitKind::Dead => Refusal::dead_letters_full(&control.name, limits.max_dead),
    }
}
