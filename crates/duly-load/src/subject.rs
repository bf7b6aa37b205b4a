//! What each subject does: what is scheduled, what is offered by the pace, what is waited for.
//!
//! Everything a subject finds out is in the ledger and the recorders, so that a run which is stopped
//! half-way has its figures all the same.

mod fill;
mod firing;
mod offered;

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::{
    clock::now_ms,
    ledger::{Drained, Ledger},
    offer::Make,
    options::{Options, Subject},
    pace::Pace,
    recorder::Recorder,
    stop::Stop,
    target::Target,
    usage::{Used, Using},
};

/// Timers of a run, at most: five bytes each are kept, and four more for a random order.
const TIMERS_MAX: u64 = 50_000_000;
/// Operations of a call, at most: what the server takes.
const BATCH_MAX: u32 = 10_000;
/// Calls under way, at most.
const IN_FLIGHT_MAX: u32 = 1_000;
/// Bytes of a payload, at most: a batch must stay below what the server takes.
const PAYLOAD_BYTES_MAX: usize = 65_536;
/// Seconds, at most.
const SECONDS_MAX: u64 = 3_600;
/// Lines of consumers: each leases on one and acknowledges on another.
pub(crate) const LINES_MIN: usize = 2 * firing::CONSUMERS;
/// Firings a second of `lateness` without a rate.
const RATE: u32 = 2_000;

/// A run under way.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) timers: u64,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) stop: Stop,
    /// Latency of what is offered, or lateness of what fires.
    pub(crate) measured: Arc<Recorder>,
    /// How late the generator's own sends were.
    pub(crate) behind: Arc<Recorder>,
    /// Of the part that is not measured.
    pub(crate) prepared: Arc<Recorder>,
    /// Operations that were never sent.
    pub(crate) unsent: u64,
    /// Whether everything that was due had the time to come.
    pub(crate) drained: Drained,
    /// From the due time to the last acknowledgement, of a hot second.
    pub(crate) out_after: Option<Duration>,
    /// What the server has otherwise than it said.
    pub(crate) differs: Option<String>,
    /// What the measured part used.
    pub(crate) used: Option<Used>,
}

/// Complains of what is not allowed; answers the timers of the run.
pub(crate) fn check(options: &Options) -> Result<u64> {
    let seconds = options.duration.as_secs();
    ensure!(
        (1..=SECONDS_MAX).contains(&seconds),
        "{seconds} seconds: 1 to {SECONDS_MAX} are allowed"
    );
    let batch = options.batch.unwrap_or(1);
    ensure!(
        (1..=BATCH_MAX).contains(&batch),
        "batches of {batch}: 1 to {BATCH_MAX} timers are allowed"
    );
    let in_flight = options.in_flight;
    ensure!(
        (1..=IN_FLIGHT_MAX).contains(&in_flight),
        "{in_flight} calls under way: 1 to {IN_FLIGHT_MAX} are allowed"
    );
    let bytes = options.payload_bytes;
    ensure!(
        bytes <= PAYLOAD_BYTES_MAX,
        "payloads of {bytes} bytes: 0 to {PAYLOAD_BYTES_MAX} are allowed"
    );
    ensure!(options.rate != Some(0), "a rate of 0: leave it out to send as fast as possible");
    let of_rate = |rate: u32| u64::from(rate) * seconds;
    let timers = match (options.subject, options.rate) {
        (Subject::Lateness, rate) => of_rate(rate.unwrap_or(RATE)),
        (Subject::Ingest | Subject::Cancel, Some(rate)) => of_rate(rate),
        (Subject::Debounce, _) => options.timers.unwrap_or(10_000).into(),
        (Subject::Ingest | Subject::Cancel | Subject::HotSecond, _) => {
            options.timers.unwrap_or(1_000_000).into()
        }
    };
    ensure!(
        (1..=TIMERS_MAX).contains(&timers),
        "{timers} timers: 1 to {TIMERS_MAX} are allowed; lower the rate, the seconds or the timers"
    );
    Ok(timers)
}

impl Run {
    /// Does it.
    pub(crate) async fn go(&mut self) -> Result<()> {
        match self.options.subject {
            Subject::Ingest => self.ingest().await,
            Subject::Cancel => self.cancel().await,
            Subject::Debounce => self.debounce().await,
            Subject::Lateness => self.lateness().await,
            Subject::HotSecond => self.hot_second().await,
        }
    }

    /// Lines of what is offered.
    fn lines(&self) -> usize {
        usize::try_from(self.options.in_flight).unwrap_or(1)
    }

    /// Timers of a call of what is offered.
    fn batch(&self) -> u64 {
        let of_rate = |rate: u32| (rate / 100).clamp(1, 1_000);
        let batch = self.options.batch;
        batch.unwrap_or_else(|| self.options.rate.map_or(1_000, of_rate)).into()
    }

    /// The pace of so many sends of such batches, from now.
    fn pace(&self, sends: u64, batch: u64) -> Pace {
        let began = Instant::now();
        #[expect(clippy::cast_precision_loss, reason = "a batch is a small number")]
        let interval = |rate: u32| Duration::from_secs_f64(batch as f64 / f64::from(rate));
        Pace {
            began,
            interval: self.options.rate.map(interval),
            sends,
            until: began + self.lasts_at_most(),
        }
    }

    /// A server that is slower than the rate has as much time again.
    fn lasts_at_most(&self) -> Duration {
        self.options.duration * if self.options.rate.is_some() { 2 } else { 1 }
    }

    /// How long before the first due time scheduling begins.
    fn lead_ms(&self) -> u64 {
        2_000 + self.timers / 20
    }

    fn ensure_still_ahead(&self, due_ms: u64) -> Result<()> {
        ensure!(
            self.stop.is_wanted() || now_ms() < due_ms,
            "the server took longer than {} ms to take the timers, and the first is due: try fewer \
             timers",
            self.lead_ms()
        );
        Ok(())
    }

    async fn offer(&mut self, pace: Pace, lines: usize, make: Make) -> Result<()> {
        let (latency, behind) = (Arc::clone(&self.measured), Arc::clone(&self.behind));
        let offer = crate::offer::Offer { pace, lines, make, latency, behind };
        let using = Using::begin(self.target.pid);
        self.unsent = crate::offer::offer(offer, &self.target, &self.ledger, &self.stop).await?;
        self.used = using.end();
        Ok(())
    }

    /// What the server says is pending must be what it said before.
    async fn compare_pending(&mut self) -> Result<()> {
        let counts = self.ledger.counts(Drained::No);
        let expected = counts.acknowledged.saturating_sub(counts.cancelled);
        let pending = self.target.transport.pending(&self.target.namespace).await?;
        if pending != expected {
            self.differs = Some(format!(
                "{pending} timers are pending, and by what was acknowledged it must be {expected}"
            ));
        }
        Ok(())
    }
}
