//! Options of a consumer, checked when it starts.

use std::time::Duration;

use super::{Consumer, Handler};
use crate::{
    builder::{check_runtime, within},
    client::Client,
    error::{Invalid, Result},
};

/// Most firings that a consumer may hold; also the server's limit.
const CONCURRENCY_MAX: usize = 10_000;
/// Most delivery ids that are remembered.
const DEDUP_ENTRIES_MAX: usize = 10_000_000;

/// Options of the deduplication of deliveries.
///
/// A consumer remembers the ids of the deliveries whose handler returned `Ok`. When such a delivery
/// comes again, it is acknowledged without calling the handler. This covers acknowledgements that got
/// lost with a connection, and leases that ended while the handler worked.
///
/// It does not cover:
///
/// - another process, or this one after a restart,
/// - ids that were evicted, because there were too many of them or too much time had passed,
/// - handlers that did their work and then failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dedup {
    /// Most ids that are remembered: up to 10,000,000 at about 100 bytes each; 0 remembers none. The
    /// least recently used id is evicted first. Default 10,000.
    pub entries_max: usize,
    /// Time for which an id is remembered after its delivery was handled: up to a day, default 10 min.
    pub keep: Duration,
}

impl Default for Dedup {
    fn default() -> Self {
        Self { entries_max: 10_000, keep: Duration::from_secs(600) }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) stop_within: Duration,
    pub(super) dedup: Dedup,
}

impl Options {
    fn check(&self) -> Result<(), Invalid> {
        within("concurrency", self.concurrency, 1, CONCURRENCY_MAX)?;
        let seconds = Duration::from_secs;
        within("lease", self.lease, seconds(1), seconds(12 * 3_600))?;
        within("stop_within", self.stop_within, Duration::ZERO, seconds(12 * 3_600))?;
        within("dedup.entries_max", self.dedup.entries_max, 0, DEDUP_ENTRIES_MAX)?;
        within("dedup.keep", self.dedup.keep, Duration::ZERO, seconds(86_400))
    }
}

/// Starts a [`Consumer`]; see [`Client::consumer`].
#[derive(Debug, Clone)]
#[must_use = "a consumer is started by start()"]
pub struct ConsumerBuilder {
    client: Client,
    namespace: String,
    options: Options,
}

impl ConsumerBuilder {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        let options = Options {
            concurrency: 16,
            lease: Duration::from_secs(30),
            stop_within: Duration::from_secs(25),
            dedup: Dedup::default(),
        };
        Self { client, namespace, options }
    }

    /// Sets the number of firings that are handled at once: 1 to 10,000, default 16.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.options.concurrency = concurrency;
        self
    }

    /// Sets the length of each lease: 1 s to 12 h, default 30 s. It is extended while the handler runs.
    /// So it need only cover the time until other consumers may take over from a process that died.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets the time that handlers have after a stop: up to 12 h, default 25 s. Firings that arrive on
    /// credits given before the stop are released only at its end. So keep it short if other consumers
    /// wait.
    pub fn stop_within(mut self, limit: Duration) -> Self {
        self.options.stop_within = limit;
        self
    }

    /// Sets the deduplication of deliveries.
    pub fn dedup(mut self, dedup: Dedup) -> Self {
        self.options.dedup = dedup;
        self
    }

    /// Checks the options, and starts the consumer on the current Tokio runtime.
    pub fn start(self, handler: impl Handler) -> Result<Consumer> {
        self.options.check()?;
        check_runtime("start", "called within a Tokio runtime")?;
        Consumer::start(self.client, &self.namespace, self.options, handler)
    }
}
