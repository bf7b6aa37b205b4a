//! Verdicts on their way to the store.
//!
//! One task per shard takes whatever verdicts have come together while the last batch was being
//! made durable, so batches grow with the load. A batch that the store could not take is offered
//! again for as long as the process lives: the slot of an attempt is freed only when its verdict is
//! taken, so a store that is away stops new claims by itself and nothing is forgotten.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use duly_core::{
    NamespaceName,
    error_code::Retry,
    shard::ShardId,
    timer::{AttemptOutcome, Wait},
};
use duly_store::{Error, Lane, SettleOutcome, SettleVerdict, Settlement, Token};
use futures::FutureExt;
use tokio::{
    sync::mpsc,
    time::{Instant, error::Elapsed},
};

use crate::{
    lanes::{Pass, Permit, Receiver, Reception},
    record::Way,
    state::Shared,
};

/// Most verdicts of one call.
const BATCH_MAX: usize = 1_000;
/// Pause after the first call that failed.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Longest pause between two calls.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// A call is waited for so many times as long as a stall, at most.
const PATIENCE_MAX: u32 = 64;

/// One verdict, with what is freed when it is taken.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) settlement: Settlement,
    pub(crate) slot: Option<Slot>,
}

/// A slot of a lane; freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    lane: Lane,
    permit: Permit,
    is_reported: bool,
}

impl Slot {
    pub(crate) fn new(shared: Arc<Shared>, lane: Lane, permit: Permit) -> Self {
        Self { shared, lane, permit, is_reported: false }
    }

    /// Tells the lane how the attempt went, once.
    pub(crate) fn report(&mut self, reception: Reception) {
        if !std::mem::replace(&mut self.is_reported, true) {
            self.shared.report(&self.lane, self.permit, reception);
        }
    }

    /// Where the attempt goes.
    pub(crate) const fn receiver(&self) -> Receiver {
        self.permit.to
    }

