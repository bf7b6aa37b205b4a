//! The engine between its steps: records that are written but not yet durable, and the state after a
//! failure.
//!
//! The shells hide these moments. Here the test takes the place of the shell.

use std::sync::Arc;

use duly_core::{
    Millis, NamespaceName, Schedule, TimerId,
    destination::LaneKey,
    env::Clock,
    schedule::{Change, IfExists, Patch, When},
    timer::{AttemptOutcome, Wait},
};
use duly_store::{
    ClaimRequest, Command, Firing, Lane, LaneClaim, Operation, Outcome, Owner, SettleVerdict,
    Settlement,
    command::{Answer, DeadLetterId},
    conformance::ManualClock,
    namespaces::Put,
};

use crate::{
    disk::{Disk, Fault, SimDisk},
    journal::SyncMark,
    options::Options,
};

use super::Engine;

mod bounded;
mod collisions;
mod fuzzy;
mod loose;
mod many_namespaces;
mod moving;
mod numbers;
mod places;
mod rewritten;
mod shown;

/// An engine, its disk and its clock.
pub(super) struct Bench {
    pub(super) engine: Engine,
    disk: SimDisk,
    pub(super) clock: ManualClock,
}

pub(super) fn shop() -> NamespaceName {
    NamespaceName::new("shop").unwrap()
}

pub(super) fn id(text: &str) -> TimerId {
    TimerId::new(text).unwrap()
}

/// Options of an engine that does the same at every run and never lacks space.
pub(super) fn small() -> Options {
    Options {
        segment_bytes: 64 * 1024,
        min_free_bytes: Some(0),
        min_free_percent: 0,
        random_seed: Some(1),
        ..Options::default()
    }
}

pub(super) fn open(disk: &SimDisk, options: Options, clock: &ManualClock) -> Engine {
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let by: Arc<dyn Clock> = Arc::new(clock.clone());
    let opened = Engine::open(on, options, by, &mut |_| {});
    opened.unwrap_or_else(|error| panic!("it does not open: {error}")).0
}

/// A new engine with an empty namespace [`shop`].
pub(super) fn opened(options: Options) -> (Engine, SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let mut engine = open(&disk, options, &clock);
    engine.begin_step();
    engine.put_namespace(&shop(), Put::IfAbsent(Box::default())).unwrap();
    (engine, disk, clock)
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with_segments(64 * 1024)
    }

    /// One that rolls seldom.
    pub(super) fn with_large_segments() -> Self {
        Self::with_segments(64 * 1024 * 1024)
    }

    fn with_segments(segment_bytes: u64) -> Self {
        let (engine, disk, clock) = opened(Options { segment_bytes, ..small() });
        let mut bench = Self { engine, disk, clock };
        bench.sync();
        bench
    }

    /// The store after a crash: only synced data is left.
    pub(super) fn reopened(self) -> Self {
        let Self { engine, disk, clock } = self;
        let options = engine.options.clone();
        drop(engine);
        let engine = open(&disk, options, &clock);
        Self { engine, disk, clock }
    }

    fn write(&mut self) -> SyncMark {
        self.engine.commit().unwrap().expect("something was appended")
    }

    fn synced(&mut self, mark: &SyncMark) {
        self.engine.synced(mark.lsn, mark.position);
        self.engine.begin_step();
    }

    /// Writes and syncs the appended records.
    pub(super) fn sync(&mut self) {
        let mark = self.write();
        mark.file.sync_data().unwrap();
        self.synced(&mark);
    }

    /// Writes and syncs appended records, if there are any.
    fn sync_if_any(&mut self) {
        if let Some(mark) = self.engine.commit().unwrap() {
            mark.file.sync_data().unwrap();
            self.synced(&mark);
        }
    }

    fn apply(&mut self, operation: Operation) -> Outcome {
        let command = Command { namespace: shop(), operation, answer: Answer::Whole };
        self.engine.begin_step();
        self.engine.apply(command)
    }

    fn schedule(&mut self, text: &str) {
        let schedule = Box::new(Schedule::new(id(text), When::After(Millis::ZERO)));
        let outcome = self.apply(Operation::Schedule { schedule, if_exists: IfExists::Fail });
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }

    pub(super) fn claim(&mut self) -> Vec<Firing> {
        self.claim_as(Owner::Consumer { lease: None })
    }

    fn claim_as(&mut self, owner: Owner) -> Vec<Firing> {
        let lane = Lane { namespace: shop(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: 10, retry_max: 10 }],
            total_max: 10,
            bytes_max: u64::MAX,
            owner,
        };
        self.engine.begin_step();
        self.engine.claim(&request).unwrap().firings
    }

    pub(super) fn settle(&mut self, firing: &Firing, verdict: SettleVerdict) {
        let settlement = Settlement { token: firing.token.clone(), namespace: None, verdict };
        self.engine.settle(&settlement).unwrap();
    }

    /// Makes a durable dead letter.
    fn dead_letter(&mut self, text: &str) {
        self.schedule(text);
        self.sync();
        let firings = self.claim();
        self.settle(&firings[0], SettleVerdict::Dead { reason: "no".into() });
        self.sync();
    }
}

