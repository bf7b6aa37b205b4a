//! Steps are bounded in records and bytes: a large number of ends, expiries or verdicts continues in the
//! next step. Counted in bytes of frames and in entries, never in time.

use duly_core::{Destination, Payload, destination::HttpDestination, payload::Form};
use duly_store::{MemberId, Stats};

use super::*;
use crate::engine::{
    refill::VISITS_AT_ONCE,
    settle::{Releasing, Settling},
    step_budget::{PASS_BYTES, PASS_RECORDS, SLICE_BYTES, SLICE_RECORDS},
};
use crate::index::AttemptKind;

/// Timers with large payloads.
const LARGE: usize = 150;
const LARGE_BYTES: usize = 64 << 10;
/// A pass may exceed its bytes by a record, and records are estimated by their size class.
const SLACK: u64 = 2;

fn large(n: usize) -> Schedule {
    let mut schedule = Schedule::new(id(&format!("large{n}")), When::After(Millis::ZERO));
    schedule.spec.payload =
        Some(Payload { form: Form::Text, bytes: "x".repeat(LARGE_BYTES).into() });
    schedule
}

impl Bench {
    fn make(&mut self, schedule: Schedule) {
        let schedule = Box::new(schedule);
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let command = Command { namespace: shop(), operation, answer: Answer::Brief };
        let outcome = self.engine.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
    }

    fn make_large(&mut self) {
        for n in 0..LARGE {
            self.make(large(n));
            self.sync();
        }
        self.settle_down();
    }

    fn claim_all(&mut self, owner: Owner) -> Vec<Firing> {
        let mut all = Vec::new();
        loop {
            let firings = self.claim_as(owner);
            if firings.is_empty() {
                return all;
            }
            all.extend(firings);
            self.sync();
        }
    }

    fn counts(&self) -> Stats {
        let number = self.engine.namespaces.number_of(&shop()).expect("it was made");
        self.engine.counts_of(number).expect("it was made")
    }

    /// Writes and syncs, if there is anything to write.
    fn commit(&mut self) {
        if let Some(mark) = self.engine.commit().expect("the simulated disk is well") {
            mark.file.sync_data().expect("the simulated disk is well");
            self.engine.synced(mark.lsn, mark.position);
        }
    }

    pub(in crate::engine) fn settle_down(&mut self) {
        self.engine.begin_step();
        self.commit();
        while self.engine.is_busy() {
            self.engine.begin_step();
            self.commit();
        }
    }

    /// Runs steps until nothing is left to do. Returns the bytes of each frame.
    fn frames(&mut self) -> Vec<u64> {
        let mut frames = Vec::new();
        loop {
            self.engine.begin_step();
            frames.push(self.engine.uncommitted_bytes() as u64);
            self.commit();
            if !self.engine.is_busy() {
                return frames;
            }
        }
    }
}

fn check_frames(frames: &[u64], bytes_max: u64) {
    let all: u64 = frames.iter().sum();
    assert!(all >= (LARGE * LARGE_BYTES) as u64, "every record was written again: {frames:?}");
    let largest = frames.iter().max().copied().unwrap_or(0);
    assert!(largest <= SLACK * bytes_max, "{frames:?}");
}

#[test]
fn leases_that_end_together_end_in_bounded_steps() {
    let mut bench = Bench::with_large_segments();
    bench.make_large();
    let firings = bench.claim_all(Owner::Consumer { lease: None });
    assert_eq!(firings.len(), LARGE);
    bench.clock.advance(Millis::from_secs(3_600));
    bench.engine.begin_step();
    let first = bench.engine.uncommitted_bytes() as u64;
    assert!((1..=SLACK * PASS_BYTES).contains(&first), "{first} bytes in the first step");
    // A lease that still waits for its turn has ended all the same.
    let settlement = |firing: &Firing| {
        let token = firing.token.clone();
        Settlement { token, namespace: None, verdict: SettleVerdict::Ack }
    };
    for firing in firings {
        let outcome = bench.engine.settle(&settlement(&firing)).expect("it is answered");
        assert_eq!(outcome.as_str(), "lease_lost");
    }
    bench.commit();
    bench.settle_down();
    assert_eq!((bench.counts().in_flight, bench.counts().retrying), (0, LARGE as u64));
    bench.claim_all(Owner::Consumer { lease: None });
    bench.clock.advance(Millis::from_secs(3_600));
    check_frames(&bench.frames(), PASS_BYTES);
    assert_eq!((bench.counts().in_flight, bench.counts().retrying), (0, LARGE as u64));
}

#[test]
fn firings_that_expire_together_expire_in_bounded_steps() {
    let mut bench = Bench::with_large_segments();
    for n in 0..LARGE {
        let mut schedule = large(n);
        schedule.spec.expire_after = Some(Millis::from_secs(10));
        bench.make(schedule);
        bench.sync();
    }
    bench.settle_down();
    assert_eq!(bench.counts().due, LARGE as u64);
    bench.clock.advance(Millis::from_secs(60));
    check_frames(&bench.frames(), PASS_BYTES);
    assert_eq!((bench.counts().due, bench.counts().dead), (0, LARGE as u64));
}

