//! Planted faults: each is found and repaired, and none is found if none was planted.

use duly_core::{
    Millis, Schedule, State,
    destination::LaneKey,
    schedule::{IfExists, When},
};
use duly_store::{
    ClaimRequest, Command, Firing, Lane, LaneClaim, Operation, Outcome, Owner, command::Answer,
    conformance::ManualClock,
};

use crate::{
    disk::SimDisk,
    engine::{
        Engine,
        invariants::{Counts, NamespaceWalk},
        lanes,
        tests::{id, opened, shop, small},
    },
    index::{AttemptKind, Entry, Flags, Key, Location},
    options::Options,
};

const HOUR: Millis = Millis::from_secs(3_600);

struct Bench {
    engine: Engine,
    disk: SimDisk,
    clock: ManualClock,
}

impl Bench {
    fn new() -> Self {
        let options = Options { overdue_max: 4, audit_rest_ms: 0, ..small() };
        let (engine, disk, clock) = opened(options);
        let mut bench = Self { engine, disk, clock };
        bench.settle();
        bench
    }

    /// Runs everything that needs no time.
    fn settle(&mut self) {
        loop {
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
    }

    /// Runs one pass. Returns the number of findings.
    fn audit(&mut self) -> u64 {
        let before = self.engine.auditor.findings;
        let audited_at = self.engine.auditor.audited_at;
        while self.engine.auditor.audited_at == audited_at {
            self.clock.advance(Millis::from_ms(super::STEP_MS));
            self.settle();
        }
        self.engine.auditor.findings - before
    }

    /// Checks that a pass finds the fault, and that the next one finds it repaired.
    #[track_caller]
    fn finds_and_mends(&mut self, count: u64) {
        assert_eq!(self.audit(), count, "what was planted is found");
        assert_eq!(self.audit(), 0, "and put right");
    }

    fn schedule(&mut self, text: &str, after: Millis) -> Key {
        let schedule = Box::new(Schedule::new(id(text), When::After(after)));
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let command = Command { namespace: shop(), operation, answer: Answer::Whole };
        self.engine.begin_step();
        let outcome = self.engine.apply(command);
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        self.settle();
        self.engine.key(self.number(), text)
    }

    fn number(&self) -> u32 {
        self.engine.namespaces.number_of(&shop()).unwrap()
    }

    fn entry(&self, key: Key) -> Entry {
        self.engine.namespaces.live(key).unwrap()
    }

    fn set_flags(&mut self, key: Key, flags: Flags) {
        let number = self.number();
        self.engine.namespaces.get_mut(number).unwrap().live.set_flags(key, flags);
    }

    fn claim(&mut self) -> Vec<Firing> {
        let lane = Lane { namespace: shop(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: 10, retry_max: 10 }],
            total_max: 10,
            bytes_max: u64::MAX,
            owner: Owner::Consumer { lease: Some(HOUR) },
        };
        self.settle();
        let firings = self.engine.claim(&request).unwrap().firings;
        self.settle();
        firings
    }

    fn claimed(&mut self) -> Vec<String> {
        self.claim().iter().map(|firing| firing.id.to_string()).collect()
    }

    fn state(&mut self, text: &str) -> Option<State> {
        self.engine.get(&shop(), &id(text), u64::MAX).unwrap().map(|view| view.state)
    }
}

#[test]
fn consistent_state_has_no_findings() {
    let mut bench = Bench::new();
    for i in 0..20 {
        bench.schedule(&format!("due {i}"), Millis::ZERO);
        bench.schedule(&format!("later {i}"), Millis::from_secs(2 * i));
        bench.schedule(&format!("far {i}"), Millis::from_secs(86_400));
    }
    assert_eq!(bench.audit(), 0, "with some of what is due hidden");
    assert_eq!(bench.claim().len(), 10);
    for _ in 0..5 {
        assert_eq!(bench.audit(), 0);
        bench.clock.advance(Millis::from_secs(10));
    }
    assert!(bench.engine.health().audited_at.is_some());
    assert_eq!(bench.engine.health().audit_findings, 0);
}

#[test]
fn timer_lost_by_calendar_is_found_when_overdue() {
    let mut bench = Bench::new();
    bench.schedule("a", Millis::from_secs(1));
    bench.engine.near_horizon.kind_mut(AttemptKind::First).calendar.clear();
    bench.clock.advance(Millis::from_secs(2));
    bench.finds_and_mends(1);
    assert_eq!(bench.claimed(), ["a"]);
}