#[test]
fn p1_timer_is_claimable_only_after_its_record_is_durable() {
    let mut bench = Bench::new();
    bench.schedule("a");
    assert!(bench.claim().is_empty(), "not while it is only in memory");
    let mark = bench.write();
    bench.clock.advance(Millis::from_secs(5));
    assert!(bench.claim().is_empty(), "not while it is only written");
    mark.file.sync_data().unwrap();
    bench.synced(&mark);
    assert_eq!(bench.claim().len(), 1, "as soon as it is durable");
}

#[test]
fn p5_changed_due_timer_waits_until_change_is_durable() {
    let mut bench = Bench::new();
    bench.schedule("a");
    bench.sync();
    let headers = Change::Reset;
    let patch =
        Box::new(Patch { headers, when: Some(When::After(Millis::ZERO)), ..Patch::default() });
    let changed = bench.apply(Operation::Reschedule { id: id("a"), patch, if_revision: None });
    assert!(matches!(changed, Outcome::Changed(_)), "{changed:?}");
    let mark = bench.write();
    assert!(bench.claim().is_empty(), "neither the old one nor the new one");
    bench.synced(&mark);
    assert_eq!(bench.claim().len(), 1);
}

#[test]
fn p1_a_redriven_letter_is_claimable_once_that_is_durable() {
    let mut bench = Bench::new();
    bench.dead_letter("a");
    let letter = DeadLetterId::Timer(id("a"));
    let redriven = bench.apply(Operation::Redrive { letter, delay: Millis::ZERO });
    assert!(matches!(redriven, Outcome::Changed(_)), "{redriven:?}");
    let mark = bench.write();
    assert!(bench.claim().is_empty(), "a power loss would make it a dead letter again");
    bench.synced(&mark);
    assert_eq!(bench.claim().len(), 1);
}

#[test]
fn a_failed_attempt_is_retried_without_waiting_for_the_disk() {
    let mut bench = Bench::new();
    bench.schedule("a");
    bench.sync();
    let firings = bench.claim();
    let wait = Wait::Exactly(Millis::ZERO);
    let (outcome, reason) = (AttemptOutcome::Failed, "503".to_owned());
    bench.settle(&firings[0], SettleVerdict::Retry { wait, outcome, reason });
    assert_eq!(bench.claim()[0].attempt, 2, "losing it would only lose a claim");
}

#[test]
fn p1_nothing_is_written_after_a_failed_write() {
    let mut bench = Bench::new();
    bench.schedule("a");
    bench.disk.plan(Fault::NoSpaceAtWrite(1));
    assert!(bench.engine.commit().is_err());
    let (ops, before) = (bench.disk.ops(), bench.engine.lsns());
    for _ in 0..3 {
        bench.engine.begin_step();
        assert!(bench.engine.check_usable().is_err());
        assert!(bench.engine.commit().is_err(), "the frame is not tried again");
        assert!(!bench.engine.is_busy(), "nobody waits for it");
    }
    assert_eq!((bench.disk.ops(), bench.engine.lsns()), (ops, before));
    assert!(!bench.engine.health().not_ready.is_empty());
}
