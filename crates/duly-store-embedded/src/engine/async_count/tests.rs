//! Async counts in steps: bounded, shared, refused past a limit, and correct while timers change.

use std::collections::BTreeSet;

use duly_core::{
    Millis, NamespaceName, Schedule, TimerId,
    schedule::{IfExists, When},
};
use duly_store::{Command, Forecast, ForecastRequest, Operation, command::Answer};
use tokio::sync::oneshot::{self, Receiver};

use crate::engine::tests::{Bench, shop};

use super::*;

fn request(bucket: Millis, count: usize) -> ForecastRequest {
    ForecastRequest { namespace: shop(), bucket, count }
}

type Forecasted = Receiver<Result<Option<Forecast>>>;

fn queue_count(bench: &mut Bench, request: ForecastRequest) -> Forecasted {
    let (reply, receiver) = oneshot::channel();
    let namespace = request.namespace.clone();
    bench.engine.queue_count(&namespace, CountQuestion::Forecast(request, reply));
    receiver
}

fn ask_stats(bench: &mut Bench, name: &NamespaceName) -> Receiver<Result<Option<Stats>>> {
    let (reply, receiver) = oneshot::channel();
    bench.engine.queue_count(name, CountQuestion::Stats(reply));
    receiver
}

fn id(n: u64) -> TimerId {
    TimerId::new(&format!("t{n}")).expect("a short id")
}

fn schedule(bench: &mut Bench, n: u64, after: Millis) {
    let operation = Operation::Schedule {
        schedule: Box::new(Schedule::new(id(n), When::After(after))),
        if_exists: IfExists::Replace,
    };
    bench.engine.apply(Command { namespace: shop(), operation, answer: Answer::Brief });
}

fn cancel(bench: &mut Bench, n: u64) {
    let operation = Operation::Cancel { id: id(n), if_revision: None };
    bench.engine.apply(Command { namespace: shop(), operation, answer: Answer::Brief });
}

/// Schedules `count` timers, one in each second.
fn many(bench: &mut Bench, count: u64) {
    (0..count).for_each(|n| schedule(bench, n, Millis::from_secs(n + 1)));
    bench.sync();
    while bench.engine.is_busy() {
        bench.engine.begin_step();
    }
}

const MANY: u64 = 100_000;
/// Entries that a step may visit besides: the rest of a table, and the namespace.
const REST: usize = 2 * 2_048 + NAMESPACE_VISITS;

#[test]
fn a_forecast_of_many_timers_takes_many_bounded_steps() {
    let mut bench = Bench::with_large_segments();
    many(&mut bench, MANY);
    let mut receiver = queue_count(&mut bench, request(Millis::from_secs(100), 10));
    let mut steps = 0;
    let forecast = loop {
        bench.engine.begin_step();
        steps += 1;
        let visited_entries = bench.engine.async_counts.visited_entries;
        assert!(visited_entries <= VISITS_PER_STEP + REST, "{visited_entries} entries in one step");
        match receiver.try_recv() {
            Ok(forecast) => break forecast.expect("it is answered").expect("it is there"),
            Err(_) => assert!(bench.engine.is_busy(), "it goes on at once"),
        }
    };
    assert!(steps >= MANY as usize / (VISITS_PER_STEP + REST), "{steps} steps");
    assert_eq!(forecast.pending(), MANY);
    assert_eq!(forecast.buckets.iter().sum::<u64>() + forecast.later, MANY);
    assert!(!bench.engine.is_counting());
}

#[test]
fn equal_questions_share_a_count_and_others_a_walk() {
    let mut bench = Bench::with_large_segments();
    many(&mut bench, MANY);
    let mut equal: Vec<_> =
        (0..50).map(|_| queue_count(&mut bench, request(Millis::from_secs(60), 60))).collect();
    let mut other: Vec<_> = (1..COUNTS_MAX)
        .map(|n| queue_count(&mut bench, request(Millis::from_secs(60), n)))
        .collect();
    let mut stats = ask_stats(&mut bench, &shop());
    assert_eq!(bench.engine.async_counts.queue.len(), 1);
    bench.engine.begin_step();
    let late = queue_count(&mut bench, request(Millis::from_secs(60), 60));
    assert_eq!(bench.engine.async_counts.queue.len(), 2, "what has begun takes nobody on");
    drop(late);
    let mut looked_max = 0;
    while bench.engine.is_counting() {
        bench.engine.begin_step();
        looked_max = looked_max.max(bench.engine.async_counts.visited_entries);
    }
    let most = VISITS_PER_STEP + (COUNTS_MAX + 1) * REST;
    assert!(looked_max <= most, "counts are looks, too: {looked_max}");
    for receiver in equal.iter_mut().chain(&mut other) {
        let forecast = receiver.try_recv().expect("answered").expect("done").expect("there");
        assert_eq!(forecast.pending(), MANY);
    }
    let stats = stats.try_recv().expect("answered").expect("done").expect("there");
    assert_eq!(
        stats.next_due_at,
        Some(bench.engine.now.wall().saturating_add(Millis::from_secs(1)))
    );
    assert_eq!(stats.scheduled, MANY);
}