#[test]
fn timer_lost_by_sweep_is_found_before_due() {
    let mut bench = Bench::new();
    bench.schedule("near", Millis::ZERO);
    bench.settle();
    // After the end of the calendar, and `beyond_ms` does not include it.
    bench.schedule("far", Millis::from_secs(86_400));
    bench.engine.near_horizon.kind_mut(AttemptKind::First).forget_beyond();
    bench.finds_and_mends(1);
    bench.claim();
    bench.clock.advance(Millis::from_secs(86_401));
    bench.settle();
    assert!(bench.claimed().contains(&"far".to_owned()));
}

#[test]
fn due_timer_lost_by_lane_is_restored() {
    let mut bench = Bench::new();
    let key = bench.schedule("a", Millis::ZERO);
    let entry = bench.entry(key);
    assert!(entry.flags().has(Flags::COUNTED_DUE));
    // The lane loses it; the flag stays.
    let number = bench.number();
    bench.engine.namespaces.clear_due(number, &entry);
    bench.engine.namespaces.refresh_active(number, entry.lane());
    bench.set_flags(key, entry.flags());
    assert!(bench.claim().is_empty());
    assert!(bench.audit() >= 1);
    assert_eq!(bench.audit(), 0);
    assert_eq!(bench.claimed(), ["a"]);
}

#[test]
fn timer_counted_as_due_too_early_is_corrected() {
    let mut bench = Bench::new();
    let key = bench.schedule("a", HOUR);
    let (number, entry) = (bench.number(), bench.entry(key));
    bench.engine.namespaces.count_due(number, &entry, 10);
    bench.finds_and_mends(1);
    assert!(!bench.entry(key).flags().has(Flags::COUNTED_DUE));
    bench.clock.advance(HOUR);
    assert_eq!(bench.claimed(), ["a"]);
}

#[test]
fn unlisted_active_lane_is_listed_again() {
    let mut bench = Bench::new();
    bench.schedule("a", Millis::ZERO);
    bench.engine.namespaces.active.clear();
    assert!(bench.engine.ready(None, 10).unwrap().lanes.is_empty());
    bench.finds_and_mends(1);
    assert_eq!(bench.engine.ready(None, 10).unwrap().lanes.len(), 1);
}

#[test]
fn spilled_timers_without_refill_are_refilled() {
    let mut bench = Bench::new();
    for i in 0..8 {
        bench.schedule(&format!("{i}"), Millis::ZERO);
    }
    // The window is lost, and a refill that is not under way keeps another from beginning.
    let (number, room) = (bench.number(), 4);
    let namespace = bench.engine.namespaces.get_mut(number).unwrap();
    let due = namespace.lanes.get_mut(lanes::DEFAULT).unwrap().due_mut(AttemptKind::First);
    due.spill_all();
    assert!(due.begin_refill(room) && due.window().is_empty());
    bench.finds_and_mends(1);
    assert_eq!(bench.claim().len(), 8);
}

#[test]
fn lease_flag_and_lease_mismatches_are_repaired() {
    let mut bench = Bench::new();
    let key = bench.schedule("a", Millis::ZERO);
    assert_eq!(bench.claim().len(), 1);
    bench.engine.leases.remove(key).unwrap();
    bench.finds_and_mends(1);
    assert_eq!(bench.claimed(), ["a"], "it waits again");

    let flags = bench.entry(key).flags();
    bench.set_flags(key, flags.without(Flags::LEASED));
    assert!(bench.audit() >= 1);
    assert_eq!(bench.audit(), 0);
    assert_eq!(bench.state("a"), Some(State::InFlight));
}

#[test]
fn a_lease_on_nothing_is_dropped() {
    let mut bench = Bench::new();
    let key = bench.schedule("a", Millis::ZERO);
    bench.claim();
    let lease = *bench.engine.leases.get(key).unwrap();
    let nobody = bench.engine.key(bench.number(), "nobody");
    bench.engine.leases.put(nobody, lease);
    bench.finds_and_mends(1);
    assert!(bench.engine.leases.get(nobody).is_none());
    assert!(bench.engine.leases.get(key).is_some());
}

#[test]
fn wrong_namespace_counts_are_corrected() {
    let mut bench = Bench::new();
    bench.schedule("a", Millis::ZERO);
    bench.schedule("b", HOUR);
    let number = bench.number();
    let namespace = bench.engine.namespaces.get_mut(number).unwrap();
    namespace.first += 3;
    namespace.pending_bytes -= 1;
    namespace.lanes.get_mut(lanes::DEFAULT).unwrap().in_flight += 1;
    bench.finds_and_mends(1);
    let stats = bench.engine.counts_of(number).unwrap();
    assert_eq!((stats.scheduled, stats.due, stats.in_flight), (1, 1, 0));
    assert_eq!(stats.lanes[0].in_flight, 0);
}

