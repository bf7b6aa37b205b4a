//! A caller that sends batches of commands and checks every outcome.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use duly_store::{Command, Outcome, Store, StoreFuture};
use futures::executor::block_on;

use super::scene::SHARD;
use crate::{
    error::{Error, Result},
    latency::Latencies,
    progress::Progress,
    usage::own_thread_cpu,
};

/// Sends batches and keeps several of them in flight.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    /// The store.
    pub(super) store: &'a dyn Store,
    /// Most batches in flight at once, at least 1.
    pub(super) in_flight: u32,
}

/// The outcome that a row expects.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    Created,
    Existing,
    Changed,
    Cancelled,
    Purged,
}

/// Result of sending.
#[derive(Debug)]
pub(super) struct Sent {
    /// Time from call to result, of each batch. With several in flight, a batch waits behind those
    /// sent before it.
    pub(super) latencies: Latencies,
    /// CPU of the calling thread.
    pub(super) cpu: Duration,
    /// Number of outcomes; all are as expected.
    pub(super) items: u64,
}

impl Sent {
    fn nothing() -> Self {
        Self { latencies: Latencies::new(), cpu: Duration::ZERO, items: 0 }
    }

    /// Adds the result of another caller, or of the same one at another time.
    pub(super) fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.cpu += other.cpu;
        self.items += other.items;
    }

    /// Returns the sum of the results of several callers.
    pub(super) fn sum(parts: impl IntoIterator<Item = Result<Self>>) -> Result<Self> {
        parts.into_iter().try_fold(Self::nothing(), |mut sum, part| {
            sum.add(&part?);
            Ok(sum)
        })
    }
}

type Under<'a> = VecDeque<(Instant, StoreFuture<'a, Vec<Outcome>>)>;

impl Writer<'_> {
    /// Sends all batches and waits for all results.
    pub(super) fn send(
        &self,
        mut batches: impl Iterator<Item = Vec<Command>>,
        expected: Expected,
        mut progress: Progress,
    ) -> Result<Sent> {
        let cpu_before = own_thread_cpu();
        let mut sent = Sent::nothing();
        let mut under_way: Under<'_> = VecDeque::new();
        loop {
            while under_way.len() >= self.in_flight as usize {
                take_answer(&mut under_way, expected, &mut sent)?;
            }
            progress.at(sent.items);
            let Some(batch) = batches.next() else {
                break;
            };
            // `apply` has sent the call already; its future only brings the result.
            under_way.push_back((Instant::now(), self.store.apply(SHARD, batch)));
        }
        while !under_way.is_empty() {
            take_answer(&mut under_way, expected, &mut sent)?;
        }
        sent.cpu = own_thread_cpu().saturating_sub(cpu_before);
        Ok(sent)
    }
}

fn take_answer(under_way: &mut Under<'_>, expected: Expected, sent: &mut Sent) -> Result<()> {
    let Some((began, answer)) = under_way.pop_front() else {
        return Ok(());
    };
    let outcomes = block_on(answer)?;
    sent.latencies.record(began.elapsed());
    sent.items += expected.of_all(&outcomes)?;
    Ok(())
}

impl Expected {
    /// Returns the number of outcomes; an error unless all are as expected.
    pub(super) fn of_all(self, outcomes: &[Outcome]) -> Result<u64> {
        if let Some(other) = outcomes.iter().find(|outcome| !self.is(outcome)) {
            let (expected, found) = (format!("{self:?}"), format!("{other:?}"));
            return Err(Error::Unexpected { expected, found });
        }
        Ok(outcomes.len() as u64)
    }

    const fn is(self, outcome: &Outcome) -> bool {
        matches!(
            (self, outcome),
            (Self::Created, Outcome::Created(_))
                | (Self::Existing, Outcome::Existing(_))
                | (Self::Changed, Outcome::Changed(_))
                | (Self::Cancelled, Outcome::Cancelled { already: false, .. })
                | (Self::Purged, Outcome::Purged)
        )
    }
}
