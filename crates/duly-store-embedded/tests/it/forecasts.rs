//! Forecasts and stats of an engine with threads, while other callers change the counted timers.

use std::sync::atomic::{AtomicBool, Ordering};

use duly_core::Millis;
use duly_store::{
    Error, ForecastRequest, Store, Timers, conformance::ManualClock, namespaces::Put,
};
use duly_store_embedded::disk::SimDisk;

use crate::{
    harness::{Shell, open},
    steps::{SHARD, apply, cancel, name, schedule, wait},
};

/// Number of timers that stay unchanged, and their due time.
const STAYING: u64 = 40_000;
const STAYING_MS: u64 = 3_600_000;

fn request() -> ForecastRequest {
    ForecastRequest { namespace: name("shop"), bucket: Millis::from_secs(60), count: 10 }
}

fn fill(store: &dyn Store) {
    let put = Put::IfAbsent(Box::default());
    wait(store.put_namespace(name("shop"), put)).expect("the namespace is made");
    for from in (0..STAYING).step_by(5_000) {
        let staying = (from..from + 5_000).map(|n| schedule(&format!("s{n}"), STAYING_MS, 0));
        apply(store, "shop", staying.collect()).expect("the timers are made");
    }
}

#[test]
fn timers_that_stay_are_counted_once_while_others_come_and_go() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open(Shell::Threads, &disk, &clock, 7);
    fill(&store);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for caller in 0..2 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let id = |n: u64| format!("c{caller}-{}", n % 700);
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    let some = n..n + 100;
                    apply(
                        store,
                        "shop",
                        some.clone().map(|n| schedule(&id(n), 200_000, 0)).collect(),
                    )
                    .unwrap();
                    apply(store, "shop", some.map(|n| cancel(&id(n * 7))).collect()).unwrap();
                    n += 100;
                }
            });
        }
        let stopping = Stopping(&stop);
        for _ in 0..30 {
            let asked: Vec<_> = (0..5).map(|_| store.forecast(SHARD, request())).collect();
            let stats = wait(store.stats(SHARD, name("shop"))).unwrap().unwrap();
            assert!(stats.scheduled >= STAYING && stats.next_due_at.is_some(), "{stats:?}");
            for forecast in asked {
                let forecast = wait(forecast).unwrap().unwrap();
                assert_eq!((forecast.later, forecast.overdue), (STAYING, 0));
                let changing: u64 = forecast.buckets.iter().sum();
                assert!(changing <= 2 * 2 * 700, "{forecast:?}");
            }
        }
        drop(stopping);
    });
}

/// Stops the other callers, also if a comparison fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn closing_waits_for_an_accepted_forecast() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open(Shell::Threads, &disk, &clock, 7);
    fill(&store);
    let asked = store.forecast(SHARD, request());
    store.close();
    assert_eq!(wait(asked).unwrap().map(|forecast| forecast.later), Some(STAYING));
    let later = wait(store.forecast(SHARD, request()));
    assert!(matches!(later, Err(Error::Unavailable { .. })), "{later:?}");
}
