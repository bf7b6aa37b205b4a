//! Recording client of runs with a full history: it records each call, each firing and each kill,
//! and [`duly_checker::checker`] checks the history.
//!
//! A call that fails is in doubt, and the run continues: an error does not tell whether the server
//! made the change.

mod consume;
mod figures;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use duly_checker::history::{Answer, Crash, End, Operation, Recorder as History};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    clock::now_us,
    offer::Sent,
    recorder::Recorder,
    target::Target,
    transport::{Ask, RecordingTransport},
};

pub(crate) use consume::CONSUMERS;
pub(crate) use figures::Checked;

/// Pause before the next attempt after a call failed.
const PAUSE: Duration = Duration::from_millis(5);

/// Recording client of one namespace.
pub(crate) struct RecordingClient {
    transport: Arc<dyn RecordingTransport>,
    target: Arc<Target>,
    namespace: String,
    history: History,
    beside: u64,
    /// Lateness of first attempts: received minus due.
    pub(crate) lateness: Arc<Recorder>,
    /// Kills and returns of the server so far; odd while the server is down.
    outages: AtomicU64,
    is_over: AtomicBool,
    has_waited: AtomicBool,
}

impl RecordingClient {
    /// Creates the recording client of a namespace. Timers with numbers from `beside` on do not
    /// count for the lateness.
    pub(crate) fn new(
        transport: Arc<dyn RecordingTransport>,
        target: Arc<Target>,
        namespace: String,
        beside: u64,
    ) -> Self {
        Self {
            beside,
            transport,
            target,
            namespace,
            history: History::default(),
            lateness: Arc::default(),
            outages: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
        }
    }

    /// Returns the namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends operations as one call and records their results.
    pub(crate) async fn ask(&self, line: usize, asks: &[Ask]) -> Sent {
        let key = |ask: &Ask| self.history.key(&self.namespace, &ask.number.to_string());
        let keys: Vec<_> = asks.iter().map(key).collect();
        let outage = self.outage();
        let (began, sent_us) = (Instant::now(), now_us());
        let answers = self.transport.ask(line, &self.namespace, asks).await;
        let (ended, ended_us) = (Instant::now(), now_us());
        let answered = if answers.is_ok() { asks.len() as u64 } else { 0 };
        let answers = answers.unwrap_or_else(|error| {
            self.remark(outage, &error);
            vec![Answer::InDoubt; asks.len()]
        });
        for ((ask, key), answer) in asks.iter().zip(keys).zip(answers) {
            let (key, action) = (Some(key), ask.action);
            self.history.operation(Operation { key, sent_us, ended_us, action, answer });
        }
        Sent { began, ended, answered }
    }

    /// Announces a kill of the server: calls that overlap with the outage may fail without a remark.
    pub(crate) fn goes_down(&self) {
        self.outages.fetch_add(1, Relaxed);
    }

    /// Records a crash and that the server is ready again.
    pub(crate) fn is_back(&self, crash: Crash) {
        self.history.crash(crash);
        self.outages.fetch_add(1, Relaxed);
    }

    /// Notes that every due firing had the time to arrive. The checker then counts missing ones.
    pub(crate) fn has_waited(&self) {
        self.has_waited.store(true, Relaxed);
    }

    /// Tells the consumers to end.
    pub(crate) fn is_over(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Reads every recorded timer back, over `lines` connections, and records its final state.
    pub(crate) async fn read_back(self: &Arc<Self>, lines: usize) -> Result<()> {
        let keys = Arc::new(parking_lot::Mutex::new(self.history.keys()));
        let mut readers = JoinSet::new();
        for line in 0..lines {
            let (recording, keys) = (Arc::clone(self), Arc::clone(&keys));
            readers.spawn(async move {
                loop {
                    let Some(key) = keys.lock().pop() else { return anyhow::Ok(()) };
                    let last = recording.transport.read(line, &key.namespace, &key.id).await?;
                    recording.history.end(End {
                        key: recording.history.key(&key.namespace, &key.id),
                        read_us: now_us(),
                        state: last.state,
                        due_ms: last.due_ms,
                        mark: last.mark,
                    });
                }
            });
        }
        while let Some(reader) = readers.join_next().await {
            reader??;
        }
        Ok(())
    }

    /// Returns the outage that a call begins in or before; see [`RecordingClient::remark`].
    fn outage(&self) -> u64 {
        self.outages.load(Relaxed)
    }

    /// Adds a remark about a failed call that began at `outage`, unless the server was down at any
    /// time of the call. An error is often seen only after the server is back.
    fn remark(&self, outage: u64, error: &anyhow::Error) {
        let was_up = outage.is_multiple_of(2) && self.outage() == outage;
        if was_up {
            self.target.remark(format!("a call had no answer: {error:#}"));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