#[test]
fn total_due_count_is_corrected_with_lane_count() {
    let mut bench = Bench::new();
    bench.schedule("a", Millis::ZERO);
    let number = bench.number();
    let place = (number, lanes::DEFAULT, AttemptKind::First);
    bench.engine.namespaces.correct_due(place, 4, 0);
    assert_eq!(bench.engine.namespaces.dues.len, 4);
    assert!(bench.audit() >= 1);
    assert_eq!(bench.audit(), 0);
    assert_eq!(bench.engine.counts_of(number).unwrap().due, 1);
    assert_eq!(bench.engine.namespaces.dues.len, 1);
}

/// Regression: `duly store check` called a store damaged whose checkpoint named such a lane.
#[test]
fn lane_that_a_checkpoint_names_without_timers_is_no_fault() {
    let mut bench = Bench::new();
    bench.schedule("a", HOUR);
    let number = bench.number();
    let lanes = &mut bench.engine.namespaces.get_mut(number).unwrap().lanes;
    lanes.restore(7, Some(LaneKey::Receiver("https://receiver.example".into())));
    assert_eq!(bench.engine.broken_invariants(), []);
}

#[test]
fn counts_of_changing_namespace_are_not_compared() {
    let mut bench = Bench::new();
    bench.schedule("a", HOUR);
    let number = bench.number();
    let touched = bench.engine.namespaces.get(number).unwrap().touched;
    let walk = |touched| NamespaceWalk {
        number,
        cursor: crate::index::Cursor::START,
        touched,
        sums: Counts::default(),
    };
    let broken = |touched| {
        let mut broken = Vec::new();
        bench.engine.check_lanes_and_counts(&walk(touched), &mut broken);
        broken.len()
    };
    assert_eq!(broken(touched - 1), 0, "the sums are of another moment");
    assert_eq!(broken(touched), 1, "and would be found otherwise");
}

#[test]
fn a_record_that_is_in_no_file_becomes_a_dead_letter() {
    let mut bench = Bench::new();
    for (text, slot, unit) in [("no file", 9, 4), ("beyond the end", 0, 1 << 20)] {
        let key = bench.schedule(text, HOUR);
        let (number, entry) = (bench.number(), bench.entry(key));
        let nowhere = Location::new(slot, unit, entry.location().bytes_max());
        bench.engine.files.release(entry.location());
        bench.engine.files.retain(nowhere);
        let live = &mut bench.engine.namespaces.get_mut(number).unwrap().live;
        assert!(live.relocate(key, entry.location(), nowhere).is_some());
        assert!(bench.audit() >= 1);
        assert_eq!(bench.audit(), 0);
        assert_eq!(bench.state(text), None);
    }
    assert_eq!(bench.engine.namespaces.sums.dead, 2);
}

#[test]
fn damaged_record_is_found_before_due_time() {
    let mut bench = Bench::new();
    for i in 0..60 {
        bench.schedule(&format!("{i}"), HOUR);
    }
    bench.schedule("well", HOUR);
    for text in ["rotten", "worse", "worst"] {
        let key = bench.schedule(text, HOUR);
        let location = bench.entry(key).location();
        let name = bench.engine.files.get(location.slot()).unwrap().id.name();
        bench.disk.corrupt(&name, location.unit() * 16 + 30, 1);
    }
    // Enough passes for the samples to reach it.
    let mut found = 0;
    for _ in 0..100 {
        found += bench.audit();
    }
    assert_eq!(found, 3, "every entry has its turn");
    assert_eq!((bench.state("well"), bench.state("rotten")), (Some(State::Scheduled), None));
    assert_eq!(bench.engine.namespaces.sums.dead, 3);
}

#[test]
fn a_pass_takes_bounded_steps_and_rests_in_between() {
    let mut bench = Bench::new();
    bench.engine.options.audit_rest_ms = 60_000;
    bench.schedule("a", HOUR);
    let audited_at = bench.engine.auditor.audited_at;
    bench.clock.advance(Millis::from_ms(59_000));
    bench.settle();
    assert_eq!(bench.engine.auditor.audited_at, audited_at, "it rests");
    bench.clock.advance(Millis::from_ms(1_000));
    bench.settle();
    assert_ne!(bench.engine.auditor.audited_at, audited_at);
}
