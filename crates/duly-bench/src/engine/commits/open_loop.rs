//! Open-loop sender: one thread makes each batch ahead of its time and sends it at that time.
//! Another thread receives the results in order.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use duly_store::{Command, Outcome, Store, StoreFuture};
use futures::executor::block_on;

use super::series::Series;
use crate::{
    engine::{scene::SHARD, writer::Expected},
    error::Result,
    latency::Latencies,
    progress::Progress,
};

/// Send times of the calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Number of calls.
    pub(super) calls: u64,
    /// Items of each call.
    pub(super) batch: u32,
    rate: u32,
}

impl Pace {
    /// Creates a pace of `rate` items per second for `duration`, in calls of `batch` items.
    pub(super) fn new(rate: u32, batch: u32, duration: Duration) -> Self {
        let calls = duration.as_secs() * u64::from(rate) / u64::from(batch);
        // Timers have numbers of 32 bits.
        let calls_max = u64::from(u32::MAX / batch);
        Self { calls: calls.clamp(1, calls_max), batch, rate }
    }

    /// Returns the send time of a call, relative to the start.
    pub(super) fn at(&self, call: u64) -> Duration {
        let items = u128::from(call) * u128::from(self.batch);
        let nanoseconds = items * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Returns a pace with the same duration and one `of`-th of the items.
    pub(super) fn share(&self, of: u32) -> Self {
        let rate = (self.rate / of).max(1);
        Self { calls: self.calls / u64::from(of), batch: self.batch, rate }
    }
}

/// Result of a run.
#[derive(Debug)]
pub(super) struct Ran {
    /// Time from the scheduled send time to the result, of each call.
    pub(super) latencies: Latencies,
    /// Time from the scheduled send time to the call: the delay of the load generator.
    pub(super) sent_late: Latencies,
    /// Time from the call to the result, without the delay of the load generator.
    pub(super) from_call: Latencies,
    /// The latencies over time.
    pub(super) series: Series,
    /// Items of all calls.
    pub(super) items: u64,
    /// Time from the start to the last result.
    pub(super) elapsed: Duration,
}

impl Ran {
    /// Creates an empty result.
    pub(super) fn new(pace: &Pace) -> Self {
        Self {
            latencies: Latencies::new(),
            sent_late: Latencies::new(),
            from_call: Latencies::new(),
            series: Series::until(pace.at(pace.calls)),
            items: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Records the result of a call.
    pub(super) fn record(&mut self, pace: &Pace, call: u64, done: Duration, items: u64) {
        let scheduled = pace.at(call);
        let took = done.saturating_sub(scheduled);
        self.latencies.record(took);
        self.series.record(scheduled, done, took, items);
        self.items += items;
        self.elapsed = self.elapsed.max(done);
    }
}

/// A call that was sent.
struct Call<'a> {
    number: u64,
    sent_at: Duration,
    answer: StoreFuture<'a, Vec<Outcome>>,
}

/// Sends every call at its time; `batch` makes the commands of a call.
pub(super) fn run(
    store: &dyn Store,
    pace: &Pace,
    mut batch: impl FnMut(u64) -> Vec<Command>,
    expected: Expected,
    progress: Progress,
) -> Result<Ran> {
    let (calls, sent) = mpsc::channel();
    let began = Instant::now();
    thread::scope(|scope| {
        let taking = scope.spawn(move || take_answers(&sent, pace, began, expected, progress));
        for number in 0..pace.calls {
            let commands = batch(number);
            thread::sleep(pace.at(number).saturating_sub(began.elapsed()));
            let sent_at = began.elapsed();
            // `apply` has sent the call already; its future only brings the result.
            let answer = store.apply(SHARD, commands);
            if calls.send(Call { number, sent_at, answer }).is_err() {
                break;
            }
        }
        drop(calls);
        taking.join().expect("who takes answers does not panic")
    })
}

fn take_answers(
    sent: &mpsc::Receiver<Call<'_>>,
    pace: &Pace,
    began: Instant,
    expected: Expected,
    mut progress: Progress,
) -> Result<Ran> {
    let mut ran = Ran::new(pace);
    for call in sent {
        let outcomes = block_on(call.answer)?;
        let done = began.elapsed();
        ran.record(pace, call.number, done, expected.of_all(&outcomes)?);
        ran.sent_late.record(call.sent_at.saturating_sub(pace.at(call.number)));
        ran.from_call.record(done.saturating_sub(call.sent_at));
        progress.at(call.number);
    }
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_independent_of_the_batch_size() {
        let pace = Pace::new(200_000, 200, Duration::from_secs(3));
        assert_eq!((pace.calls, pace.at(1)), (3_000, Duration::from_millis(1)));
        let pace = Pace::new(1_000, 300, Duration::from_secs(3));
        assert_eq!((pace.calls, pace.at(10)), (10, Duration::from_secs(3)));
        let tenth = Pace::new(200_000, 200, Duration::from_secs(3)).share(10);
        assert_eq!((tenth.calls, tenth.at(1)), (300, Duration::from_millis(10)));
        assert_eq!(Pace::new(1, 100, Duration::from_secs(1)).calls, 1);
        let most = Pace::new(10_000_000, 1_000, Duration::from_secs(3_600));
        assert!(most.calls * 1_000 <= u64::from(u32::MAX));
    }

    #[test]
    fn latency_counts_from_the_scheduled_time() {
        let pace = Pace::new(1_000, 1, Duration::from_secs(1));
        let mut ran = Ran::new(&pace);
        ran.record(&pace, 10, Duration::from_millis(30), 1);
        assert!((ran.latencies.quantile_ms(1.0) - 20.0).abs() < 0.1, "{ran:?}");
    }
}
