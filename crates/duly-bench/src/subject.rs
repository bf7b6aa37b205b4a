//! Subjects of a run: the timers to schedule, the load to offer, and the wait for firings.
//!
//! A subject keeps all results in the ledger, the recording client and the recorders. So a run that
//! is stopped midway still has its figures.

mod fill;
mod firing;
mod isolation;
mod lists;
mod mix;
mod namespaces;
mod offered;
mod quiet;
mod size;
mod waiting;
mod webhooks;
mod with_history;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    clock::{now_ms, now_us},
    ledger::{Drained, Ledger},
    offer::{Batches, Make, Offer, Work},
    options::{Options, Subject},
    own_server::OwnServer,
    pace::{Pace, Pacer},
    page_cache,
    receiver::Receiver,
    recorder::Recorder,
    recording_client::RecordingClient,
    stop::Stop,
    table::Table,
    target::Target,
    transport::{Client, Settings},
    usage::{Used, Using},
};

pub(crate) use isolation::Stretch;
pub(crate) use namespaces::CALLERS;
use offered::Change;

/// Connections beyond those of the offered load: each consumer leases on one and acknowledges on
/// another.
pub(crate) const LINES_MORE: usize = 2 * firing::CONSUMERS;

/// A run in progress.
pub(crate) struct Run {
    pub(crate) options: Options,
    /// Folder of the data of a server or a store of the run.
    pub(crate) folder: PathBuf,
    pub(crate) timers: u64,
    pub(crate) client: Client,
    pub(crate) target: Arc<Target>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) stop: Stop,
    /// The self-started server, if there is one.
    pub(crate) own: Option<OwnServer>,
    /// Latency of the offered load, or lateness of the firings.
    pub(crate) measured: Arc<Recorder>,
    /// Delay of the load generator's own sends.
    pub(crate) behind: Arc<Recorder>,
    /// Latency of the preparation, which is not measured.
    pub(crate) prepared: Arc<Recorder>,
    /// Description of the current work, if it is neither preparation nor measurement.
    pub(crate) phase: Arc<Mutex<Option<&'static str>>>,
    /// Recording client of a run with a full history.
    pub(crate) recording: Option<Arc<RecordingClient>>,
    /// Parts of an isolation run.
    pub(crate) stretches: Vec<Stretch>,
    /// Operations that were never sent.
    pub(crate) unsent: u64,
    /// `Yes`: every due firing had the time to arrive.
    pub(crate) drained: Drained,
    /// Time from the due time to the last acknowledgement (subject `hot-second`).
    pub(crate) out_after: Option<Duration>,
    /// Difference between the server's state and its acknowledgements, in words.
    pub(crate) differs: Option<String>,
    /// Resources used by the measured part.
    pub(crate) used: Option<Used>,
    /// Figures so far.
    pub(crate) table: Table,
}

impl Run {
    /// Runs the subject.
    pub(crate) async fn go(&mut self) -> Result<()> {
        let receiver = self.start_receiver()?;
        let url = receiver.as_ref().map(Receiver::url);
        self.target.make_main(&Settings { url, lease: None }).await?;
        self.fill_pending().await?;
        match self.options.subject {
            Subject::Ingest => self.ingest().await,
            Subject::Repeat => self.changed(Change::Repeat).await,
            Subject::Reschedule => self.changed(Change::Reschedule).await,
            Subject::Cancel => self.changed(Change::Cancel).await,
            Subject::Debounce => self.debounce().await,
            Subject::Lateness => self.lateness().await,
            Subject::HotSecond => self.hot_second().await,
            Subject::Mixed => self.mixed().await,
            Subject::Isolation => self.isolation().await,
            Subject::Recovery => self.recovery().await,
            Subject::Namespaces => self.namespaces().await,
            Subject::Size => self.size().await,
            Subject::Lists => self.lists().await,
            Subject::DeadLetters => self.dead_letters().await,
            Subject::Waiting => self.waiting().await,
        }
    }

    /// Empties the page cache of the store's files, if the run measures a cold store.
    fn make_cold(&self) -> Result<()> {
        if self.options.cold { page_cache::empty(&self.folder) } else { Ok(()) }
    }

