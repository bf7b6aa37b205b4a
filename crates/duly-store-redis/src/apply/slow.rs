//! The slow path of an operation: *read, decide, write if nothing has changed*. Before it refuses at a
//! limit, it sweeps what has ended and rebalances the limit.

use std::time::Duration;

use duly_core::{operate::DeadLetterId, shard::ShardId};
use duly_store::{Answer, Command, Error, Operation, Outcome, Refusal, Result};

use crate::{
    case::Control,
    change::{TRIES, Written, contended},
    deployment::{Deployment, Space, Wanted},
    error::before,
    namespaces::Absence,
    rate::{Grant, Pace, too_fast},
    script::Script,
    shares::Kind,
};

impl Deployment {
    /// Reads, decides, and writes if nothing has changed in between.
    pub(super) async fn slowly(&self, shard: ShardId, command: &Command) -> Result<Outcome> {
        let mut held = None;
        let outcome = self.slowly_held(shard, command, &mut held).await;
        // The coordinator shard granted an operation that made no timer.
        if let Some(grant) = held {
            self.give_back(&command.namespace, &grant, grant.count).await;
        }
        outcome
    }

    async fn slowly_held(
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
            before(self.sweep_all(shard).await)?;
        }
        // The refusal to return if other callers took the rebalanced quota each time.
        let mut last_limit = None;
        for _ in 0..TRIES {
            let Some(case) = self.case(shard, wanted(command)).await? else {
                if before(self.absent(shard, &command.namespace).await)? == Absence::Taken {
                    continue;
                }
                let unknown = Refusal::UnknownNamespace(command.namespace.clone());
                return Ok(Outcome::Refused(unknown));
            };
            if let (Some(letter), None) = (operation.letter(), &case.letter)
                && case.seen.newest.is_none()
            {
                if swept {
                    let (namespace, letter) = (command.namespace.clone(), letter.clone());
                    return Ok(Outcome::Refused(Refusal::UnknownDeadLetter { namespace, letter }));
                }
                // The timer may be a dead letter by the clock, without a write yet.
                swept = true;
                before(self.sweep_all(shard).await)?;
                continue;
            }
            if let Some(draft) = case.due() {
                before(self.write(shard, &case, &draft, Script::Change).await)?;
                continue;
            }
            let decision = match case.decide(operation.clone(), random, command.answer) {
                Ok(decision) => decision?,
                Err(refusal) => return Ok(Outcome::Refused(refusal)),
            };
            let Some(mut draft) = case.draft(&decision) else {
                return Ok(Outcome::of(decision, &case.control.name, case.now));
            };
            let pace =
                if held.is_some() { Pace::Held } else { self.pace(shard, &case.control.name) };
            draft.rate = draft.rate.map(|_| pace);
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
                Written::Done => {
                    *held = None;
                    return Ok(Outcome::of(decision, &case.control.name, case.now));
                }
                Written::Again => {}
                Written::Closing => before(self.wait_at_gate(shard, &case.control).await)?,
                Written::TooMany | Written::TooDead if !swept => {
                    // What has ended by the clock is no longer pending.
                    swept = true;
                    before(self.sweep_all(shard).await)?;
                }
                Written::TooMany => {
                    let refusal = too_many(&case.control);
                    if !before(self.call_in(shard, &case.control, Kind::Pending).await)? {
                        return Ok(Outcome::Refused(refusal));
                    }
                    last_limit = Some(refusal);
                }
                Written::TooDead => {
                    let max = case.control.settings.limits.max_dead;
                    let refusal = Refusal::dead_letters_full(&case.control.name, max);
                    if !before(self.call_in(shard, &case.control, Kind::Dead).await)? {
                        return Ok(Outcome::Refused(refusal));
                    }
                    last_limit = Some(refusal);
                }
                Written::AskHome => {
                    let grant = before(self.grant(&case.control.name, 1).await)?;
                    if grant.count == 0 {
                        return Ok(Outcome::Refused(too_fast(&case.control, grant.wait)));
                    }
                    *held = Some(grant);
                }
                Written::TooFast(wait_ms) => {
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
fn wanted(command: &Command) -> Wanted<'_> {
    let operation = &command.operation;
    let mut wanted = Wanted {
        payload_bytes_max: match command.answer {
            Answer::Whole => u64::MAX,
            Answer::Within(bytes_max) => bytes_max,
            Answer::Brief => 0,
        },
        ..Wanted::bare(Space::Named(&command.namespace), operation.id())
    };
    match operation {
        Operation::Import { timer } => {
            wanted.firing = Some((timer.incarnation, timer.occurrence));
        }
        Operation::Redrive { letter: DeadLetterId::Delivery(did), .. }
        | Operation::Purge { letter: DeadLetterId::Delivery(did) } => wanted.letter = Some(*did),
        _ => {}
    }
    wanted
}

fn too_many(control: &Control) -> Refusal {
    Refusal::pending_full(&control.name, control.settings.limits.max_pending.unwrap_or(0))
}
