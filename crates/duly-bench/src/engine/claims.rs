//! A hot second: every timer is due at one instant, and one consumer takes them all.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use duly_core::{destination::LaneKey, namespace::LEASE_MAX};
use duly_store::{
    ClaimRequest, Firing, Lane, LaneClaim, Owner, SettleOutcome, SettleVerdict, Settlement, Store,
    StoreFuture,
};
use futures::executor::block_on;

use super::{
    Bench, Name, ingest, rows,
    scene::{Due, SHARD, Scene},
};
use crate::{
    error::{Error, Result},
    latency::Latencies,
    usage::{Span, own_thread_cpu},
};

/// How long nothing may be claimable before a row is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait when nothing is claimable yet.
const PAUSE: Duration = Duration::from_micros(200);
/// Payload bytes of one claim: never what ends it.
const CLAIM_BYTES_MAX: u64 = 1 << 30;

/// What becomes of a claimed firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Ack,
    Keep,
}

/// Claim, read, durable ack.
pub(super) fn measure_fire(bench: &mut Bench<'_>) -> Result<()> {
    let batch = bench.options.batch;
    let about = format!(
        "all due at one instant: claim + read + durable ack, one consumer, batches of {batch}; \
         p50… of an ack"
    );
    measure(bench, Name::Fire, about, Then::Ack)
}

/// Claim and read.
pub(super) fn measure_claim(bench: &mut Bench<'_>) -> Result<()> {
    let batch = bench.options.batch;
    let about = format!(
        "all due at one instant: claim + read only, one consumer, batches of {batch}; p50… of a \
         claim"
    );
    measure(bench, Name::Claim, about, Then::Keep)
}

fn measure(bench: &mut Bench<'_>, name: Name, about: String, then: Then) -> Result<()> {
    let options = bench.options;
    let scene = Scene::fresh(bench.folder, options, Due::AtOnce)?;
    ingest::fill(&scene, options.timers, options.batch, options.in_flight)?;
    let mut consumer = Consumer {
        store: scene.store(),
        request: claim_request(&scene, options.batch),
        settles_max: options.in_flight as usize,
        settles: VecDeque::new(),
        claim_latencies: Latencies::new(),
        settle_latencies: Latencies::new(),
        claimed: 0,
        payload_bytes: 0,
        first_after: None,
    };
    let cpu_before = own_thread_cpu();
    let span = Span::begin();
    scene.leap_to_due();
    consumer.take_all(u64::from(options.timers), then)?;
    let spent = span.end();
    let cpu = own_thread_cpu().saturating_sub(cpu_before);
    let read = u64::from(options.timers) * u64::from(options.payload_bytes);
    Error::unless_equal("bytes of payload", read, consumer.payload_bytes)?;
    let in_flight = if then == Then::Keep { consumer.claimed } else { 0 };
    let stats = scene.stats()?;
    Error::unless_equal("firings in flight", in_flight, stats.in_flight)?;
    Error::unless_equal("pending timers", in_flight, stats.pending())?;
    let row = bench.report.row(name.as_str(), about, consumer.claimed);
    rows::add_spent(row, consumer.claimed, &spent);
    rows::add_callers(row, consumer.claimed, &spent, cpu);
    let latencies = match then {
        Then::Ack => &consumer.settle_latencies,
        Then::Keep => &consumer.claim_latencies,
    };
    rows::add_latencies(row, latencies);
    let first_after = consumer.first_after.unwrap_or_default();
    row.add("first firing after", "ms", first_after.as_secs_f64() * 1e3);
    drop(consumer);
    scene.remove()
}

fn claim_request(scene: &Scene, batch: u32) -> ClaimRequest {
    let lane = Lane { namespace: scene.namespace.clone(), key: LaneKey::Pull };
    let first_max = batch as usize;
    ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max, retry_max: 0 }],
        total_max: first_max,
        bytes_max: CLAIM_BYTES_MAX,
        owner: Owner::Consumer { lease: Some(LEASE_MAX) },
    }
}

/// Asks for the next claim before it settles the last one, so that the engine always has work.
struct Consumer<'a> {
    store: &'a dyn Store,
    request: ClaimRequest,
    settles_max: usize,
    settles: VecDeque<(Instant, StoreFuture<'a, Vec<SettleOutcome>>)>,
    claim_latencies: Latencies,
    settle_latencies: Latencies,
    claimed: u64,
    payload_bytes: u64,
    first_after: Option<Duration>,
}

impl Consumer<'_> {
    fn take_all(&mut self, timers: u64, then: Then) -> Result<()> {
        let began = Instant::now();
        let mut progress_at = began;
        let mut next = (Instant::now(), self.store.claim(SHARD, self.request.clone()));
        while self.claimed < timers {
            let claimed = block_on(next.1)?;
            self.claim_latencies.record(next.0.elapsed());
            if claimed.firings.is_empty() {
                if progress_at.elapsed() > PATIENCE {
                    let claimed = self.claimed;
                    return Err(Error::Stalled { claimed, timers, patience: PATIENCE });
                }
                thread::sleep(PAUSE);
            } else {
                progress_at = Instant::now();
                self.first_after.get_or_insert_with(|| began.elapsed());
            }
            next = (Instant::now(), self.store.claim(SHARD, self.request.clone()));
            self.claimed += claimed.firings.len() as u64;
            self.payload_bytes += claimed.firings.iter().map(payload_bytes).sum::<u64>();
            if then == Then::Ack && !claimed.firings.is_empty() {
                self.ack(claimed.firings)?;
            }
        }
        while !self.settles.is_empty() {
            self.take_settled()?;
        }
        Ok(())
    }

    fn ack(&mut self, firings: Vec<Firing>) -> Result<()> {
        while self.settles.len() >= self.settles_max {
            self.take_settled()?;
        }
        let settlements = firings
            .into_iter()
            .map(|firing| Settlement {
                token: firing.token,
                namespace: Some(firing.namespace),
                verdict: SettleVerdict::Ack,
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