    /// Has the attempt go to the fallback, if that one's breaker lets it. A probe stays one.
    pub(crate) fn divert(&mut self) {
        if matches!(self.permit.pass, Pass::Probe(_)) || self.permit.to == Receiver::Fallback {
            return;
        }
        let namespace = &self.lane.namespace;
        let diverted = self.shared.lanes.lock().divert(namespace, self.shared.clock.boot());
        if let Some(pass) = diverted {
            self.permit = Permit { pass, to: Receiver::Fallback, ..self.permit };
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if matches!(self.permit.pass, Pass::Probe(_)) {
            self.report(Reception::Unknown);
        }
        self.shared.free(&self.lane, self.permit);
    }
}

impl Shared {
    /// Queues a verdict. Never waits and never fails while the node runs.
    pub(crate) fn settle_later(
        &self,
        token: Token,
        namespace: NamespaceName,
        verdict: SettleVerdict,
        slot: Option<Slot>,
    ) {
        let shard = usize::from(token.shard().0);
        let (Some(to), Some(unsettled)) = (self.settlers.get(shard), self.unsettled.get(shard))
        else {
            return;
        };
        if unsettled.fetch_add(1, Ordering::Relaxed) == 0 {
            self.settler_beats[shard].turn(self.clock.boot());
        }
        let settlement = Settlement { token, namespace: Some(namespace), verdict };
        if to.send(Entry { settlement, slot }).is_err() {
            // The runtime is shutting down; the store releases what was leased when it opens again.
            unsettled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Hands a firing back uncounted.
    pub(crate) fn release_later(&self, token: Token, namespace: NamespaceName) {
        self.settle_later(token, namespace, SettleVerdict::Release, None);
    }
}

/// Returns how an attempt ends with this verdict, if it is taken; `None` when it does not count as one.
pub(crate) const fn attempt_outcome(verdict: &SettleVerdict) -> Option<AttemptOutcome> {
    match verdict {
        SettleVerdict::Ack => Some(AttemptOutcome::Delivered),
        SettleVerdict::Retry { outcome, .. } => Some(*outcome),
        SettleVerdict::Dead { .. } => Some(AttemptOutcome::Rejected),
        SettleVerdict::Extend { .. } | SettleVerdict::Release => None,
    }
}

/// The verdict of an attempt that ended without anybody knowing how.
pub(crate) fn lease_lost(wait: Wait, reason: &str) -> SettleVerdict {
    SettleVerdict::Retry { wait, outcome: AttemptOutcome::LeaseLost, reason: reason.to_owned() }
}

/// Takes verdicts of one shard to the store until every sender is gone.
pub(crate) async fn run(
    shared: Arc<Shared>,
    shard: ShardId,
    mut entries: mpsc::UnboundedReceiver<Entry>,
) {
    let mut batch = Vec::new();
    let mut patience = Patience::new(shared.options.stall_after);
    while entries.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let count = batch.len();
        let settled = settle(&shared, shard, &mut patience, std::mem::take(&mut batch));
        if AssertUnwindSafe(settled).catch_unwind().await.is_err() {
            give_leases_back(&shared, shard).await;
        }
        shared.unsettled[usize::from(shard.0)].fetch_sub(count, Ordering::Relaxed);
        shared.quieter.notify_waiters();
    }
}

/// After a panic nobody knows which verdicts were taken. A lease of this node has no end of its
/// own, so all are ended: the firings are due again, and what is under way settles in vain.
async fn give_leases_back(shared: &Shared, shard: ShardId) {
    shared.watch.restarted("settling", "panicked; the leases of this node are given back");
    if let Err(error) = shared.store.release_owner(shard, shared.nodes.run()).await {
        shared.log_store_error("release after a panic", &error);
    }
    shared.nodes.begin_again();
}

async fn settle(shared: &Shared, shard: ShardId, patience: &mut Patience, batch: Vec<Entry>) {
    let mut backoff = BACKOFF_MIN;
    let mut one_by_one = batch.len() == 1;
    let mut left = batch;
    while !left.is_empty() {
        shared.settler_beats[usize::from(shard.0)].turn(shared.clock.boot());
        let size = if one_by_one { 1 } else { left.len() };
        let settlements = left[..size].iter().map(|e| e.settlement.clone()).collect();
        let call = shared.store.settle(shard, settlements);
        match patience.wait(call).await.unwrap_or_else(|_elapsed| Err(no_answer(shared))) {
            Ok(outcomes) => {
                let mut in_doubt = Vec::new();
                for (entry, outcome) in left.drain(..size).zip(outcomes) {
                    match outcome {
                        SettleOutcome::InDoubt => in_doubt.push(entry),
                        outcome => taken(shared, &entry, outcome),
                    }
                }
                if !in_doubt.is_empty() {
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    in_doubt.append(&mut left);
                    left = in_doubt;
                }
            }
            Err(error) if error.retry() == Retry::Never && !one_by_one => one_by_one = true,
            Err(error) if error.retry() == Retry::Never => {
                // Nothing can be said of this firing; its lease ends with this node.
                shared.log_store_error("settle (given up)", &error);
                left.remove(0);
            }
            Err(error) => {
                shared.log_store_error("settle", &error);
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }
}

/// How long a call is waited for. A call that is made again waits for all that was written meanwhile,
/// so on a slow disk waiting always equally long would never end: each time-out doubles it, and
/// answers well within it halve it again.
#[derive(Debug)]
struct Patience {
    least: Duration,
    now: Duration,
}

impl Patience {
    const fn new(least: Duration) -> Self {
        Self { least, now: least }
    }

    async fn wait<T>(&mut self, call: impl Future<Output = T>) -> Result<T, Elapsed> {
        let begun = Instant::now();
        let answer = tokio::time::timeout(self.now, call).await;
        if answer.is_err() {
            self.now = (self.now.saturating_mul(2)).min(self.least.saturating_mul(PATIENCE_MAX));
        } else if begun.elapsed() < self.now / 4 {
            self.now = (self.now / 2).max(self.least);
        }
        answer
    }
}

/// A call that hangs is made again: settling twice changes nothing.
fn no_answer(shared: &Shared) -> Error {
    shared.watch.restarted("settling", "got no answer of the store");
    Error::InDoubt { reason: "the store gave no answer".to_owned() }
}

fn taken(shared: &Shared, entry: &Entry, outcome: SettleOutcome) {
    if entry.slot.is_none() {
        return;
    }
    let taken = matches!(outcome, SettleOutcome::Ok | SettleOutcome::Dead);
    let ended = attempt_outcome(&entry.settlement.verdict).filter(|_| taken);
    match (ended, &entry.settlement.namespace) {
        (Some(ended), Some(namespace)) => shared.recorder.attempt(Way::Push, namespace, ended),
        _ => tracing::debug!(outcome = outcome.as_str(), "a verdict changed nothing"),
    }
}
