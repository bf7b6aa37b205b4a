//! Timers on bad places of a disk: timers elsewhere are not delayed, every count stays exact, and all of
//! them fire when the disk reads again.

use std::sync::Arc;

use duly_core::{
    Millis, Schedule, State,
    env::Clock,
    schedule::{IfExists, When},
    timer::{AttemptOutcome, DeadLetterReason, Wait},
};
use duly_store::{Operation, Outcome, SettleVerdict, Settlement, namespaces::Activity};

use super::*;
use crate::{
    disk::{Error, Operation as OnDisk},
    engine::tests::{id, shop},
};
use bench::Bench;

mod bench;
mod disk;
mod random;

/// Long enough for a round.
const LONG: Millis = Millis::from_ms(WAIT_MS.1);

#[test]
fn p9_unreadable_timers_past_keys_max_fire_after_recovery() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 100);
    bench.some("good", 20);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    let fired = bench.deliver();
    assert!(fired.iter().eq((0..20).map(|n| format!("good{n}")).collect::<Vec<_>>().iter()));
    bench.check();
    assert_eq!(bench.engine.namespaces.dues.unreadable, 100);
    assert!(bench.engine.unreadable.keys.len() <= KEYS_MAX && KEYS_MAX < 100);
    // However long that lasts.
    for _ in 0..50 {
        bench.advance(LONG);
        assert!(bench.disk.take_refused() > 0, "they are tried again");
        assert!(bench.claim(10).more.is_empty(), "nothing that can be claimed");
        bench.check();
    }
    assert_eq!(bench.engine.namespaces.dues.unreadable, 100);
    bench.disk.spoil([]);
    bench.advance(LONG);
    bench.check();
    let mut fired = bench.deliver();
    fired.sort_unstable();
    let mut all: Vec<String> = (0..100).map(|n| format!("bad{n}")).collect();
    all.sort_unstable();
    assert_eq!(fired, all);
    bench.check();
    assert_eq!(bench.engine.health().overdue, 0);
    assert!(bench.engine.unreadable.keys.is_empty() && bench.engine.unreadable.logged_ms.is_none());
}

#[test]
fn failed_reads_of_claims_and_rounds_are_bounded() {
    // The auditor reads, too.
    let mut bench = Bench::audited_after(Millis::from_secs(100_000));
    let bad = bench.some("bad", 300);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    bench.disk.take_refused();
    // One of a stretch of several, and one for each of these.
    let most = u64::try_from(2 * 32 + 2).unwrap();
    for _ in 0..20 {
        bench.claim(100);
        let refused = bench.disk.take_refused();
        assert!(refused <= most, "{refused} in a claim");
    }
    assert_eq!(bench.engine.namespaces.dues.unreadable, 300);
    for _ in 0..20 {
        bench.advance(LONG);
        let refused = bench.disk.take_refused();
        assert!((1..=FAILURES_MAX as u64).contains(&refused), "{refused} in a round");
    }
}

#[test]
fn p9_readable_timers_return_despite_permanent_failures() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 60);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    let (for_long, well) = bad.split_at(50);
    bench.spoil(for_long);
    let mut fired = Vec::new();
    for _ in 0..100 {
        bench.advance(LONG);
        fired.extend(bench.deliver());
        bench.check();
    }
    fired.sort_unstable();
    assert!(fired.iter().eq((50..60).map(|n| format!("bad{n}")).collect::<Vec<_>>().iter()));
    assert_eq!(bench.engine.namespaces.dues.unreadable, (50 + well.len() - fired.len()) as u64);
}

#[test]
fn refill_skips_timers_that_became_unreadable() {
    let mut bench = Bench::new();
    let keys = bench.some("t", 100);
    bench.advance(Millis::from_secs(20));
    bench.spoil(&keys);
    bench.steps = Some(0);
    let error = Error::NotFound { operation: OnDisk::Read, name: "it".to_owned() };
    let mut left = keys.iter();
    for _ in 0..12 {
        // The window runs low, and is filled in the steps that follow.
        for key in left.by_ref().take(3) {
            bench.mark_unreadable(*key, &error);
        }
        for _ in 0..4 {
            bench.engine.begin_step();
            bench.mark_unreadable(*left.next().unwrap(), &error);
            bench.check();
        }
    }
}

#[test]
fn p9_every_unreadable_timer_is_retried() {
    let mut bench = Bench::new();
    // More than a table of the index has.
    let bad = bench.some("bad", 2_000);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    // The rest of a walk is short.
    let last = NamespaceName::new("zoo").unwrap();
    let bad = [bench.few_unreadable(&last), bad].concat();
    bench.spoil(&bad);
    (0..300).for_each(|_| bench.advance(LONG));
    let (for_long, _) = bad.split_at(1_998);
    bench.spoil(for_long);
    let rounds = 2_003_u64.div_ceil(FAILURES_MAX as u64);
    let fired: Vec<String> = (0..2 * rounds)
        .flat_map(|_| {
            bench.advance(LONG);
            bench.deliver()
        })
        .collect();
    assert_eq!((fired.len(), bench.engine.namespaces.dues.unreadable), (5, 1_998));
}

