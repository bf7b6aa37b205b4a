//! Batches of operations, with their results in the ledger.

use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::Instant;

use super::{Sent, Work};
use crate::{
    ledger::Ledger,
    target::Target,
    transport::{Operation, Outcome},
};

/// Makes the operations of a send; none after the last send.
pub(crate) type Make = Arc<dyn Fn(u64) -> Vec<Operation> + Send + Sync>;

/// Sends to one namespace.
pub(crate) struct Batches {
    pub(crate) make: Make,
    pub(crate) namespace: String,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Batches {
    /// Makes one call and records its results.
    pub(crate) async fn call(
        &self,
        line: usize,
        namespace: &str,
        operations: &[Operation],
    ) -> Result<Sent> {
        operations.iter().for_each(|operation| note_asked(&self.ledger, operation));
        let began = Instant::now();
        let outcomes = self.target.transport.batch(line, namespace, operations).await?;
        let ended = Instant::now();
        ensure!(
            outcomes.len() == operations.len(),
            "{} operations were sent together, and {} results came back",
            operations.len(),
            outcomes.len()
        );
        for (operation, outcome) in operations.iter().zip(outcomes) {
            note(&self.ledger, &self.target, operation, outcome);
        }
        Ok(Sent { began, ended, answered: operations.len() as u64 })
    }
}

impl Work for Batches {
    fn count(&self, send: u64) -> u64 {
        (self.make)(send).len() as u64
    }

    fn send(&self, line: usize, send: u64) -> BoxFuture<'_, Result<Option<Sent>>> {
        async move {
            let operations = (self.make)(send);
            if operations.is_empty() {
                return Ok(None);
            }
            self.call(line, &self.namespace, &operations).await.map(Some)
        }
        .boxed()
    }
}

fn note_asked(ledger: &Ledger, operation: &Operation) {
    if let Operation::Schedule { number, .. } | Operation::Replace { number, .. } = operation {
        ledger.asked(*number);
    }
}

fn note(ledger: &Ledger, target: &Target, operation: &Operation, outcome: Outcome) {
    match (*operation, outcome) {
        (Operation::Schedule { number, due_ms }, Outcome::Written)
        | (Operation::Replace { number, due_ms }, Outcome::Written | Outcome::Replaced) => {
            ledger.acknowledged(number, due_ms);
        }
        (Operation::Reschedule { number, due_ms }, Outcome::Written) => {
            ledger.acknowledged(number, due_ms);
        }
        (Operation::Repeat { .. }, Outcome::Existing) => {}
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
