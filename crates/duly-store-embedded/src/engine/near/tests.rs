use duly_core::schedule::When;
use duly_core::{Millis, Schedule, TimerId, schedule::IfExists};
use duly_store::{Answer, Command, Operation};

use super::super::tests::{Bench, shop};

/// Enough for a sweep of several steps.
const MANY: usize = 60_000;

#[test]
fn after_an_opening_what_is_due_need_not_wait_for_the_end_of_the_sweep() {
    let mut bench = Bench::with_large_segments();
    for n in 0..MANY {
        let delay = if n % 100 == 0 { Millis::ZERO } else { Millis::from_secs(60) };
        let timer = TimerId::new(&format!("t{n}")).unwrap();
        let schedule = Box::new(Schedule::new(timer, When::After(delay)));
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let command = Command { namespace: shop(), operation, answer: Answer::Brief };
        bench.engine.apply(command);
    }
    bench.sync();
    let mut bench = bench.reopened();
    let firings = bench.claim();
    assert!(bench.engine.near.sweep.is_some(), "the sweep has more to look at");
    assert_eq!(firings.len(), 10);
    // All are counted in the end, and none twice.
    while bench.engine.near.sweep.is_some() || bench.engine.is_busy() {
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
