//! An engine whose commits, syncs and background work happen when a seed says so, as with threads. It is
//! crashed in between.
//!
//! Its state is kept for each frame. After a crash the frames on the disk decide which state it must
//! have, to the last count.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use duly_core::{
    Destination, Millis, NamespaceName, Payload, Schedule, Settings,
    destination::{HttpDestination, LaneKey},
    env::Clock,
    limits::Limits,
    payload::Form,
    schedule::{Change, IfExists, Patch, When},
    timer::{AttemptOutcome, Wait},
};
use duly_store::{
    ClaimRequest, Command, Firing, Lane, LaneClaim, Operation, Outcome, Owner, SettleVerdict,
    Settlement,
    command::{Answer, DeadLetterId},
    conformance::ManualClock,
    namespaces::{Activity, DeleteMode, Put, Secrets},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    disk::SimDisk,
    engine::{
        Engine,
        background_work::{BackgroundWork, Completion},
        invariants::at_rest::StateAtRest,
    },
    journal::SyncMark,
    manifest::Manifest,
    options::Options,
};

use super::{
    id,
    shown::{FILLER, Shown, check_filler, difference, shown, still},
    small,
};

const NAMESPACES: [&str; 3] = ["aa", "bb", "cc"];
const IDS: u32 = 5;
/// Enough for several tables in their index, so that walks of the others are cut anywhere.
const FILL: u32 = 2_100;
/// Timers of them that are cancelled at once.
const BLOCK: u32 = 50;

/// The kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Power,
    Kill,
}

