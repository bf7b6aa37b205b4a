//! Preparation of a run: schedules timers as fast as the server accepts them.

use std::{ops::Range, sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::{Run, scattered};
use crate::{
    clock::now_ms,
    offer::{Batches, Offer, offer},
    pace::Pace,
    recorder::Recorder,
    transport::{Operation, Settings},
};

/// Calls in flight.
const LINES: usize = 4;
/// Timers per call.
const BATCH: u64 = 1_000;
/// Delay of the first timer that stays pending beside the measured ones.
const REST_MS: u64 = 24 * 3_600_000;
/// Range of their due times.
const REST_SPREAD_MS: u64 = 30 * 24 * 3_600_000;
/// Longest duration of the preparation.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Run {
    /// Schedules the timers that stay pending in a namespace of their own. They are not in the
    /// ledger.
    pub(super) async fn fill_pending(&self) -> Result<()> {
        let Some(pending) = self.options.pending else { return Ok(()) };
        let namespace = self.target.make(0, "pending", &Settings::default()).await?;
        let first_ms = now_ms() + REST_MS;
        let numbers = self.timers..self.timers + u64::from(pending);
        let due_ms = move |number| first_ms + scattered(number) % REST_SPREAD_MS;
        self.fill_into(&namespace, numbers, due_ms).await
    }

    /// Schedules all timers of the run at these due times.
    pub(super) async fn fill(
        &self,
        due_ms: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Result<()> {
        self.fill_into(&self.target.namespace, 0..self.timers, due_ms).await
    }

    /// Schedules the timers with these numbers in this namespace.
    pub(super) async fn fill_into(
        &self,
        namespace: &str,
        numbers: Range<u64>,
        due_ms: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Result<()> {
        let sends = (numbers.end - numbers.start).div_ceil(BATCH);
        let make = move |send: u64| {
            let first = numbers.start + send * BATCH;
            let numbers = first..numbers.end.min(first + BATCH);
            numbers.map(|number| Operation::Schedule { number, due_ms: due_ms(number) }).collect()
        };
        let (target, ledger) = (Arc::clone(&self.target), Arc::clone(&self.ledger));
        let namespace = namespace.to_owned();
        let work = Batches { make: Arc::new(make), namespace, target, ledger };
        let began = Instant::now();
        let offered = Offer {
            pace: Pace { began, interval: None, sends, until: began + LONGEST },
            pacer: None,
            lines: LINES,
            work: Arc::new(work),
            latency: Arc::clone(&self.prepared),
            behind: Arc::new(Recorder::default()),
        };
        offer(offered, &self.stop).await.map(drop)
    }
}
