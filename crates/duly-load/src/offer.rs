//! Sends work by the pace, over all lines, and keeps how long each send took.

mod batches;

use std::sync::Arc;

use anyhow::Result;
use futures::future::BoxFuture;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    pace::{Metronome, Pace, Turn},
    recorder::Recorder,
    stop::Stop,
};

pub(crate) use batches::{Batches, Make};

/// What is sent.
pub(crate) trait Work: Send + Sync {
    /// Operations of a send: 0 after the last.
    fn count(&self, send: u64) -> u64;

    /// Sends it over a line; `None` after the last. An error ends the run.
    fn send(&self, line: usize, send: u64) -> BoxFuture<'_, Result<Option<Sent>>>;
}

/// A send that is over.
pub(crate) struct Sent {
    /// Just before the call.
    pub(crate) began: Instant,
    /// When its answer was read, or it failed.
    pub(crate) ended: Instant,
    /// Operations of it that were answered.
    pub(crate) answered: u64,
}

/// What is offered.
pub(crate) struct Offer {
    pub(crate) pace: Pace,
    /// Of a pace that has a rate, unless the clock is a virtual one.
    pub(crate) metronome: Option<Metronome>,
    pub(crate) lines: usize,
    pub(crate) work: Arc<dyn Work>,
    /// Latency from the intended time of a send.
    pub(crate) latency: Arc<Recorder>,
    /// How late the sends themselves were: what the generator adds by itself.
    pub(crate) behind: Arc<Recorder>,
}

/// Sends all. Answers how many operations were never sent.
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
        offer.pace.turn(number, offer.metronome.as_ref(), stop).await
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
