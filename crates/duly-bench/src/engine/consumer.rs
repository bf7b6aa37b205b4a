//! A consumer: claims firings, reads their payloads, and settles them if the row says so.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use duly_core::{NamespaceName, destination::LaneKey, namespace::LEASE_MAX};
use duly_store::{
    ClaimRequest, Firing, Lane, LaneClaim, Owner, SettleOutcome, SettleVerdict, Settlement, Store,
    StoreFuture,
};
use futures::executor::block_on;

use super::scene::SHARD;
use crate::{
    error::{Error, Result},
    latency::Latencies,
    progress::Progress,
};

/// Longest time without a claimable firing; after it the row fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Wait when nothing is claimable yet.
const PAUSE: Duration = Duration::from_micros(200);
/// Most payload bytes of one claim, too many to be reached.
const CLAIM_BYTES_MAX: u64 = 1 << 30;

/// Handling of a claimed firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Ack,
    Dead,
    Keep,
}

impl Then {
    fn verdict(self) -> Option<SettleVerdict> {
        match self {
            Self::Ack => Some(SettleVerdict::Ack),
            Self::Dead => Some(SettleVerdict::Dead { reason: "refused for good".to_owned() }),
            Self::Keep => None,
        }
    }
}

/// Returns a claim of the pull lane of a namespace.
pub(super) fn claim_request(namespace: &NamespaceName, batch: u32) -> ClaimRequest {
    let lane = Lane { namespace: namespace.clone(), key: LaneKey::Pull };
    let first_max = batch as usize;
    ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max, retry_max: 0 }],
        total_max: first_max,
        bytes_max: CLAIM_BYTES_MAX,
        owner: Owner::Consumer { lease: Some(LEASE_MAX) },
    }
}

/// A consumer that asks for the next claim before it settles the last one, so the engine always has
/// work.
pub(super) struct Consumer<'a> {
    store: &'a dyn Store,
    request: ClaimRequest,
    then: Then,
    settles_max: usize,
    settles: VecDeque<(Instant, StoreFuture<'a, Vec<SettleOutcome>>)>,
    /// Wait when nothing is claimable.
    pub(super) pause: Duration,
    /// Time from call to result, of each claim.
    pub(super) claim_latencies: Latencies,
    /// Time from call to result, of each settle call.
    pub(super) settle_latencies: Latencies,
    /// Claimed firings.
    pub(super) claimed: u64,
    /// Accepted settlements.
    pub(super) settled: u64,
    /// Payload bytes of the claimed firings.
    pub(super) payload_bytes: u64,
    /// Time from the start to the first firing.
    pub(super) first_after: Option<Duration>,
}

impl<'a> Consumer<'a> {
    /// Creates a consumer with `batch` firings per claim and at most `settles_max` settle calls in
    /// progress.
    pub(super) fn new(
        store: &'a dyn Store,
        namespace: &NamespaceName,
        batch: u32,
        settles_max: u32,
        then: Then,
    ) -> Self {
        Self {
            store,
            request: claim_request(namespace, batch),
            then,
            settles_max: settles_max as usize,
            settles: VecDeque::new(),
            pause: PAUSE,
            claim_latencies: Latencies::new(),
            settle_latencies: Latencies::new(),
            claimed: 0,
            settled: 0,
            payload_bytes: 0,
            first_after: None,
        }
    }

    /// Claims firings until there are `goal()` of them. `goal` is called again before each claim.
    pub(super) fn take(&mut self, goal: impl Fn() -> u64, mut progress: Progress) -> Result<()> {
        let began = Instant::now();
        let mut progress_at = began;
        let mut next = (Instant::now(), self.store.claim(SHARD, self.request.clone()));
        while self.claimed < goal() {
            let claimed = block_on(next.1)?;
            self.claim_latencies.record(next.0.elapsed());
            if claimed.firings.is_empty() {
                if progress_at.elapsed() > PATIENCE {
                    let (claimed, timers) = (self.claimed, goal());
                    return Err(Error::Stalled { claimed, timers, patience: PATIENCE });
                }
                thread::sleep(self.pause);
            } else {
                progress_at = Instant::now();
                self.first_after.get_or_insert_with(|| began.elapsed());
            }
            next = (Instant::now(), self.store.claim(SHARD, self.request.clone()));
            self.claimed += claimed.firings.len() as u64;
            self.payload_bytes += claimed.firings.iter().map(payload_bytes).sum::<u64>();
            if !claimed.firings.is_empty() {
                self.settle(claimed.firings)?;
            }
            progress.at(self.claimed);
        }
        while !self.settles.is_empty() {
            self.take_settled()?;
        }
        // The last claim was sent in excess. It must be empty, or its firings would be claimed and
        // not counted.
        let surplus = block_on(next.1)?.firings.len() as u64;
        Error::unless_equal("firings beyond those scheduled", 0, surplus)
    }

    fn settle(&mut self, firings: Vec<Firing>) -> Result<()> {
        let Some(verdict) = self.then.verdict() else {
            return Ok(());
        };
        while self.settles.len() >= self.settles_max {
            self.take_settled()?;
        }
        let settlements = firings
            .into_iter()
            .map(|firing| Settlement {
                token: firing.token,
                namespace: Some(firing.namespace),
                verdict: verdict.clone(),
            })
            .collect();
        self.settles.push_back((Instant::now(), self.store.settle(SHARD, settlements)));
        Ok(())
    }

    fn take_settled(&mut self) -> Result<()> {
        let Some((began, answer)) = self.settles.pop_front() else {
            return Ok(());
        };
        let outcomes = block_on(answer)?;
        self.settle_latencies.record(began.elapsed());
        self.settled += outcomes.len() as u64;
        match outcomes.iter().find(|outcome| **outcome != SettleOutcome::Ok) {
            None => Ok(()),
            Some(other) => Err(Error::Unexpected {
                expected: SettleOutcome::Ok.as_str().to_owned(),
                found: other.as_str().to_owned(),
            }),
        }
    }
}

fn payload_bytes(firing: &Firing) -> u64 {
    firing.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64)
}