#[test]
fn a_small_namespace_does_not_wait_for_a_large_one() {
    let mut bench = Bench::with_large_segments();
    many(&mut bench, MANY);
    let small = NamespaceName::new("small").expect("a name that is allowed");
    bench
        .engine
        .put_namespace(&small, duly_store::namespaces::Put::IfAbsent(Box::default()))
        .expect("it is made");
    bench.sync();
    let mut large = queue_count(&mut bench, request(Millis::from_secs(1), 1));
    let mut stats = ask_stats(&mut bench, &small);
    bench.engine.begin_step();
    bench.engine.begin_step();
    assert!(large.try_recv().is_err(), "it is still being walked over");
    assert!(stats.try_recv().is_ok());
}

#[test]
fn excess_questions_and_ended_store_are_refused() {
    let mut bench = Bench::new();
    let mut answers: Vec<_> = (0..=WAITING_CALLS_MAX)
        .map(|_| queue_count(&mut bench, request(Millis::from_secs(1), 1)))
        .collect();
    let last = answers.pop().map(|mut last| last.try_recv());
    let refusal = last.expect("one too many").expect("answered at once").expect_err("refused");
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    answers.truncate(1);
    bench.engine.fail_terminally_because("a test says so");
    let failed = answers[0].try_recv().expect("answered").expect_err("it failed");
    assert!(failed.to_string().contains("a test says so"), "{failed}");
}

#[test]
fn closed_replies_cost_no_walk() {
    let mut bench = Bench::with_large_segments();
    many(&mut bench, MANY);
    drop(queue_count(&mut bench, request(Millis::from_secs(1), 1)));
    bench.engine.begin_step();
    assert_eq!((bench.engine.async_counts.visited_entries, bench.engine.is_counting()), (0, false));
}

/// A change between the steps of a walk.
#[derive(Debug, Clone)]
enum Change {
    Move(u64, u64),
    Cancel(u64),
    Add(u64),
    Pass(u64),
}

fn changes() -> impl proptest::strategy::Strategy<Value = Vec<Vec<Change>>> {
    use proptest::prelude::*;
    let change = prop_oneof![
        (0..CHANGING, 1..4_000_u64).prop_map(|(n, after)| Change::Move(n, after)),
        (0..CHANGING).prop_map(Change::Cancel),
        (0..CHANGING).prop_map(Change::Add),
        (1..30_u64).prop_map(Change::Pass),
    ];
    proptest::collection::vec(proptest::collection::vec(change, 0..2_000), 8)
}

/// Timers below this number change; the others stay.
const CHANGING: u64 = 20_000;

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 6, ..Default::default() })]

    #[test]
    fn unchanged_timers_are_counted_exactly_once(changes in changes()) {
        let mut bench = Bench::with_large_segments();
        let all = CHANGING + MANY;
        many(&mut bench, all);
        let mut touched = BTreeSet::new();
        let mut receiver = queue_count(&mut bench, request(Millis::from_secs(1_000), 200));
        let began_ms = bench.engine.now.wall_ms;
        let mut added = 0;
        for step in changes {
            bench.engine.begin_step();
            for change in step {
                match change {
                    Change::Move(n, after) => {
                        touched.insert(n);
                        schedule(&mut bench, n, Millis::from_secs(after));
                    }
                    Change::Cancel(n) => {
                        touched.insert(n);
                        cancel(&mut bench, n);
                    }
                    Change::Add(n) => {
                        added += 1;
                        schedule(&mut bench, all + n, Millis::from_secs(n + 1));
                    }
                    Change::Pass(ms) => bench.clock.advance(Millis::from_ms(ms)),
                }
            }
            if let Ok(Some(mark)) = bench.engine.commit() {
                mark.file.sync_data().expect("the simulated disk is well");
                bench.engine.synced(mark.lsn, mark.position);
            }
        }
        while bench.engine.is_counting() {
            bench.engine.begin_step();
        }
        let forecast = receiver.try_recv().expect("answered").expect("done").expect("there");
        proptest::prop_assert_eq!(forecast.now.unix_ms(), began_ms);
        let unchanged = all - touched.len() as u64;
        let changed = touched.len() as u64 + added;
        let pending = forecast.pending();
        proptest::prop_assert!(unchanged <= pending && pending <= unchanged + 2 * changed);
        // No change moved a timer past these: a bucket with only unchanged timers is exact.
        let from_s = forecast.from.unix_ms() / 1_000;
        for (n, count) in forecast.buckets.iter().enumerate() {
            let begin_s = from_s + n as u64 * 1_000 - began_ms / 1_000;
            if begin_s > CHANGING && begin_s + 1_000 < all {
                proptest::prop_assert_eq!(*count, 1_000, "bucket {}", n);
            }
        }
    }
}
