//! Sending by a schedule: one thread makes each batch before its time and sends it at that time,
//! another takes the answers in their order.

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

/// When each call is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How many.
    pub(super) calls: u64,
    /// Items of each.
    pub(super) batch: u32,
    rate: u32,
}

impl Pace {
    /// So many items a second for so long, in calls of `batch`.
    pub(super) fn new(rate: u32, batch: u32, duration: Duration) -> Self {
        let calls = duration.as_secs() * u64::from(rate) / u64::from(batch);
        // Timers have numbers of 32 bits.
        let calls_max = u64::from(u32::MAX / batch);
        Self { calls: calls.clamp(1, calls_max), batch, rate }
    }

    /// When a call is sent, from the beginning on.
    pub(super) fn at(&self, call: u64) -> Duration {
        let items = u128::from(call) * u128::from(self.batch);
        let nanoseconds = items * 1_000_000_000 / u128::from(self.rate);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The same duration with a share of the items.
    pub(super) fn share(&self, of: u32) -> Self {
        let rate = (self.rate / of).max(1);
        Self { calls: self.calls / u64::from(of), batch: self.batch, rate }
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ran {
    /// From the scheduled time to the answer, of each call.
    pub(super) latencies: Latencies,
    /// From the scheduled time to the call: how late the generator was.
    pub(super) sent_late: Latencies,
    /// From the call to the answer: what is left without that.
    pub(super) from_call: Latencies,
    /// The same over time.
    pub(super) series: Series,
    /// Items of all calls.
    pub(super) items: u64,
    /// From the beginning to the last answer.
    pub(super) elapsed: Duration,
}

impl Ran {
    /// Nothing yet.
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

    /// A call was answered.
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

/// Sends every call at its time; `batch` makes them.
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
            // The call is on its way from here on; its future only brings the answer.
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
    fn a_pace_has_its_rate_whatever_the_batch() {
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