/// The engine under test, and its states.
pub(super) struct Loose {
    pub(super) engine: Engine,
    disk: SimDisk,
    clock: ManualClock,
    random: StdRng,
    openings: u64,
    marks: VecDeque<SyncMark>,
    work: VecDeque<BackgroundWork>,
    sequels: VecDeque<Completion>,
    firings: BTreeMap<&'static str, Vec<Firing>>,
    /// State after each frame was written.
    known: BTreeMap<u64, Shown>,
    /// Entries of a deleted namespace may still be counted.
    deleted: bool,
    pub(super) made: u64,
    /// Startups after which the auditor completed a pass.
    pub(super) audits: u64,
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

fn http(url: &str) -> Destination {
    Destination::Http(HttpDestination::new(url).unwrap())
}

fn open(disk: &SimDisk, clock: &ManualClock, seed: u64) -> Engine {
    let options = Options {
        checkpoint_bytes: 8 << 10,
        young_bytes: 1,
        chunk_bytes: 4096,
        near_max: 8,
        overdue_max: 4,
        audit_rest_ms: 0,
        random_seed: Some(seed),
        ..small()
    };
    super::open(disk, options, clock)
}

impl Loose {
    pub(super) fn new(seed: u64) -> Self {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::default());
        let openings = seed * 1_000;
        let mut loose = Self {
            engine: open(&disk, &clock, openings),
            disk,
            clock,
            random: StdRng::seed_from_u64(seed),
            openings,
            marks: VecDeque::new(),
            work: VecDeque::new(),
            sequels: VecDeque::new(),
            firings: BTreeMap::new(),
            known: BTreeMap::new(),
            deleted: false,
            made: 0,
            audits: 0,
        };
        for namespace in NAMESPACES.into_iter().chain([FILLER]) {
            loose.put(namespace);
        }
        for i in 0..FILL {
            let after_ms = 1_000_000_000 + u64::from(i);
            loose.schedule(FILLER, &format!("f{i}"), after_ms, 10, None);
        }
        loose.commit();
        loose.sync_all();
        loose
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())]
    }

    fn settings(&mut self, namespace: &str) -> Settings {
        let destination = match namespace {
            "bb" => http("https://own.test/"),
            _ => Destination::Pull,
        };
        // In one namespace tombstones are evicted by their number, in another they end by age too.
        let (max_retained, retention_ms) = match namespace {
            "bb" => (u64::MAX, 600_000),
            "cc" => (self.pick(&[1, 2, 2, 3]), self.pick(&[2_000, 20_000, 600_000])),
            _ => (self.pick(&[0, 2, 2, 3]), 600_000),
        };
        let limits = Limits { max_retained, ..Limits::default() };
        let (weight, retention) = (self.random.random_range(1..5), Millis::from_ms(retention_ms));
        Settings { destination, retention, weight, limits, ..Settings::default() }
    }

    fn put(&mut self, namespace: &str) {
        let put =
            Put::Replace { settings: Box::new(self.settings(namespace)), secrets: Secrets::Set };
        self.engine.put_namespace(&name(namespace), put).unwrap();
    }

    fn apply(&mut self, namespace: &str, operation: Operation) -> Outcome {
        let namespace = name(namespace);
        let outcome = self.engine.apply(Command { namespace, operation, answer: Answer::Whole });
        assert!(!matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        outcome
    }

    fn schedule(
        &mut self,
        namespace: &str,
        timer: &str,
        after_ms: u64,
        bytes: usize,
        destination: Option<Destination>,
    ) {
        let mut schedule = Schedule::new(id(timer), When::After(Millis::from_ms(after_ms)));
        self.made += 1;
        let bytes = format!("{:0bytes$}", self.made).into_bytes();
        schedule.spec.payload = Some(Payload { form: Form::Binary, bytes: bytes.into() });
        schedule.spec.destination = destination;
        let schedule = Box::new(schedule);
        self.apply(namespace, Operation::Schedule { schedule, if_exists: IfExists::Replace });
    }

    /// Runs one step of the loop, which the seed picks.
    pub(super) fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..42 => self.change(),
            42..56 => self.begin_step(),
            56..66 => self.sync_one(),
            66..81 => self.do_work(),
            81..96 => self.run_sequel(),
            _ => {
                let by_ms = self.pick(&[1, 100, 700, 20_000]);
                self.clock.advance(Millis::from_ms(by_ms));
                self.begin_step();
            }
        }
        self.commit();
    }

    fn begin_step(&mut self) {
        self.engine.begin_step();
        self.deleted = self.engine.is_busy() && self.deleted;
        self.work.extend(self.engine.take_work());
    }

    /// Writes the appended records, and keeps the state of that moment.
    fn commit(&mut self) {
        self.marks.extend(self.engine.commit().unwrap());
        let written = self.engine.lsns().0;
        self.known.entry(written).or_insert_with(|| shown(&self.engine));
    }

    fn sync_one(&mut self) {
        if let Some(mark) = self.marks.pop_front() {
            mark.file.sync_data().unwrap();
            self.engine.synced(mark.lsn, mark.position);
        }
    }

    fn sync_all(&mut self) {
        while !self.marks.is_empty() {
            self.sync_one();
        }
    }

    fn do_work(&mut self) {
        self.work.extend(self.engine.take_work());
        if let Some(work) = self.work.pop_front() {
            self.sequels.push_back(work());
        }
    }

    fn run_sequel(&mut self) {
        if let Some(sequel) = self.sequels.pop_front() {
            sequel(&mut self.engine);
            self.work.extend(self.engine.take_work());
        }
    }

    /// Cancels timers that are side by side in a run, so that pieces of it empty.
    fn thin_out(&mut self) {
        let first = self.random.random_range(0..FILL);
        for i in first..(first + BLOCK).min(FILL) {
            let cancel = Operation::Cancel { id: id(&format!("f{i}")), if_revision: None };
            self.apply(FILLER, cancel);
            self.commit();
        }
    }

    fn change(&mut self) {
        self.begin_step();
        if self.random.random_ratio(1, 24) {
            return self.thin_out();
        }
        let namespace = self.pick(&NAMESPACES);
        let timer = format!("t{}", self.random.random_range(0..IDS));
        let is_there = self.engine.get_namespace(&name(namespace)).is_some();
        match self.random.random_range(0..100) {
            _ if !is_there => self.put(namespace),
            0..35 => {
                let after_ms = self.pick(&[0, 0, 0, 300, 5_000, 31_536_000_000]);
                let bytes = self.pick(&[1, 40, 700, 5_000, 9_000]);
                let destination = match self.random.random_range(0..5) {
                    0..2 => Some(Destination::Pull),
                    2 => Some(http(&format!("https://{}.test/", self.made % 3))),
                    _ => None,
                };
                self.schedule(namespace, &timer, after_ms, bytes, destination);
            }
            35..45 => {
                drop(self.apply(namespace, Operation::Cancel { id: id(&timer), if_revision: None }))
            }
            45..55 => {
                let when = When::After(Millis::from_ms(self.pick(&[0, 300, 5_000])));
                let headers = Change::Reset;
                let patch = Box::new(Patch { when: Some(when), headers, ..Patch::default() });
                let operation = Operation::Reschedule { id: id(&timer), patch, if_revision: None };
                self.apply(namespace, operation);
            }
            55..72 => self.claim(namespace),
            72..88 => self.settle(namespace),
            88..91 => {
                let letter = DeadLetterId::Timer(id(&timer));
                self.apply(namespace, Operation::Redrive { letter, delay: Millis::ZERO });
            }
            91 => {
                let if_due_by = self.clock.now();
                self.apply(namespace, Operation::DeadLetter { id: id(&timer), if_due_by });
            }
            92..96 => drop(
                self.apply(namespace, Operation::Purge { letter: DeadLetterId::Timer(id(&timer)) }),
            ),
            96 => self.put(namespace),
            97 => {
                let activity = self.pick(&[Activity::Running, Activity::Running, Activity::Paused]);
                self.engine.set_activity(&name(namespace), activity).unwrap();
            }
            98 if self.random.random_ratio(1, 3) => {
                self.engine.delete_namespace(&name(namespace), DeleteMode::Force).unwrap();
                self.deleted = true;
            }
            _ => {}
        }
    }

    fn claim(&mut self, namespace: &'static str) {
        let own = http("https://own.test/").lane_key();
        let lanes = [LaneKey::Pull, own].map(|key| {
            let lane = Lane { namespace: name(namespace), key };
            LaneClaim { lane, first_max: 3, retry_max: 3 }
        });
        let request = ClaimRequest {
            lanes: lanes.into(),
            total_max: 3,
            bytes_max: u64::MAX,
            // Longer than the clock ever gets: no lease ends by itself.
            owner: Owner::Consumer { lease: Some(Millis::from_secs(43_200)) },
        };
        let claimed = self.engine.claim(&request).unwrap().firings;
        self.firings.entry(namespace).or_default().extend(claimed);
    }

    fn settle(&mut self, namespace: &'static str) {
        let Some(firing) = self.firings.get_mut(namespace).and_then(Vec::pop) else {
            return;
        };
        let verdict = match self.random.random_range(0..10) {
            0..3 => SettleVerdict::Ack,
            3..7 => SettleVerdict::Dead { reason: "no".into() },
            7 => SettleVerdict::Release,
            8 => SettleVerdict::Extend { lease: Millis::from_secs(43_200) },
            _ => SettleVerdict::Retry {
                wait: Wait::Exactly(Millis::from_ms(400)),
                outcome: AttemptOutcome::Failed,
                reason: "503".into(),
            },
        };
        let settlement = Settlement { token: firing.token, namespace: None, verdict };
        self.engine.settle(&settlement).unwrap();
    }

    /// Checks that `duly store check` would find no broken invariant in a store that was not stopped.
    fn check_at_rest(&self, left: &SimDisk) {
        let manifest = Manifest::read_both(left).unwrap().expect("it was written").manifest;
        let disk = Arc::new(left.clone());
        let clock = Arc::new(self.clock.clone());
        let state = StateAtRest::load(disk, &manifest, clock, &mut |_| {}).expect("it loads");
        assert_eq!(state.broken_invariants(), Vec::<String>::new());
    }

    /// Crashes, opens the rest and compares.
    pub(super) fn end(&mut self, end: End) -> Result<(), String> {
        if !self.deleted {
            assert_eq!(self.engine.broken_invariants(), []);
        }
        let health = self.engine.health();
        assert_eq!(health.audit_findings, 0, "the auditor found something");
        self.audits += u64::from(health.audited_at.is_some());
        let (written, durable) = self.engine.lsns();
        let left = match end {
            End::Power => self.disk.crash(),
            End::Kill => self.disk.kill(),
        };
        self.check_at_rest(&left);
        self.openings += 1;
        self.engine = open(&left, &self.clock, self.openings);
        self.disk = left;
        (self.marks, self.work, self.sequels) = Default::default();
        let found = self.engine.lsns().0;
        let lowest = if end == End::Kill { written } else { durable };
        if !(lowest..=written).contains(&found) {
            return Err(format!("frame {found} is the last, of {lowest} to {written}"));
        }
        let now_ms = self.clock.wall().as_millis() as u64;
        let shown = still(&shown(&self.engine), now_ms);
        // A frame that a roll wrote in the middle of an operation has no kept state.
        if let Some(known) = self.known.get(&found)
            && let Some(difference) = difference(&shown, &still(known, now_ms))
        {
            return Err(format!("frame {found} of {durable} to {written}: {difference}"));
        }
        assert_eq!(self.engine.broken_invariants(), []);
        check_filler(&self.engine)?;
        self.known = BTreeMap::from([(found, shown)]);
        self.deleted = false;
        Ok(())
    }
}
