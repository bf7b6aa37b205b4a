//! Timers on bad places of a disk: what stands elsewhere goes on, every count stays exact, and all of
//! them fire when the disk reads again.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use duly_core::{
    Millis, Schedule, State,
    destination::LaneKey,
    env::Clock,
    schedule::{IfExists, When},
    timer::{AttemptOutcome, DeathReason, Wait},
};
use duly_store::{
    ClaimRequest, Claimed, Command, Firing, Lane, LaneClaim, Operation, Outcome, Owner,
    SettleVerdict, Settlement,
    command::Answer,
    conformance::ManualClock,
    namespaces::{Activity, Put},
};

use super::*;
use crate::{
    disk::{Error, Operation as OnDisk},
    engine::{
        overdue::Place,
        tests::{id, shop, small},
    },
    format::ALIGN,
    options::Options,
};
use disk::Spoiled;

mod disk;
mod random;

struct Bench {
    engine: Engine,
    disk: Spoiled,
    clock: ManualClock,
    /// How many steps follow each call; `None`: until there is nothing to do.
    steps: Option<usize>,
}

impl Bench {
    /// With windows that hold few, so that most of what is due is hidden.
    fn new() -> Self {
        Self::audited_after(Millis::ZERO)
    }

    fn audited_after(rest: Millis) -> Self {
        let (disk, clock) = (Spoiled::new(), ManualClock::default());
        let options = Options {
            segment_bytes: 16 << 20,
            near_max: 50,
            overdue_max: 4,
            audit_rest_ms: rest.ms(),
            ..small()
        };
        let by: Arc<dyn Clock> = Arc::new(clock.clone());
        let opened = Engine::open(Arc::new(disk.clone()), options, by, &mut |_| {});
        let mut engine = opened.unwrap_or_else(|error| panic!("it does not open: {error}")).0;
        engine.begin_step();
        engine.put_namespace(&shop(), Put::IfAbsent(Box::default())).unwrap();
        let mut bench = Self { engine, disk, clock, steps: None };
        bench.settle();
        bench
    }

    /// Lets everything happen that needs no time.
    fn settle(&mut self) {
        for _ in 0..self.steps.unwrap_or(10_000) {
            self.engine.begin_step();
            if let Some(mark) = self.engine.commit().unwrap() {
                mark.file.sync_data().unwrap();
                self.engine.synced(mark.lsn, mark.position);
                continue;
            }
            let work = self.engine.take_work();
            if work.is_empty() && !self.engine.is_busy() {
                return;
            }
            work.into_iter().for_each(|work| work()(&mut self.engine));
        }
        assert!(self.steps.is_some(), "it comes to rest");
    }

    fn advance(&mut self, by: Millis) {
        self.clock.advance(by);
        self.settle();
    }

    fn apply(&mut self, operation: Operation) -> Outcome {
        self.engine.begin_step();
        let outcome =
            self.engine.apply(Command { namespace: shop(), operation, answer: Answer::Whole });
        self.settle();
        outcome
    }

    fn schedule(&mut self, schedule: Schedule) -> Key {
        let key = self.engine.key(self.number(), schedule.id.as_str());
        let schedule = Box::new(schedule);
        let outcome = self.apply(Operation::Schedule { schedule, if_exists: IfExists::Fail });
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        key
    }

    /// Timers that become due a millisecond apart, one after the other on the disk.
    fn some(&mut self, name: &str, count: u64) -> Vec<Key> {
        let due = |n| When::After(Millis::from_ms(10_000 + n));
        (0..count)
            .map(|n| self.schedule(Schedule::new(id(&format!("{name}{n}")), due(n))))
            .collect()
    }

    /// Three timers of another namespace that are aside.
    fn few_aside(&mut self, name: &NamespaceName) -> Vec<Key> {
        self.engine.put_namespace(name, Put::IfAbsent(Box::default())).unwrap();
        self.settle();
        let number = self.engine.namespaces.number_of(name).unwrap();
        let keys: Vec<Key> = (0..3)
            .map(|n| {
                let id = id(&format!("few{n}"));
                let key = self.engine.key(number, id.as_str());
                let schedule = Box::new(Schedule::new(id, When::After(Millis::ZERO)));
                let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
                let (namespace, answer) = (name.clone(), Answer::Whole);
                self.engine.apply(Command { namespace, operation, answer });
                self.settle();
                key
            })
            .collect();
        let error = Error::NotFound { operation: OnDisk::Read, name: "it".to_owned() };
        for key in &keys {
            let entry = self.engine.namespaces.live(*key).unwrap();
            self.engine.set_aside(*key, &entry, &error);
        }
        keys
    }

