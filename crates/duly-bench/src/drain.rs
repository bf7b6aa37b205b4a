//! Consumers: they lease the firings that are due, record them in the ledger and acknowledge them.
//!
//! A consumer leases on one connection and acknowledges on another at the same time, or it does
//! both on one gRPC stream.

mod stream;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use duly_checker::history::SettleAnswer;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use crate::{
    clock::now_us,
    ledger::{Drained, Ledger},
    recorder::Recorder,
    stop::Stop,
    target::Target,
    transport::{Firing, Verdict, grpc::Grpc},
};

/// Longest wait of a lease call. A consumer detects the end of the run only after this wait.
const WAIT_MS: u32 = 200;
/// Most batches that wait for their acknowledgement, per consumer.
const UNSETTLED: usize = 64;
/// Time after the last due time within which every firing must arrive.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// Parameters of the consumers.
pub(crate) struct Drain {
    /// Namespace to lease from.
    pub(crate) namespace: String,
    /// Number of consumers; each has two connections, or one stream.
    pub(crate) consumers: usize,
    /// Number of their first connection (`line`).
    pub(crate) first_line: usize,
    /// Most firings per call.
    pub(crate) batch: u32,
    /// Number of expected firings.
    pub(crate) expected: u64,
    /// Time at which the consumers give up.
    pub(crate) until: Instant,
    /// Recorder of the lateness of each firing.
    pub(crate) lateness: Arc<Recorder>,
    /// Verdict on every firing.
    pub(crate) verdict: Verdict,
    /// gRPC transport for one stream per consumer; consumers use lease calls if absent.
    pub(crate) stream: Option<Arc<Grpc>>,
}

/// Result of the consumers.
pub(crate) struct Came {
    /// `Yes`: all firings arrived, or had the time to.
    pub(crate) drained: Drained,
    /// Time at which the last acknowledgement was confirmed, Unix µs; 0 if there was none.
    pub(crate) last_us: u64,
}

struct Consumers {
    drain: Drain,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
    stop: Stop,
    settled: AtomicU64,
    last_us: AtomicU64,
}

/// Leases and acknowledges until all expected firings are settled, the time is over, or the run
/// stops.
pub(crate) async fn drain(
    drain: Drain,
    target: &Arc<Target>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<Came> {
    let (target, ledger) = (Arc::clone(target), Arc::clone(ledger));
    let (settled, last_us) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = Arc::new(Consumers { drain, target, ledger, stop: stop.clone(), settled, last_us });
    let mut workers = JoinSet::new();
    for consumer in 0..all.drain.consumers {
        if let Some(grpc) = all.drain.stream.clone() {
            let (all, line) = (Arc::clone(&all), all.drain.first_line + consumer);
            workers.spawn(async move { all.stream(line, &grpc).await });
            continue;
        }
        let (sender, receiver) = mpsc::channel(UNSETTLED);
        let line = all.drain.first_line + consumer * 2;
        let (leasing, settling) = (Arc::clone(&all), Arc::clone(&all));
        workers.spawn(async move { settling.settle(line + 1, receiver).await });
        workers.spawn(async move { leasing.lease(line, sender).await });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let is_stopped = stop.is_wanted() && !all.is_done();
    let drained = if is_stopped { Drained::No } else { Drained::Yes };
    Ok(Came { drained, last_us: all.last_us.load(Relaxed) })
}

impl Consumers {
    fn is_done(&self) -> bool {
        self.settled.load(Relaxed) >= self.drain.expected
    }

    async fn lease(&self, line: usize, sender: mpsc::Sender<Vec<Firing>>) -> Result<()> {
        let Drain { namespace, batch, until, .. } = &self.drain;
        while !self.is_done() && !self.stop.is_wanted() && Instant::now() < *until {
            let call = self.target.transport.lease(line, namespace, *batch, WAIT_MS);
            let firings = call.await?;
            let received_us = now_us();
            self.note(&firings, received_us);
            if !firings.is_empty() && sender.send(firings).await.is_err() {
                // The settling half has failed and returns the error.
                break;
            }
        }
        Ok(())
    }

    fn note(&self, firings: &[Firing], received_us: u64) {
        for firing in firings {
            if let Some(late_us) = self.ledger.fired(firing.number, received_us) {
                self.drain.lateness.record(late_us, 1);
            }
        }
    }

    async fn settle(&self, line: usize, mut receiver: mpsc::Receiver<Vec<Firing>>) -> Result<()> {
        while let Some(firings) = receiver.recv().await {
            let tokens: Vec<&str> = firings.iter().map(|firing| firing.token.as_str()).collect();
            let call = self.target.transport.settle(
                line,
                &self.drain.namespace,
                &tokens,
                self.drain.verdict,
            );
            self.note_settled(&firings, &call.await?)?;
        }
        Ok(())
    }

    fn note_settled(&self, firings: &[Firing], answers: &[SettleAnswer]) -> Result<()> {
        ensure!(
            answers.len() == firings.len(),
            "{} settlements were sent together, and {} results came back",
            firings.len(),
            answers.len()
        );
        self.last_us.fetch_max(now_us(), Relaxed);
        for (firing, answer) in firings.iter().zip(answers) {
            match firing.number.filter(|_| *answer == SettleAnswer::Ok) {
                Some(number) if self.ledger.settled(number) => {
                    self.settled.fetch_add(1, Relaxed);
                }
                Some(_) => {}
                None => self.target.remark(format!("a settlement was not taken: {answer:?}")),
            }
        }
        Ok(())
    }
}
