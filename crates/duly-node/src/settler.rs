//! The settler: writes verdicts to the store.
//!
//! 1. One task per shard settles all verdicts that arrived while the last batch was being made durable.
//!    So batches grow with the load.
//! 2. It retries a batch that failed for as long as the process lives.
//! 3. The slot of an attempt is freed only when the store has accepted its verdict. So a store that is
//!    down stops new claims, and no verdict is lost.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use duly_core::{
    NamespaceName,
    error_code::Retry,
    shard::ShardId,
    timer::{AttemptOutcome, Wait, own_reason},
};
use duly_sink::ReceiverHealth;
use duly_store::{Error, Lane, SettleOutcome, SettleVerdict, Settlement, Token};
use futures::FutureExt;
use tokio::{
    sync::mpsc,
    time::{Instant, error::Elapsed},
};

use crate::{
    lanes::{Admission, Permit, Receiver},
    recorder::{AttemptEnd, DeliveryMode},
    state::Shared,
    traces::TimerSpan,
};

/// Most verdicts in one call.
const BATCH_MAX: usize = 1_000;
/// Pause after the first call that failed.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Longest pause between two calls.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Longest time-out of a call, as a multiple of `stall_after`.
const TIMEOUT_FACTOR_MAX: u32 = 64;

/// One verdict. If it is that of a push attempt, it has the slot, which is freed when the store accepts it, and
/// the *settle* span.
#[derive(Debug)]
pub(crate) struct UnsettledVerdict {
    pub(crate) settlement: Settlement,
    pub(crate) attempt: Option<(Slot, TimerSpan)>,
}

/// A slot of a lane; it is freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Lane,
    pub(crate) permit: Permit,
    pub(crate) is_reported: bool,
}

impl Slot {
    /// Reports the health of the receiver to the lane; only the first report counts.
    pub(crate) fn report(&mut self, health: ReceiverHealth) {
        if !std::mem::replace(&mut self.is_reported, true) {
            self.shared.report(&self.lane, self.permit, health);
        }
    }