    fn number(&self) -> u32 {
        self.engine.namespaces.number_of(&shop()).unwrap()
    }

    fn bytes_of(&self, key: Key) -> Option<Range<u64>> {
        let at = self.engine.namespaces.live(key)?.location();
        Some(at.unit() * ALIGN..at.unit() * ALIGN + 16)
    }

    fn spoil(&self, keys: &[Key]) {
        self.disk.spoil(keys.iter().filter_map(|key| self.bytes_of(*key)));
    }

    fn claim(&mut self, most: usize) -> Claimed {
        let lane = Lane { namespace: shop(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: most, retry_max: most }],
            total_max: most,
            bytes_max: u64::MAX,
            owner: Owner::Consumer { lease: None },
        };
        self.engine.begin_step();
        let claimed = self.engine.claim(&request).expect("a claim is answered");
        self.settle();
        claimed
    }

    fn give(&mut self, firing: &Firing, verdict: SettleVerdict) {
        let settlement = Settlement { token: firing.token.clone(), namespace: None, verdict };
        self.engine.settle(&settlement).unwrap();
        self.settle();
    }

    /// Claims and acknowledges until nothing comes.
    fn deliver(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let claimed = self.claim(10);
            for firing in &claimed.firings {
                self.give(firing, SettleVerdict::Ack);
                ids.push(firing.id.to_string());
            }
            if claimed.firings.is_empty() && claimed.more.is_empty() {
                return ids;
            }
        }
    }

    /// Compares the index with everything that is counted.
    #[track_caller]
    fn check(&mut self) {
        let namespace = self.engine.namespaces.get(self.number()).unwrap();
        let (mut due, mut aside) = (BTreeMap::new(), BTreeMap::new());
        let mut cursor = Some(Cursor::START);
        while let Some(scan) = cursor.and_then(|from| namespace.live.scan(from)) {
            cursor = scan.next;
            for entry in scan.entries() {
                let (flags, kind) = (entry.flags(), entry.claimable().kind);
                let place = Place::of(self.number(), &entry);
                let window = namespace.lanes.get(entry.lane()).unwrap().due(kind).window();
                let is_due = flags.has(Flags::SURFACED);
                assert!(!flags.has(Flags::LEASED) || !flags.has(Flags::DUE), "{entry:?}");
                assert!(is_due || !flags.has(Flags::ASIDE), "{entry:?}");
                let is_claimable = is_due && !flags.has(Flags::ASIDE);
                assert!(is_claimable || !window.contains(&place), "{entry:?}");
                *due.entry((entry.lane(), kind)).or_insert(0) += u64::from(is_due);
                *aside.entry((entry.lane(), kind)).or_insert(0) +=
                    u64::from(flags.has(Flags::ASIDE));
            }
        }
        for (slot, lane) in namespace.lanes.iter() {
            for kind in [Kind::First, Kind::Retry] {
                let counted = (lane.due(kind).len(), lane.due(kind).aside());
                let found = [&due, &aside].map(|of| of.get(&(slot, kind)).copied().unwrap_or(0));
                assert_eq!(counted, (found[0], found[1]), "lane {slot}, {kind:?}");
            }
        }
        let health = self.engine.health();
        assert_eq!(health.unreadable, aside.values().sum::<u64>());
        assert_eq!(health.overdue, due.values().sum::<u64>());
        assert_eq!(health.audit_findings, 0);
    }
}

/// Long enough for a round to come.
const LONG: Millis = Millis::from_ms(WAIT_MS.1);

#[test]
fn p9_many_more_than_are_known_hold_nobody_up_and_all_fire_when_the_disk_is_well() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 100);
    bench.some("good", 20);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    let fired = bench.deliver();
    assert!(fired.iter().eq((0..20).map(|n| format!("good{n}")).collect::<Vec<_>>().iter()));
    bench.check();
    assert_eq!(bench.engine.namespaces.aside(), 100);
    assert!(bench.engine.aside.keys.len() <= KEYS_MAX && KEYS_MAX < 100);
    // However long that lasts.
    for _ in 0..50 {
        bench.advance(LONG);
        assert!(bench.disk.take_refused() > 0, "they are tried again");
        assert!(bench.claim(10).more.is_empty(), "nothing that can be claimed");
        bench.check();
    }
    assert_eq!(bench.engine.namespaces.aside(), 100);
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
    assert!(bench.engine.aside.keys.is_empty() && bench.engine.aside.said_ms.is_none());
}

