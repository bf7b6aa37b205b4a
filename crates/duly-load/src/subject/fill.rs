//! Preparation of a run: schedules timers as fast as the server accepts them.

use std::{ops::Range, sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::Run;
use crate::{
    offer::{Batches, Offer, offer},
    pace::Pace,
    recorder::Recorder,
    transport::Operation,
};

/// Calls in flight.
const LINES: usize = 4;
/// Timers per call.
const BATCH: u64 = 1_000;
/// Longest duration of the preparation.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Run {
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
            metronome: None,
            lines: LINES,
            work: Arc::new(work),
            latency: Arc::clone(&self.prepared),
            behind: Arc::new(Recorder::default()),
        };
        offer(offered, &self.stop).await.map(drop)
    }
}
