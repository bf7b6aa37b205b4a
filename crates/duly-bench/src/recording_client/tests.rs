//! Tests of the recording client with a server in memory that keeps its promises, or breaks one.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Result, bail};
use duly_checker::{
    checker::Count,
    history::{Action, Answer, Crash, Due, EndState, SettleAnswer},
};
use futures::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;

use super::{Checked, RecordingClient};
use crate::{
    clock::now_ms,
    target::Target,
    transport::{
        Ask, Firing, Operation, Outcome, RecordingTransport, Settings, Taken, Transport, Verdict,
        recording::Last,
    },
};

/// Fault of the server.
#[derive(Default)]
pub(crate) struct Fault {
    loses: bool,
    fires_what_is_cancelled: bool,
    mixes_payloads_up: bool,
    fires_twice: bool,
    refuses_to_settle: bool,
    is_dead: bool,
}

#[derive(Clone, Copy)]
struct Timer {
    mark: u64,
    due_ms: u64,
    state: EndState,
}

/// Timers by number.
pub(crate) struct Server {
    fault: Fault,
    timers: Mutex<BTreeMap<u64, Timer>>,
}

/// Returns a recording client of a server with a fault.
pub(crate) fn client_of(plant: impl FnOnce(&mut Fault)) -> (Arc<RecordingClient>, Arc<Server>) {
    let mut fault = Fault::default();
    plant(&mut fault);
    let server = Arc::new(Server { fault, timers: Mutex::default() });
    let target = Arc::new(Target::new(Arc::clone(&server) as _));
    let recording =
        RecordingClient::new(Arc::clone(&server) as _, target, "mixed".to_owned(), u64::MAX);
    (Arc::new(recording), server)
}

impl Server {
    fn asked(&self, ask: &Ask) -> Answer {
        let mut timers = self.timers.lock();
        match ask.action {
            Action::Schedule { mark, due: Due::At(due_ms) } => {
                let timer = Timer { mark, due_ms, state: EndState::Scheduled };
                timers.insert(ask.number, timer);
                Answer::Created { due_ms }
            }
            Action::Cancel => {
                if let Some(timer) = timers.get_mut(&ask.number) {
                    timer.state = EndState::Cancelled;
                }
                Answer::Cancelled { attempts: 0, maybe_delivered: false }
            }
            _ => Answer::Refused,
        }
    }

    fn fires(&self, timer: &Timer) -> bool {
        let cancelled = self.fault.fires_what_is_cancelled && timer.state == EndState::Cancelled;
        let again = self.fault.fires_twice && timer.state == EndState::Finished;
        let ready = timer.state == EndState::Scheduled || cancelled || again;
        ready && !self.fault.loses
    }
}

impl RecordingTransport for Server {
    fn ask<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        asks: &'a [Ask],
    ) -> BoxFuture<'a, Result<Vec<Answer>>> {
        async move {
            if self.fault.is_dead {
                tokio::task::yield_now().await;
                bail!("nobody answers");
            }
            Ok(asks.iter().map(|ask| self.asked(ask)).collect())
        }
        .boxed()
    }

    fn take<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        _: u32,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Taken>>> {
        async move {
            tokio::task::yield_now().await;
            let mut timers = self.timers.lock();
            let due = timers.iter_mut().filter(|(_, timer)| self.fires(timer));
            let taken = due.map(|(number, timer)| {
                timer.state = EndState::Finished;
                Taken {
                    id: number.to_string(),
                    token: number.to_string(),
                    delivery_id: number.to_string(),
                    occurrence: 1,
                    attempt: 1,
                    due_ms: timer.due_ms,
                    leased_until_ms: now_ms() + 60_000,
                    mark: Some(timer.mark + u64::from(self.fault.mixes_payloads_up)),
                }
            });
            Ok(taken.collect())
        }
        .boxed()
    }

    fn read<'a>(&'a self, _: usize, _: &'a str, id: &'a str) -> BoxFuture<'a, Result<Last>> {
        async move {
            let timer = self.timers.lock().get(&id.parse()?).copied();
            let state = timer.map_or(EndState::NotFound, |timer| timer.state);
            let state = if self.fault.loses { EndState::NotFound } else { state };
            Ok(Last { state, due_ms: None, mark: None })
        }
        .boxed()
    }
}

impl Transport for Server {
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
        _: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>> {
        async { bail!("a recording asks by its own call") }.boxed()
    }