#[test]
fn a_claim_and_a_round_are_refused_a_bounded_number_of_reads() {
    // The auditor reads, too.
    let mut bench = Bench::audited_after(Millis::from_secs(100_000));
    let bad = bench.some("bad", 300);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    bench.disk.take_refused();
    // One of a stretch of several, and one each of these.
    let most = u64::try_from(2 * 32 + 2).unwrap();
    for _ in 0..20 {
        bench.claim(100);
        let refused = bench.disk.take_refused();
        assert!(refused <= most, "{refused} in a claim");
    }
    assert_eq!(bench.engine.namespaces.aside(), 300);
    for _ in 0..20 {
        bench.advance(LONG);
        let refused = bench.disk.take_refused();
        assert!((1..=FAILURES_MAX as u64).contains(&refused), "{refused} in a round");
    }
}

#[test]
fn p9_what_can_be_read_again_comes_back_though_others_never_do() {
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
    assert_eq!(bench.engine.namespaces.aside(), (50 + well.len() - fired.len()) as u64);
}

#[test]
fn p9_of_very_many_each_has_its_turn() {
    let mut bench = Bench::new();
    // More than a table of the index has.
    let bad = bench.some("bad", 2_000);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    // The last of a walk are few.
    let last = NamespaceName::new("zoo").unwrap();
    let bad = [bench.few_aside(&last), bad].concat();
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
    assert_eq!((fired.len(), bench.engine.namespaces.aside()), (5, 1_998));
}

#[test]
fn p9_a_read_that_fails_once_delays_its_timer_by_a_second_whatever_else_waits_for_long() {
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
fn p5_what_is_aside_can_be_cancelled_and_nothing_else_is_done_with_it_meanwhile() {
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
    assert_eq!(bench.engine.namespaces.aside(), 10);
    bench.disk.spoil([]);
    bench.advance(LONG);
    assert_eq!(bench.deliver().len(), 10, "those that were not cancelled");
    bench.check();
}

#[test]
fn p3_what_expires_while_it_cannot_be_read_is_a_dead_letter_as_soon_as_it_can() {
    for is_paused in [false, true] {
        let mut bench = Bench::new();
        let due = When::After(Millis::from_secs(10));
        let expiring = |n: u32| {
            let mut schedule = Schedule::new(id(&format!("t{n}")), due);
            schedule.expire_after = Some(Millis::from_secs(60));
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
        assert_eq!(bench.engine.namespaces.aside(), 12);
        bench.disk.spoil([]);
        bench.advance(LONG);
        for n in 0..12 {
            let view = bench.engine.get(&shop(), &id(&format!("t{n}"))).unwrap().unwrap();
            assert_eq!(view.state, State::Dead, "paused: {is_paused}");
            let death = view.timer().and_then(|timer| timer.death).unwrap();
            assert_eq!(death.reason, DeathReason::Expired);
        }
        bench.check();
    }
}

#[test]
fn p2_a_step_back_of_the_clock_uncounts_what_is_aside_and_it_fires_at_its_time() {
    let mut bench = Bench::new();
    let bad = bench.some("bad", 30);
    bench.spoil(&bad);
    bench.advance(Millis::from_secs(20));
    assert_eq!(bench.deliver(), [""; 0]);
    assert_eq!(bench.engine.namespaces.aside(), 30);
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
fn p1_retries_are_set_aside_and_come_back_as_first_attempts_do() {
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
    assert_eq!(bench.engine.namespaces.aside(), 30);
    bench.disk.spoil([]);
    bench.advance(LONG);
    assert_eq!(bench.deliver().len(), 30);
    bench.check();
}

#[test]
fn p1_a_restart_while_timers_are_aside_loses_none() {
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
    assert_eq!(bench.engine.namespaces.aside(), 0);
    assert_eq!(bench.deliver().len(), 30);
}

#[test]
fn a_deleted_namespace_leaves_nothing_aside() {
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
    assert!(bench.engine.aside.keys.is_empty());
}
