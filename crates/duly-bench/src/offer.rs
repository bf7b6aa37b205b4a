//! Open-loop sender: sends work at the times of the pace, over all connections, and records the
//! latency of each send.

mod batches;

use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    pace::{Pace, Pacer, Turn},
    recorder::Recorder,
    stop::Stop,
};

pub(crate) use batches::{Batches, Make};

/// Work to send.
pub(crate) trait Work: Send + Sync {
    /// Returns the number of operations of a send; 0 after the last send.
    fn count(&self, send: u64) -> u64;

    /// Makes a send over a connection; `None` after the last send. An error ends the run.
    fn send(&self, line: usize, send: u64) -> BoxFuture<'_, Result<Option<Sent>>>;
}

/// A completed send.
pub(crate) struct Sent {
    /// Time just before the call.
    pub(crate) began: Instant,
    /// Time at which the result was read or the call failed.
    pub(crate) ended: Instant,
    /// Operations of the send that have a result.
    pub(crate) answered: u64,
}

/// Parameters of the sender.
pub(crate) struct Offer {
    pub(crate) pace: Pace,
    /// Pacer of a pace that has a rate; absent with a virtual clock.
    pub(crate) pacer: Option<Pacer>,
    pub(crate) lines: usize,
    pub(crate) work: Arc<dyn Work>,
    /// Recorder of the latency from the intended time of a send.
    pub(crate) latency: Arc<Recorder>,
    /// Recorder of the delay of the sends: the part that the load generator itself adds.
    pub(crate) behind: Arc<Recorder>,
}

/// Makes all sends. Returns the number of operations that were never sent.
pub(crate) async fn offer(offer: Offer, stop: &Stop) -> Result<u64> {
    let offer = Arc::new(offer);
    offer.latency.begin(offer.pace.began);
    let mut lines = JoinSet::new();
    for line in 0..offer.lines {
        let (offer, stop) = (Arc::clone(&offer), stop.clone());
        lines.spawn(async move { one_line(line, &offer, &stop).await });
    }
    let mut unsent = 0;
    while let Some(line) = lines.join_next().await {
        unsent += line??;
    }
    Ok(unsent)
}

async fn one_line(line: usize, offer: &Offer, stop: &Stop) -> Result<u64> {
    let (mut number, lines) = (line as u64, offer.lines as u64);
    while let Some(Turn { intended, .. }) =
        offer.pace.turn(number, offer.pacer.as_ref(), stop).await
    {
        let Some(sent) = offer.work.send(line, number).await? else { return Ok(0) };
        offer.behind.charge(micros(sent.began.saturating_duration_since(intended)), 1);
        if sent.answered > 0 {
            let took = sent.ended.saturating_duration_since(intended);
            offer.latency.record(micros(took), sent.answered);
        }
        number += lines;
    }
    let now = Instant::now();
    let mut unsent = 0;
    for turn in offer.pace.unsent(number, lines, now) {
        let count = offer.work.count(turn.number);
        unsent += count;
        offer.latency.charge(micros(now - turn.intended), count);
    }
    Ok(unsent)
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