#[test]
fn verdicts_are_settled_in_bounded_slices() {
    let mut bench = Bench::with_large_segments();
    bench.make_large();
    let firings = bench.claim_all(Owner::Consumer { lease: None });
    let settlements = firings.iter().map(|firing| {
        let (wait, outcome) = (Wait::Policy, AttemptOutcome::Failed);
        let verdict = SettleVerdict::Retry { wait, outcome, reason: "no".into() };
        Settlement { token: firing.token.clone(), namespace: None, verdict }
    });
    let mut settling = Settling::new(settlements.collect()).expect("it is allowed");
    let mut frames = Vec::new();
    let outcomes = loop {
        let answer = bench.engine.settle_slice(&mut settling);
        frames.push(bench.engine.uncommitted_bytes() as u64);
        bench.commit();
        if let Some(outcomes) = answer {
            break outcomes.expect("all are taken");
        }
    };
    assert!(frames.len() > 1, "{frames:?}");
    check_frames(&frames, SLICE_BYTES);
    assert_eq!(outcomes.len(), LARGE);
    assert!(outcomes.iter().all(|outcome| outcome.as_str() == "ok"), "{outcomes:?}");
    assert_eq!(bench.counts().retrying, LARGE as u64);
}

#[test]
fn leases_of_a_node_end_in_bounded_slices() {
    let mut bench = Bench::with_large_segments();
    bench.make_large();
    bench.claim_all(Owner::Node(MemberId(7)));
    bench.schedule("other");
    bench.sync();
    bench.claim_all(Owner::Node(MemberId(8)));
    let mut releasing = Releasing::new(MemberId(7));
    let mut frames = Vec::new();
    let released = loop {
        let answer = bench.engine.release_slice(&mut releasing);
        frames.push(bench.engine.uncommitted_bytes() as u64);
        bench.commit();
        if let Some(released) = answer {
            break released;
        }
    };
    check_frames(&frames, SLICE_BYTES);
    assert_eq!((released, bench.counts().in_flight), (LARGE as u64, 1));
}

#[test]
fn small_records_are_bounded_by_their_number() {
    let mut bench = Bench::with_large_segments();
    let count = 3 * PASS_RECORDS.max(SLICE_RECORDS) as u64;
    for n in 0..count {
        let mut schedule = Schedule::new(id(&format!("t{n}")), When::After(Millis::from_secs(5)));
        schedule.spec.expire_after = Some(Millis::from_secs(10));
        bench.make(schedule);
    }
    bench.sync();
    bench.settle_down();
    // Each timer that becomes due is read, to find its expiry.
    let step = |bench: &mut Bench, of: fn(&Stats) -> u64| {
        let mut seen = of(&bench.counts());
        loop {
            bench.engine.begin_step();
            bench.commit();
            let now = of(&bench.counts());
            assert!(now.saturating_sub(seen) <= PASS_RECORDS as u64, "{seen} to {now} in a step");
            seen = now;
            if !bench.engine.is_busy() {
                return;
            }
        }
    };
    bench.clock.advance(Millis::from_secs(5));
    step(&mut bench, |stats| stats.due);
    assert_eq!(bench.counts().due, count);
    bench.clock.advance(Millis::from_secs(20));
    step(&mut bench, |stats| stats.dead);
    assert_eq!((bench.counts().due, bench.counts().dead), (0, count));
}

#[test]
fn tombstones_that_end_together_go_in_bounded_steps() {
    let mut bench = Bench::with_large_segments();
    let count = 20_000;
    for n in 0..count {
        bench.make(Schedule::new(id(&format!("t{n}")), When::After(Millis::from_secs(5))));
        let operation = Operation::Cancel { id: id(&format!("t{n}")), if_revision: None };
        bench.engine.apply(Command { namespace: shop(), operation, answer: Answer::Brief });
    }
    bench.sync();
    bench.settle_down();
    assert_eq!(bench.counts().retained, count);
    bench.clock.advance(Millis::from_secs(30 * 24 * 3_600));
    let mut left = count;
    while left > 0 {
        bench.engine.begin_step();
        let now = bench.counts().retained;
        assert!(left - now <= 4_096 + 2_048, "{left} to {now} in a step");
        assert!(now == 0 || bench.engine.is_busy());
        left = now;
    }
}