    /// Diverts the attempt to the fallback, if the fallback's breaker admits it. A probe is not
    /// diverted.
    pub(crate) fn divert(&mut self) {
        if matches!(self.permit.admission, Admission::Probe(_))
            || self.permit.to == Receiver::Fallback
        {
            return;
        }
        let (namespace, now) = (&self.lane.namespace, self.shared.clock.boot());
        let diverted = self.shared.pools.webhooks().divert(namespace, self.permit.kind, now);
        if let Some(admission) = diverted {
            self.permit = Permit { admission, to: Receiver::Fallback, ..self.permit };
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if matches!(self.permit.admission, Admission::Probe(_)) {
            self.report(ReceiverHealth::Unknown);
        }
        self.shared.free(&self.lane, self.permit);
    }
}

impl Shared {
    /// Queues a verdict. Never waits, and never fails while the node runs.
    pub(crate) fn settle_later(
        &self,
        token: Token,
        namespace: NamespaceName,
        verdict: SettleVerdict,
        attempt: Option<(Slot, TimerSpan)>,
    ) {
        let shard = usize::from(token.shard().0);
        let (Some(to), Some(unsettled)) = (self.settlers.get(shard), self.unsettled.get(shard))
        else {
            return;
        };
        if unsettled.fetch_add(1, Ordering::Relaxed) == 0 {
            self.settler_progress[shard].record_iteration(self.clock.boot());
        }
        let mut settlement = Settlement { token, namespace: Some(namespace), verdict };
        self.options.reasons.apply(&mut settlement, own_reason);
        if to.send(UnsettledVerdict { settlement, attempt }).is_err() {
            // The runtime is shutting down; the store releases the leases when it opens again.
            unsettled.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Releases a firing: the attempt is not counted.
    pub(crate) fn release_later(&self, token: Token, namespace: NamespaceName) {
        self.settle_later(token, namespace, SettleVerdict::Release, None);
    }
}

/// Returns the end of an attempt with this verdict, if the store accepts it; `None` if the verdict ends no
/// attempt.
pub(crate) const fn attempt_end(verdict: &SettleVerdict) -> Option<AttemptEnd> {
    match verdict {
        SettleVerdict::Ack => Some(AttemptEnd::Counted(AttemptOutcome::Delivered)),
        SettleVerdict::Retry { outcome, .. } => Some(AttemptEnd::Counted(*outcome)),
        SettleVerdict::Dead { .. } => Some(AttemptEnd::Counted(AttemptOutcome::Rejected)),
        SettleVerdict::Snooze { .. } => Some(AttemptEnd::Snoozed),
        SettleVerdict::Extend { .. } | SettleVerdict::Release => None,
    }
}

/// Returns the verdict of an attempt whose result is unknown.
pub(crate) fn lease_lost(wait: Wait, reason: &str) -> SettleVerdict {
    SettleVerdict::Retry { wait, outcome: AttemptOutcome::LeaseLost, reason: reason.to_owned() }
}

/// Settles the verdicts of one shard until every sender is gone.
pub(crate) async fn run(
    shared: Arc<Shared>,
    shard: ShardId,
    mut entries: mpsc::UnboundedReceiver<UnsettledVerdict>,
) {
    let mut batch = Vec::new();
    let mut timeout = SettleTimeout::new(shared.options.stall_after);
    while entries.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let count = batch.len();
        let settled = settle(&shared, shard, &mut timeout, std::mem::take(&mut batch));
        if AssertUnwindSafe(settled).catch_unwind().await.is_err() {
            end_own_leases(&shared, shard).await;
        }
        shared.unsettled[usize::from(shard.0)].fetch_sub(count, Ordering::Relaxed);
        shared.drain_progress.notify_waiters();
    }
}

/// Ends all leases of this node after a panic, because it is unknown which verdicts were accepted and a
/// node's lease does not expire. The firings become due again; attempts under way settle without effect.
async fn end_own_leases(shared: &Shared, shard: ShardId) {
    shared.watch.restarted("the settler", "panicked; this node's leases in the shard are ended");
    if let Err(error) = shared.store.release_owner(shard, shared.nodes.member_id()).await {
        shared.log_store_error("release after a panic", &error);
    }
    shared.nodes.rejoin();
}

async fn settle(
    shared: &Shared,
    shard: ShardId,
    timeout: &mut SettleTimeout,
    batch: Vec<UnsettledVerdict>,
) {
    let mut backoff = BACKOFF_MIN;
    let mut one_by_one = batch.len() == 1;
    let mut left = batch;
    while !left.is_empty() {
        shared.settler_progress[usize::from(shard.0)].record_iteration(shared.clock.boot());
        let size = if one_by_one { 1 } else { left.len() };
        let settlements = left[..size].iter().map(|e| e.settlement.clone()).collect();
        let call = shared.store.settle(shard, settlements);
        match timeout.wait(call).await.unwrap_or_else(|_elapsed| Err(timed_out_error(shared))) {
            Ok(outcomes) => {
                let mut in_doubt = Vec::new();
                for (entry, outcome) in left.drain(..size).zip(outcomes) {
                    match outcome {
                        SettleOutcome::InDoubt => in_doubt.push(entry),
                        outcome => on_settled(shared, entry, outcome),
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
                // This firing cannot be settled; its lease ends with this node.
                shared.log_store_error("settle (permanent error; verdict dropped)", &error);
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

/// The time-out of settle calls. A repeated call waits for all that was written meanwhile, so on a slow
/// disk a constant time-out could fail for ever. Each time-out doubles it; a reply within a quarter of
/// it halves it again.
#[derive(Debug)]
struct SettleTimeout {
    least: Duration,
    now: Duration,
}

impl SettleTimeout {
    const fn new(least: Duration) -> Self {
        Self { least, now: least }
    }

    async fn wait<T>(&mut self, call: impl Future<Output = T>) -> Result<T, Elapsed> {
        let started = Instant::now();
        let answer = tokio::time::timeout(self.now, call).await;
        if answer.is_err() {
            self.now =
                (self.now.saturating_mul(2)).min(self.least.saturating_mul(TIMEOUT_FACTOR_MAX));
        } else if started.elapsed() < self.now / 4 {
            self.now = (self.now / 2).max(self.least);
        }
        answer
    }
}

/// Returns the error of a call that timed out. The call is repeated, because settling twice changes
/// nothing.
fn timed_out_error(shared: &Shared) -> Error {
    shared.watch.restarted("a settle call", "store call timed out; it is repeated");
    Error::InDoubt { reason: "the store did not reply in time".to_owned() }
}

fn on_settled(shared: &Shared, entry: UnsettledVerdict, outcome: SettleOutcome) {
    let Some((_slot, span)) = entry.attempt else {
        return;
    };
    span.end(outcome.as_str(), None);
    let ended = attempt_end(&entry.settlement.verdict).filter(|_| outcome.is_accepted());
    match (ended, &entry.settlement.namespace) {
        (Some(ended), Some(namespace)) => {
            shared.recorder.attempt(DeliveryMode::Push, namespace, ended)
        }
        _ => tracing::debug!(outcome = outcome.as_str(), "verdict not counted as an attempt"),
    }
}