    /// Returns the number of connections of the offered load.
    fn lines(&self) -> usize {
        usize::try_from(self.options.in_flight()).unwrap_or(1)
    }

    /// Returns the timers per call of the offered load.
    fn batch(&self) -> u64 {
        let of_rate = |rate: u32| (rate / 100).clamp(1, 1_000);
        let batch = self.options.batch;
        batch.unwrap_or_else(|| self.options.paced().map_or(1_000, of_rate)).into()
    }

    /// Returns the pace of `sends` sends of `batch` operations each, starting now.
    fn pace(&self, sends: u64, batch: u64) -> Pace {
        let began = Instant::now();
        #[expect(clippy::cast_precision_loss, reason = "a batch is a small number")]
        let interval = |rate: u32| Duration::from_secs_f64(batch as f64 / f64::from(rate));
        Pace {
            began,
            interval: self.options.paced().map(interval),
            sends,
            until: began + self.lasts_at_most(),
        }
    }

    /// Returns the longest duration. With a rate it is twice the requested time, for a server that
    /// is slower than the rate.
    fn lasts_at_most(&self) -> Duration {
        let times = if self.options.paced().is_some() { 2 } else { 1 };
        Duration::from_secs(self.options.seconds()) * times
    }

    /// Returns the time between the start of scheduling and the first due time, for this number of
    /// timers.
    fn lead_ms(timers: u64) -> u64 {
        2_000 + timers / 20
    }

    fn ensure_still_ahead(&self, due_ms: u64) -> Result<()> {
        ensure!(
            self.stop.is_wanted() || now_ms() < due_ms,
            "the server had not taken all timers when the first was due: try fewer timers"
        );
        Ok(())
    }

    /// Returns the process id of the self-started server, if there is one.
    fn pid(&self) -> Option<u32> {
        self.own.as_ref().map(OwnServer::pid)
    }

    /// Returns the work of sending operations to the main namespace.
    fn batches(&self, make: Make) -> Arc<Batches> {
        let (target, ledger) = (Arc::clone(&self.target), Arc::clone(&self.ledger));
        let namespace = target.namespace.clone();
        Arc::new(Batches { make, namespace, target, ledger })
    }

    /// Returns the measured load, with this pace.
    fn offered(&self, pace: Pace, lines: usize, work: Arc<dyn Work>) -> Result<Offer> {
        let (latency, behind) = (Arc::clone(&self.measured), Arc::clone(&self.behind));
        let pacer = pace.interval.map(|_| Pacer::start(pace, lines)).transpose();
        let pacer = pacer.context("no thread to send at fixed times")?;
        Ok(Offer { pace, pacer, lines, work, latency, behind })
    }

    async fn offer(&mut self, pace: Pace, lines: usize, make: Make) -> Result<()> {
        let offer = self.offered(pace, lines, self.batches(make))?;
        let using = Using::begin(self.pid());
        self.unsent = crate::offer::offer(offer, &self.stop).await?;
        self.used = using.end();
        Ok(())
    }

    /// Sets the description of the current work.
    fn say(&self, phase: &'static str) {
        *self.phase.lock() = Some(phase);
    }

    /// Checks that the server has as many pending timers as its acknowledgements imply.
    async fn compare_pending(&mut self) -> Result<()> {
        let counts = self.ledger.counts(Drained::No);
        let expected = counts.acknowledged.saturating_sub(counts.cancelled);
        let namespace = self.target.namespace.clone();
        self.expect_pending(&namespace, expected).await
    }

    async fn expect_pending(&mut self, namespace: &str, expected: u64) -> Result<()> {
        let pending = self.target.transport.pending(0, namespace).await?;
        if pending != expected {
            self.differs.get_or_insert(format!(
                "{pending} timers are pending, and by what was acknowledged it must be {expected}"
            ));
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-6)
}

/// Returns the instant of a future Unix time, by the present wall clock.
fn at(unix_ms: u64) -> Instant {
    Instant::now() + Duration::from_micros((unix_ms * 1_000).saturating_sub(now_us()))
}

/// Returns a hash of the number: neighbours get distant values.
const fn scattered(number: u64) -> u64 {
    // The finalizer of splitmix64.
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
