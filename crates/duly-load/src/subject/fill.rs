//! The part before the measured one: timers are scheduled as fast as the server takes them.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::Run;
use crate::{
    offer::{Offer, offer},
    pace::Pace,
    recorder::Recorder,
    transport::Operation,
};

/// Calls under way.
const LINES: usize = 4;
/// Timers of a call.
const BATCH: u64 = 1_000;
/// It is given up after this.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Run {
    /// Schedules all timers of the run for these times.
    pub(super) async fn fill(
        &mut self,
        due_ms: impl Fn(u64) -> u64 + Send + Sync + 'static,
    ) -> Result<()> {
        let began = Instant::now();
        let timers = self.timers;
        let make = move |send: u64| {
            let numbers = send * BATCH..timers.min((send + 1) * BATCH);
            numbers.map(|number| Operation::Schedule { number, due_ms: due_ms(number) }).collect()
        };
        let sends = timers.div_ceil(BATCH);
        let offered = Offer {
            pace: Pace { began, interval: None, sends, until: began + LONGEST },
            lines: LINES,
            make: Arc::new(make),
            latency: Arc::clone(&self.prepared),
            behind: Arc::new(Recorder::default()),
        };
        offer(offered, &self.target, &self.ledger, &self.stop).await?;
        Ok(())
    }
}