#[test]
fn health_equals_a_scan_of_every_lane() {
    let mut bench = Bench::with_large_segments();
    let found = |bench: &Bench| {
        let (mut overdue, mut oldest) = (0, None::<u64>);
        for (_, namespace) in bench.engine.namespaces.iter() {
            for (_, lane) in namespace.lanes.iter() {
                for kind in [AttemptKind::First, AttemptKind::Retry] {
                    overdue += lane.due(kind).len();
                    oldest = oldest.into_iter().chain(lane.due(kind).first_ms()).min();
                }
            }
        }
        let age = oldest.map(|at| bench.engine.now.wall_ms.saturating_sub(at));
        (overdue, age.map(Millis::from_ms))
    };
    let mut overdue_max = 0;
    for round in 0..200_u64 {
        for n in 0..3 {
            bench.schedule(&format!("t{round}-{n}"));
        }
        bench.sync();
        bench.clock.advance(Millis::from_ms(1 + round % 3 * 700));
        let firings = if round % 5 == 4 { bench.claim() } else { Vec::new() };
        for (n, firing) in firings.iter().enumerate() {
            if n % 3 == 0 {
                bench.settle(firing, SettleVerdict::Ack);
            } else if n % 3 == 1 {
                bench.settle(firing, SettleVerdict::Release);
            }
        }
        bench.commit();
        bench.engine.begin_step();
        let health = bench.engine.health();
        assert_eq!((health.overdue, health.oldest_due_age), found(&bench), "round {round}");
        overdue_max = overdue_max.max(health.overdue);
    }
    assert!(overdue_max > 10, "something was due: {overdue_max}");
    bench.engine.delete_namespace(&shop(), duly_store::namespaces::DeleteMode::Force).unwrap();
    let health = bench.engine.health();
    let nothing = (0, 0, 0, None);
    let seen = (health.overdue, health.in_flight, health.pending, health.oldest_due_age);
    assert_eq!(seen, nothing, "at once, whatever is still to be counted out");
    bench.settle_down();
    assert_eq!((bench.engine.health().in_flight, bench.engine.leases.len()), (0, 0));
}

#[test]
fn clock_step_back_defers_timers_in_bounded_steps() {
    let count = 40_000;
    // All resident in the window of the lane, or nearly all spilled.
    for overdue_max in [1_000_000, 1_000] {
        let mut bench = Bench::with_large_segments();
        bench.engine.options.overdue_max = overdue_max;
        for n in 0..count {
            bench.make(Schedule::new(id(&format!("t{n}")), When::After(Millis::from_secs(5))));
        }
        bench.sync();
        bench.clock.advance(Millis::from_secs(10));
        bench.settle_down();
        assert_eq!(bench.counts().due, count);
        bench.clock.step_wall(-8_000);
        let mut seen = count;
        let mut steps = 0;
        loop {
            assert_eq!(bench.claim().len(), 0, "nothing is claimed early meanwhile");
            steps += 1;
            let due = bench.counts().due;
            assert!(seen - due <= 32_768 + 2_048, "{seen} to {due} in a step");
            seen = due;
            if !bench.engine.is_busy() {
                break;
            }
        }
        assert!(steps > 1, "{steps} steps");
        let stats = bench.counts();
        assert_eq!((stats.due, stats.scheduled), (0, count));
        bench.clock.advance(Millis::from_secs(4));
        bench.settle_down();
        assert_eq!(bench.counts().due, count, "they are due again when the time comes again");
    }
}

#[test]
fn claim_fills_empty_windows_bounded_and_misses_no_lane() {
    let (lanes_count, timers) = (8, 200);
    let mut bench = Bench::with_large_segments();
    let mut lanes = Vec::new();
    for n in 0..lanes_count {
        let http = HttpDestination::new(&format!("https://r{n}.test/")).unwrap();
        let destination = Destination::Http(http);
        lanes.push(Lane { namespace: shop(), key: destination.lane_key() });
        for i in 0..timers {
            let mut schedule = Schedule::new(id(&format!("t{n}-{i}")), When::After(Millis::ZERO));
            schedule.spec.destination = Some(destination.clone());
            bench.make(schedule);
        }
    }
    bench.sync();
    bench.settle_down();
    let number = bench.engine.namespaces.number_of(&shop()).unwrap();
    for lane in &lanes {
        let namespace = bench.engine.namespaces.get_mut(number).unwrap();
        let numbers = namespace.lanes.numbers_of(&lane.key, &Destination::Pull);
        let slot = numbers[0].unwrap();
        namespace.lanes.get_mut(slot).unwrap().due_mut(AttemptKind::First).spill_all();
        bench.engine.check_window((number, slot, AttemptKind::First));
    }
    let claim = |lane: &Lane| LaneClaim { lane: lane.clone(), first_max: 1, retry_max: 1 };
    let request = ClaimRequest {
        lanes: lanes.iter().map(claim).collect(),
        total_max: 100,
        bytes_max: u64::MAX,
        owner: Owner::Consumer { lease: None },
    };
    let claimed = bench.engine.claim(&request).unwrap();
    let at_once = VISITS_AT_ONCE / (lanes_count * timers);
    assert_eq!((at_once, claimed.firings.len()), (2, 2), "a fill looks at the whole namespace");
    assert_eq!(claimed.more, lanes, "the others have something, too");
    bench.settle_down();
    let claimed = bench.engine.claim(&request).unwrap();
    assert_eq!(claimed.firings.len(), lanes_count, "their passes have come");
}