#[test]
fn p9_one_failed_read_delays_its_timer_by_one_second() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 5);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    bench.claim(10);
    (0..10).for_each(|_| bench.advance(LONG));
    let once = bench.some("once", 1);
    bench.spoil(&[bad.clone(), once].concat());
    bench.advance(Millis::from_ms(10_001));
    assert!(bench.claim(10).firings.is_empty());
    bench.spoil(&bad);
    assert!(bench.engine.next_due_in().is_some_and(|left| left.as_millis() <= 1_000));
    bench.advance(Millis::from_secs(1));
    assert_eq!(bench.deliver(), ["once0"]);
}

#[test]
fn p5_unreadable_timer_allows_cancel_only() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 20);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    let unread = |outcome: &Outcome| match outcome {
        Outcome::Failed(duly_store::Error::Unavailable { reason, .. }) => {
            reason.contains("cannot be read now")
        }
        _ => false,
    };
    let fired = bench.apply(Operation::Fire { id: id("bad1") });
    assert!(unread(&fired), "{fired:?}");
    let schedule = Box::new(Schedule::new(id("bad1"), When::After(Millis::ZERO)));
    let operation = Operation::Schedule { schedule, if_exists: IfExists::Replace };
    let replaced = bench.apply(operation);
    assert!(unread(&replaced), "{replaced:?}");
    for n in 0..10 {
        let operation = Operation::Cancel { id: id(&format!("bad{n}")), if_revision: None };
        let outcome = bench.apply(operation);
        assert!(matches!(outcome, Outcome::Cancelled { already: false, .. }), "{outcome:?}");
        bench.check();
    }
    assert_eq!(bench.engine.namespaces.dues.unreadable, 10);
    bench.disk.spoil([]);
    bench.advance(LONG);
    assert_eq!(bench.deliver().len(), 10, "those that were not cancelled");
    bench.check();
}

#[test]
fn p3_unreadable_timer_expires_once_readable() {
    for is_paused in [false, true] {
        let mut bench = Bench::new();
        let due = When::After(Millis::from_secs(10));
        let expiring = |n: u32| {
            let mut schedule = Schedule::new(id(&format!("t{n}")), due);
            schedule.spec.expire_after = Some(Millis::from_secs(60));
            schedule
        };
        let bad: Vec<Key> = (0..12).map(|n| bench.schedule(expiring(n))).collect();
        if is_paused {
            bench.engine.set_activity(&shop(), Activity::Paused).unwrap();
            bench.settle();
        }
        bench.spoil(&bad);
        bench.advance(Millis::from_secs(20));
        assert_eq!(bench.deliver(), [""; 0]);
        bench.advance(Millis::from_secs(600));
        bench.check();
        assert_eq!(bench.engine.namespaces.dues.unreadable, 12);
        bench.disk.spoil([]);
        bench.advance(LONG);
        for n in 0..12 {
            let view = bench.engine.get(&shop(), &id(&format!("t{n}")), u64::MAX).unwrap().unwrap();
            assert_eq!(view.state, State::Dead, "paused: {is_paused}");
            let dead_letter = view.timer().and_then(|timer| timer.dead_letter).unwrap();
            assert_eq!(dead_letter.reason, DeadLetterReason::Expired);
        }
        bench.check();
    }
}

#[test]
fn p2_clock_step_back_uncounts_unreadable_timers() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 30);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    assert_eq!(bench.engine.namespaces.dues.unreadable, 30);
    bench.clock.step_wall(-15_000);
    bench.settle();
    bench.check();
    assert_eq!(bench.engine.health().overdue, 0, "they are in the future");
    bench.disk.spoil([]);
    assert_eq!(bench.deliver(), [""; 0]);
    bench.advance(Millis::from_secs(15));
    assert_eq!(bench.deliver().len(), 30);
    bench.check();
}

#[test]
fn p1_unreadable_retries_become_claimable_again() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 30);
    bench.advance(Millis::from_secs(20));
    for _ in 0..3 {
        for firing in bench.claim(10).firings {
            let (wait, outcome) = (Wait::Exactly(Millis::from_secs(5)), AttemptOutcome::Failed);
            bench.give(&firing, SettleVerdict::Retry { wait, outcome, reason: "no".into() });
        }
    }
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(6));
    assert_eq!(bench.deliver(), [""; 0]);
    bench.check();
    assert_eq!(bench.engine.namespaces.dues.unreadable, 30);
    bench.disk.spoil([]);
    bench.advance(LONG);
    assert_eq!(bench.deliver().len(), 30);
    bench.check();
}

#[test]
fn p1_restart_keeps_unreadable_timers() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 30);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    bench.deliver();
    let Bench { engine, disk, clock, .. } = bench;
    let options = engine.options.clone();
    drop(engine);
    disk.spoil([]);
    let by: Arc<dyn Clock> = Arc::new(clock.clone());
    let opened = Engine::open(Arc::new(disk.clone()), options, by, &mut |_| {});
    let engine = opened.unwrap_or_else(|error| panic!("it does not open: {error}")).0;
    let mut bench = Bench { engine, disk, clock, steps: None };
    bench.settle();
    bench.check();
    assert_eq!(bench.engine.namespaces.dues.unreadable, 0);
    assert_eq!(bench.deliver().len(), 30);
}

#[test]
fn deleted_namespace_leaves_no_unreadable_timers() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 30);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    bench.deliver();
    bench.engine.delete_namespace(&shop(), duly_store::namespaces::DeleteMode::Force).unwrap();
    bench.settle();
    let health = bench.engine.health();
    assert_eq!((health.unreadable, health.overdue, health.oldest_due_age), (0, 0, None));
    bench.advance(LONG);
    assert!(bench.engine.unreadable.keys.is_empty());
}
