//! Sends operations by the pace, over all lines, and notes what was answered.

use std::sync::Arc;

use tokio::{task::JoinSet, time::Instant};

use crate::{
    ledger::Ledger,
    pace::{Pace, Turn},
    recorder::Recorder,
    stop::Stop,
    target::Target,
    transport::{Operation, Outcome},
};

/// Makes the operations of a send: none after the last.
pub(crate) type Make = Arc<dyn Fn(u64) -> Vec<Operation> + Send + Sync>;

/// What is offered.
pub(crate) struct Offer {
    pub(crate) pace: Pace,
    pub(crate) lines: usize,
    pub(crate) make: Make,
    /// Latency from the intended time of a send.
    pub(crate) latency: Arc<Recorder>,
    /// How late the sends themselves were: what the generator adds by itself.
    pub(crate) behind: Arc<Recorder>,
}

/// Sends all. Answers how many operations were never sent.
pub(crate) async fn offer(
    offer: Offer,
    target: &Arc<Target>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> anyhow::Result<u64> {
    let offer = Arc::new(offer);
    offer.latency.begin(offer.pace.began);
    let mut lines = JoinSet::new();
    for line in 0..offer.lines {
        let (offer, target) = (Arc::clone(&offer), Arc::clone(target));
        let (ledger, stop) = (Arc::clone(ledger), stop.clone());
        lines.spawn(async move { one_line(line, &offer, &target, &ledger, &stop).await });
    }
    let mut unsent = 0;
    while let Some(line) = lines.join_next().await {
        unsent += line??;
    }
    Ok(unsent)
}

async fn one_line(
    line: usize,
    offer: &Offer,
    target: &Target,
    ledger: &Ledger,
    stop: &Stop,
) -> anyhow::Result<u64> {
    let (mut number, lines) = (line as u64, offer.lines as u64);
    while let Some(Turn { intended, .. }) = offer.pace.turn(number, stop).await {
        let operations = (offer.make)(number);
        let count = operations.len() as u64;
        if count == 0 {
            return Ok(0);
        }
        operations.iter().for_each(|operation| note_asked(ledger, operation));
        offer.behind.charge(micros_since(intended), 1);
        let call = target.transport.batch(line, &target.namespace, &operations);
        let outcomes = call.await?;
        offer.latency.record(micros_since(intended), count);
        anyhow::ensure!(
            outcomes.len() == operations.len(),
            "{count} operations were sent together, and {} results came back",
            outcomes.len()
        );
        for (operation, outcome) in operations.iter().zip(outcomes) {
            note(ledger, target, operation, outcome);
        }
        number += lines;
    }
    let now = Instant::now();
    let mut unsent = 0;
    for turn in offer.pace.unsent(number, lines, now) {
        let count = (offer.make)(turn.number).len() as u64;
        unsent += count;
        offer.latency.charge(micros(now - turn.intended), count);
    }
    Ok(unsent)
}

fn note_asked(ledger: &Ledger, operation: &Operation) {
    if let Operation::Schedule { number, .. } | Operation::Replace { number, .. } = operation {
        ledger.asked(*number);
    }
}

fn note(ledger: &Ledger, target: &Target, operation: &Operation, outcome: Outcome) {
    match (*operation, outcome) {
        (Operation::Schedule { number, due_ms }, Outcome::Created)
        | (Operation::Replace { number, due_ms }, Outcome::Created | Outcome::Replaced) => {
            ledger.acknowledged(number, due_ms);
        }
        (Operation::Cancel { number }, Outcome::Cancelled) => ledger.cancelled(number),
        (_, outcome) => {
            ledger.refused();
            let why = match outcome {
                Outcome::Refused(code) => format!("an operation was refused: {code}"),
                other => format!("an operation came to something else than was asked: {other:?}"),
            };
            target.remark(why);
        }
    }
}

fn micros_since(at: Instant) -> u64 {
    micros(at.elapsed())
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