    fn lease<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        _: u32,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>> {
        async { bail!("a recording takes by its own call") }.boxed()
    }

    fn settle<'a>(
        &'a self,
        _: usize,
        _: &'a str,
        tokens: &'a [&'a str],
        _: Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async move {
            let lost = self.fault.refuses_to_settle;
            let answer = if lost { SettleAnswer::LeaseLost } else { SettleAnswer::Ok };
            Ok(vec![answer; tokens.len()])
        }
        .boxed()
    }
}

/// Schedules ten timers that were due a second ago, and cancels the first before a consumer leases.
async fn checked(plant: impl FnOnce(&mut Fault)) -> Checked {
    let (recording, _) = client_of(plant);
    let due = Due::At(now_ms() - 1_000);
    let schedule = |number: u64| Ask {
        number,
        action: Action::Schedule { mark: number * 100, due },
        replaces: false,
    };
    let asks: Vec<_> = (0..10).map(schedule).collect();
    let sent = recording.ask(0, &asks).await;
    assert!(sent.answered == 10 || sent.answered == 0);
    recording.ask(0, &[Ask { number: 0, action: Action::Cancel, replaces: false }]).await;
    let consumers = recording.consume(0);
    // Each consumer has made a call, and one more for firings that come twice.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    recording.is_over();
    consumers.join_all().await;
    recording.has_waited();
    recording.read_back(2).await.unwrap();
    recording.check()
}

#[tokio::test]
async fn a_correct_server_has_no_findings() {
    let checked = checked(|_| {}).await;
    assert_eq!(checked.broken(), [""; 0]);
    let counts = checked.counts;
    assert_eq!((counts.attempted, counts.acknowledged, counts.cancelled), (10, 10, 1));
    assert_eq!((counts.fired, counts.settled, counts.lost), (9, 9, 0));
}

#[tokio::test]
async fn each_fault_is_named() {
    type Plant = fn(&mut Fault);
    let faults: [(Plant, Count, u64); 4] = [
        (|fault| fault.loses = true, Count::Lost, 9),
        (|fault| fault.fires_what_is_cancelled = true, Count::ClaimAfterCancel, 1),
        (|fault| fault.mixes_payloads_up = true, Count::Unexpected, 9),
        (|fault| fault.refuses_to_settle = true, Count::Lost, 9),
    ];
    for (plant, count, times) in faults {
        let checked = checked(plant).await;
        assert!(checked.verdict.count(count) as u64 >= times, "{count:?}: {:?}", checked.verdict);
        let words = format!("{} {}", checked.verdict.count(count), count.name());
        assert!(checked.broken().iter().any(|broken| broken.starts_with(&words)), "{words}");
    }
    let twice = checked(|fault| fault.fires_twice = true).await;
    assert!(!twice.broken().is_empty(), "{:?}", twice.verdict);
}

#[tokio::test]
async fn a_call_in_doubt_is_no_finding() {
    let checked = checked(|fault| fault.is_dead = true).await;
    assert_eq!(checked.broken(), [""; 0]);
    assert_eq!((checked.counts.attempted, checked.counts.acknowledged), (10, 0));
}

/// Kind: a failure is judged by the whole time of its call, not by the moment at which it is seen.
#[tokio::test]
async fn failures_during_an_outage_are_no_remarks() {
    let crash = Crash { killed_us: 1, reaped_us: 2, spawned_us: 3, ready_us: 4 };
    let asks = [Ask { number: 0, action: Action::Cancel, replaces: false }];
    type Outage = fn(&RecordingClient, Crash);
    let cases: [(Outage, Outage, bool); 4] = [
        (|_, _| {}, |_, _| {}, true),
        (|_, _| {}, |recording, _| recording.goes_down(), false),
        (|recording, _| recording.goes_down(), RecordingClient::is_back, false),
        (
            |_, _| {},
            |recording, crash| {
                recording.goes_down();
                recording.is_back(crash);
            },
            false,
        ),
    ];
    for (number, (before, during, is_remarked)) in cases.into_iter().enumerate() {
        let (recording, _) = client_of(|fault| fault.is_dead = true);
        before(&recording, crash);
        let mut call = std::pin::pin!(recording.ask(0, &asks));
        assert!(futures::poll!(call.as_mut()).is_pending());
        during(&recording, crash);
        call.await;
        assert_eq!(recording.target.remarked().is_some(), is_remarked, "case {number}");
    }
}
