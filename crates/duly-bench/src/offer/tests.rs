//! Tests of the open loop, with a virtual clock and a transport that can stall.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use duly_checker::history::SettleAnswer;
use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::{Instant, sleep_until};

use super::{Batches, Make, Offer, offer};
use crate::{
    ledger::{Drained, Ledger},
    pace::Pace,
    recorder::Recorder,
    stop::Stop,
    target::Target,
    transport::{Firing, Operation, Outcome, Settings, Transport, Verdict},
};

const MS: Duration = Duration::from_millis(1);

/// A transport that replies at once, except during a stall.
struct Stalls {
    from: Instant,
    to: Instant,
}

impl Transport for Stalls {
    fn make<'a>(&'a self, _: usize, _: &'a str, _: &'a Settings) -> BoxFuture<'a, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn end<'a>(&'a self, _: usize, _: &'a str) -> BoxFuture<'a, Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn pending<'a>(&'a self, _: usize, _: &'a str) -> BoxFuture<'a, Result<u64>> {
        async { Ok(0) }.boxed()
    }

    fn list<'a>(&'a self, _: usize, _: &'a str) -> BoxFuture<'a, Result<usize>> {
        async { Ok(0) }.boxed()
    }

    fn batch<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>> {
        async move {
            if (self.from..self.to).contains(&Instant::now()) {
                sleep_until(self.to).await;
            }
            Ok(vec![Outcome::Written; operations.len()])
        }
        .boxed()
    }

    fn lease<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        _: u32,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn settle<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        _: &'a [&'a str],
        _: Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

struct Came {
    latency: Arc<Recorder>,
    unsent: u64,
    acknowledged: u64,
}

/// Makes 1000 sends, one each millisecond, to a server that stalls from 200 ms on.
async fn offered(lines: usize, stall: Duration, until: Duration, stop: &Stop) -> Came {
    let began = Instant::now();
    let stalls = Stalls { from: began + 200 * MS, to: began + 200 * MS + stall };
    let target = Arc::new(Target::new(Arc::new(stalls)));
    let ledger = Arc::new(Ledger::new(1_000, 0));
    let latency = Arc::new(Recorder::default());
    let make: Make = Arc::new(|number| vec![Operation::Schedule { number, due_ms: 0 }]);
    let all = Offer {
        pace: Pace { began, interval: Some(MS), sends: 1_000, until: began + until },
        pacer: None,
        lines,
        work: Arc::new(Batches {
            make,
            namespace: target.namespace.clone(),
            target: Arc::clone(&target),
            ledger: Arc::clone(&ledger),
        }),
        latency: Arc::clone(&latency),
        behind: Arc::new(Recorder::default()),
    };
    let unsent = offer(all, stop).await.unwrap();
    Came { latency, unsent, acknowledged: ledger.counts(Drained::No).acknowledged }
}

#[tokio::test(start_paused = true)]
async fn a_stall_counts_for_all_sends_intended_meanwhile() {
    let (_stopper, stop) = Stop::new();
    for lines in [1, 4] {
        let came = offered(lines, 500 * MS, 10_000 * MS, &stop).await;
        assert_eq!((came.unsent, came.acknowledged), (0, 1_000));
        // 500 of 1000 sends fall into the stall; they wait 250 ms on average. A closed loop would have
        // seen one slow call on each line.
        let percentiles = came.latency.percentiles();
        assert!((495_000..=505_000).contains(&percentiles.max_us), "{percentiles:?}");
        let share = came.latency.distribution();
        let median = share.iter().find(|(share, _)| *share >= 0.75).unwrap().1;
        assert!((200.0..300.0).contains(&median), "{lines} lines: {median} ms at 75 %");
    }
}

#[tokio::test(start_paused = true)]
async fn unsent_operations_count_with_their_wait() {
    let (_stopper, stop) = Stop::new();
    let came = offered(1, 1_800 * MS, 1_000 * MS, &stop).await;
    assert_eq!(came.acknowledged, 201);
    assert_eq!(came.unsent, 799);
    assert_eq!(came.latency.count(), 1_000);
    assert!(came.latency.percentiles().p50_us > 1_000_000);
    assert_eq!(came.latency.by_second().iter().sum::<u64>(), 201, "not counted as throughput");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_run_returns_the_figures_so_far() {
    let (stopper, stop) = Stop::new();
    let stopping = tokio::spawn(async move {
        tokio::time::sleep(100 * MS).await;
        stopper.stop();
        stopper
    });
    let came = offered(2, MS, 10_000 * MS, &stop).await;
    assert!((95..=105).contains(&came.acknowledged), "{}", came.acknowledged);
    stopping.await.unwrap();
}
