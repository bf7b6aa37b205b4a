use duly_core::schedule::When;
use duly_core::{Millis, Schedule, TimerId, schedule::IfExists};
use duly_store::{Answer, Command, Operation};

use super::super::tests::{Bench, shop};

impl super::KindHorizon {
    /// Forgets that entries wait after the end.
    pub(in crate::engine) const fn forget_beyond(&mut self) {
        self.beyond_ms = u64::MAX;
    }
}

/// Enough for a sweep of several steps.
const MANY: usize = 60_000;

fn schedule(bench: &mut Bench, n: usize, delay: Millis) {
    let timer = TimerId::new(&format!("t{n}")).unwrap();
    let schedule = Box::new(Schedule::new(timer, When::After(delay)));
    let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
    let command = Command { namespace: shop(), operation, answer: Answer::Brief };
    bench.engine.apply(command);
}

#[test]
fn due_timers_at_startup_do_not_wait_for_sweep_end() {
    let mut bench = Bench::with_large_segments();
    for n in 0..MANY {
        let delay = if n % 100 == 0 { Millis::ZERO } else { Millis::from_secs(60) };
        schedule(&mut bench, n, delay);
    }
    bench.sync();
    let mut bench = bench.reopened();
    let firings = bench.claim();
    assert!(bench.engine.near_horizon.sweep.is_some(), "the sweep has more to look at");
    assert_eq!(firings.len(), 10);
    // All are counted in the end, and none twice.
    while bench.engine.near_horizon.sweep.is_some() || bench.engine.is_busy() {
        bench.engine.begin_step();
    }
    let number = bench.engine.namespaces.number_of(&shop()).unwrap();
    let stats = bench.engine.counts_of(number).unwrap();
    assert_eq!((stats.due, stats.in_flight), ((MANY / 100 - 10) as u64, 10));
    bench.clock.advance(Millis::from_secs(60));
    bench.engine.begin_step();
    while bench.engine.is_busy() {
        bench.engine.begin_step();
    }
    let stats = bench.engine.counts_of(number).unwrap();
    assert_eq!((stats.scheduled, stats.due), (0, (MANY - 10) as u64));
}

#[test]
fn timers_due_during_first_sweep_do_not_wait_for_it() {
    let mut bench = Bench::with_large_segments();
    (0..MANY).for_each(|n| schedule(&mut bench, n, Millis::from_secs(10_000)));
    bench.sync();
    let mut bench = bench.reopened();
    bench.engine.begin_step();
    schedule(&mut bench, MANY, Millis::ZERO);
    bench.sync();
    assert!(bench.engine.near_horizon.sweep.is_some(), "the sweep has more to look at");
    assert_eq!(bench.claim().len(), 1);
    assert!(bench.engine.near_horizon.sweep.is_some(), "still");
}
