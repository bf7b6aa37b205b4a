//! Consumers: they lease what is due, note it, and acknowledge it on lines of their own meanwhile.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use crate::{
    clock::now_us,
    ledger::{Drained, Ledger},
    recorder::Recorder,
    stop::Stop,
    target::Target,
    transport::Firing,
};

/// How long a lease call waits: this long a consumer does not see that the run is over.
const WAIT_MS: u32 = 200;
/// Batches that may wait to be acknowledged, for each consumer.
const UNSETTLED: usize = 64;

/// What consumers do.
pub(crate) struct Drain {
    /// Consumers; each has two lines.
    pub(crate) consumers: usize,
    /// Most firings of a call.
    pub(crate) batch: u32,
    /// So many are to come.
    pub(crate) expected: u64,
    /// They are given up then.
    pub(crate) until: Instant,
    /// Lateness of each.
    pub(crate) lateness: Arc<Recorder>,
}

/// Takes everything. Answers whether all came, or had the time to.
pub(crate) async fn drain(
    drain: Drain,
    target: &Arc<Target>,
    ledger: &Arc<Ledger>,
    stop: &Stop,
) -> Result<Drained> {
    let drain = Arc::new(drain);
    let mut workers = JoinSet::new();
    for consumer in 0..drain.consumers {
        let (sender, receiver) = mpsc::channel(UNSETTLED);
        let (drain, target) = (Arc::clone(&drain), Arc::clone(target));
        let (ledger, stop) = (Arc::clone(ledger), stop.clone());
        let line = consumer * 2;
        workers.spawn(settle(line + 1, receiver, Arc::clone(&target), Arc::clone(&ledger)));
        workers.spawn(async move { lease(line, sender, &drain, &target, &ledger, &stop).await });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(if stop.is_wanted() && ledger.settled_so_far() < drain.expected {
        Drained::No
    } else {
        Drained::Yes
    })
}

async fn lease(
    line: usize,
    sender: mpsc::Sender<Vec<Firing>>,
    drain: &Drain,
    target: &Target,
    ledger: &Ledger,
    stop: &Stop,
) -> Result<()> {
    while ledger.settled_so_far() < drain.expected
        && !stop.is_wanted()
        && Instant::now() < drain.until
    {
        let call = target.transport.lease(line, &target.namespace, drain.batch, WAIT_MS);
        let firings = call.await?;
        let received_us = now_us();
        for firing in &firings {
            if let Some(late_us) = ledger.fired(firing.number, received_us) {
                drain.lateness.record(late_us, 1);
            }
        }
        if !firings.is_empty() && sender.send(firings).await.is_err() {
            // The other half has failed and says why.
            break;
        }
    }
    Ok(())
}

async fn settle(
    line: usize,
    mut receiver: mpsc::Receiver<Vec<Firing>>,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
) -> Result<()> {
    while let Some(firings) = receiver.recv().await {
        let taken = target.transport.settle(line, &target.namespace, &firings).await?;
        ensure!(
            taken.len() == firings.len(),
            "{} settlements were sent together, and {} results came back",
            firings.len(),
            taken.len()
        );
        let at_us = now_us();
        for (firing, taken) in firings.iter().zip(taken) {
            match firing.number.filter(|_| taken) {
                Some(number) => ledger.settled(number, at_us),
                None => target.remark("a settlement was not taken".to_owned()),
            }
        }
    }
    Ok(())
}

/// How long after the last due time everything must have come.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
