//! A wall clock that steps back and forth during sweeps, resident windows, passes over tombstones,
//! checkpoints and rewrites. Nothing fires early or twice, nothing is lost, and counts are exact.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use duly_core::{Millis, Timestamp, env::Clock};
use duly_store::{SettleOutcome, SettleVerdict, conformance::ManualClock};
use duly_store_embedded::{EmbeddedStore, Options, disk::SimDisk};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    seeds::{Repeat, number},
    snapshot::Snapshot,
    steps::{
        SHARD, Step, Tokens, apply, cancel, claim, due, name, perform, reschedule, retry_in,
        schedule, settle, wait,
    },
    twins::busy,
    workload::settings,
};

const TIMERS: u64 = 60;

/// A store, and its expected contents.
struct Course {
    disk: SimDisk,
    clock: ManualClock,
    store: Option<EmbeddedStore>,
    random: StdRng,
    seed: u64,
    /// The due time of each pending timer, in milliseconds after the start.
    due_ms: BTreeMap<String, u64>,
    /// Timers with a failed attempt: they wait by another clock.
    retrying: BTreeSet<String>,
    fired: BTreeSet<String>,
}

fn open(disk: &SimDisk, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    // All timers go through the sweeps and the windows.
    let options = Options { near_max: 3, overdue_max: 2, ..busy(seed) };
    EmbeddedStore::open_inline(Arc::new(disk.clone()), options, Arc::new(clock.clone()))
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

impl Course {
    fn new(seed: u64) -> Self {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::default());
        let store = open(&disk, &clock, 1_000 * seed);
        let put = Step::Put("shop", Box::new(settings()));
        perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
        Self {
            disk,
            clock,
            store: Some(store),
            random: StdRng::seed_from_u64(seed),
            seed: 1_000 * seed,
            due_ms: BTreeMap::new(),
            retrying: BTreeSet::new(),
            fired: BTreeSet::new(),
        }
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("a store is open between restarts")
    }

    fn now(&self) -> Timestamp {
        let wall_ms = u64::try_from(self.clock.wall().as_millis()).expect("before 2200");
        Timestamp::saturating_from_unix_ms(wall_ms)
    }

    fn one(&self, operation: duly_store::Operation) {
        apply(self.store(), "shop", vec![operation]).expect("a healthy store answers");
    }

    fn time(&mut self) -> u64 {
        let now_ms = self.now().unix_ms().saturating_sub(due(0).unix_ms());
        let ahead = [0, 5_000, 60_000, 1_000_000, 3_000_000, 9_000_000];
        now_ms + ahead[self.random.random_range(0..ahead.len())] + self.random.random_range(0..50)
    }

    fn step(&mut self, place: u64) {
        match self.random.random_range(0..10) {
            0..3 => {
                for i in 0..TIMERS / 12 {
                    let (id, at_ms) = (format!("t{place} {i}"), self.time());
                    self.one(schedule(&id, at_ms, 1_500));
                    self.due_ms.insert(id, at_ms);
                }
            }
            3 => {
                let some = self.random.random_range(0..=self.due_ms.len());
                let Some(id) = self.due_ms.keys().nth(some).cloned() else {
                    return;
                };
                if self.random.random() || self.retrying.contains(&id) {
                    self.one(cancel(&id));
                    self.retrying.remove(&id);
                    self.due_ms.remove(&id);
                } else {
                    let at_ms = self.time();
                    self.one(reschedule(&id, at_ms));
                    self.due_ms.insert(id, at_ms);
                }
            }
            4..7 => self.fire(5, place),
            7 => {
                let by_ms = self.random.random_range(-4_000_000..4_000_000);
                self.clock.step_wall(by_ms);
            }
            8 => {
                let by_ms = [10, 1_000, 50_000, 700_000][self.random.random_range(0..4)];
                self.clock.advance(Millis::from_ms(by_ms));
            }
            _ => {
                self.store = None;
                self.disk = self.disk.kill();
                self.seed += 1;
                self.store = Some(open(&self.disk, &self.clock, self.seed));
            }
        }
    }

    fn fire(&mut self, most: usize, place: u64) {
        for firing in claim(self.store(), "shop", most).expect("a healthy store answers") {
            let id = firing.id.to_string();
            assert!(firing.due_at <= self.now(), "step {place}: {id} fired early");
            let at_ms = self.due_ms.get(&id).copied();
            assert_eq!(at_ms.map(due), Some(firing.due_at), "step {place}: {id} is pending");
            let again = firing.attempt == 1 && self.random.random_ratio(1, 4);
            let verdict = if again { retry_in(30_000) } else { SettleVerdict::Ack };
            let settled = settle(self.store(), "shop", &firing.token, verdict);
            assert_eq!(settled, Ok(SettleOutcome::Ok), "step {place}: {id}");
            if again {
                self.retrying.insert(id);
            } else {
                self.retrying.remove(&id);
                self.due_ms.remove(&id);
                assert!(self.fired.insert(id), "step {place}: it fires once");
            }
        }
    }

    /// Checks that counts agree with lists and with the expected contents.
    fn check(&self, place: u64) {
        let shown = Snapshot::of(self.store());
        let pending: BTreeSet<String> = shown.pending("shop").into_iter().collect();
        let known: BTreeSet<String> = self.due_ms.keys().cloned().collect();
        assert_eq!(pending, known, "step {place}");
        let stats = wait(duly_store::Timers::stats(self.store(), SHARD, name("shop")));
        let stats = stats.expect("counts can be read").expect("it is there");
        let first = self.due_ms.iter().filter(|(id, _)| !self.retrying.contains(*id));
        let is_due = first.filter(|(_, at_ms)| due(**at_ms) <= self.now()).count() as u64;
        assert_eq!(stats.due, is_due, "step {place}: due at {:?}", self.now());
        assert_eq!(stats.retrying, self.retrying.len() as u64, "step {place}: retrying");
    }
}

fn course(seed: u64, steps: u64) {
    let mut course = Course::new(seed);
    for place in 0..steps {
        course.step(place);
        if place % 4 == 0 {
            course.check(place);
        }
    }
    // The clock continues normally: everything fires.
    let mut rounds = 0;
    while !course.due_ms.is_empty() {
        course.clock.advance(Millis::from_secs(600));
        course.fire(1_000, steps + rounds);
        course.check(steps + rounds);
        rounds += 1;
        assert!(rounds < 200, "seed {seed}: these never fire: {:?}", course.due_ms);
    }
}

#[test]
fn p2_p3_t28_clock_steps_make_nothing_early_or_lost() {
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 12) {
        let steps = number("DULY_CRASH_STEPS", 120);
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1), ("DULY_CRASH_STEPS", steps)];
        let _repeat = Repeat::new("clock_steps", &one);
        course(seed, steps);
    }
}

/// Returns the number of a namespace's retries that count as due.
fn retries_due(store: &EmbeddedStore) -> u64 {
    let stats = wait(duly_store::Timers::stats(store, SHARD, name("shop")));
    let stats = stats.expect("counts can be read").expect("it is there");
    stats.lanes.iter().map(|lane| lane.retry_due).sum()
}

#[test]
fn p2_a_step_back_defers_retries_from_a_checkpoint() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let open = |seed| {
        EmbeddedStore::open_inline(Arc::new(disk.clone()), busy(seed), Arc::new(clock.clone()))
            .unwrap_or_else(|error| panic!("opening {seed}: {error}"))
    };
    let store = open(1);
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
    apply(&store, "shop", vec![schedule("a", 60_000, 10)]).expect("it is taken");
    clock.advance(Millis::from_secs(60));
    let firings = claim(&store, "shop", 1).expect("a healthy store answers");
    settle(&store, "shop", &firings[0].token, retry_in(1_000)).expect("it is settled");
    // Checkpoints are taken until no record of the retry is left for the replay.
    for i in 0..80 {
        apply(&store, "shop", vec![schedule(&format!("f{i}"), 9_000_000, 1_000)]).expect("taken");
    }
    store.close();
    drop(store);
    assert!(disk.names().iter().any(|name| name.ends_with(".ckp")), "{:?}", disk.names());
    let store = open(2);
    clock.advance(Millis::from_secs(2));
    perform(&store, &Step::Tick, &mut Tokens::new()).expect("a healthy store answers");
    assert_eq!(retries_due(&store), 1);
    clock.step_wall(-30_000);
    perform(&store, &Step::Tick, &mut Tokens::new()).expect("a healthy store answers");
    assert_eq!(retries_due(&store), 0, "its due time is ahead of the wall clock");
    clock.advance(Millis::from_secs(30));
    perform(&store, &Step::Tick, &mut Tokens::new()).expect("a healthy store answers");
    assert_eq!(retries_due(&store), 1, "it has come again");
}

/// Claims the timers that are due.
fn claimed(store: &EmbeddedStore) -> Vec<duly_store::Firing> {
    claim(store, "shop", 10).expect("a healthy store answers")
}

/// The source of a retry after a restart; behind the checkpoint there is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Journal,
    Checkpoint,
}

/// Writes a retry while the clock is ahead, and checks its wait after a restart with the right time.
fn retries_after_a_correction(ahead_ms: u64, from: From) {
    const WAIT_MS: u64 = 60_000;
    let what = format!("{ahead_ms} ms ahead, {from:?}");
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let open = |seed| {
        let disk = Arc::new(disk.clone());
        EmbeddedStore::open_inline(disk, busy(seed), Arc::new(clock.clone()))
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let step_ms = i64::try_from(ahead_ms).expect("small");
    clock.step_wall(step_ms);
    let store = open(1);
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
    apply(&store, "shop", vec![schedule("a", 0, 10)]).expect("it is taken");
    let firings = claimed(&store);
    settle(&store, "shop", &firings[0].token, retry_in(WAIT_MS)).expect("it is settled");
    clock.advance(Millis::from_secs(20));
    let newest = || disk.names().into_iter().rfind(|name| name.ends_with(".ckp"));
    let before = newest();
    for i in 0.. {
        if from == From::Journal || newest() != before {
            break;
        }
        assert!(i < 100, "a checkpoint is taken");
        let filler = schedule(&format!("f{i}"), ahead_ms + 90_000_000, 1_000);
        apply(&store, "shop", vec![filler]).expect("it is taken");
    }
    drop(store);
    clock.step_wall(-step_ms);

    // The rest of its wait at the last record is its wait now.
    let left_ms =
        if from == From::Checkpoint || ahead_ms == 0 { WAIT_MS - 20_000 } else { WAIT_MS };
    let store = open(2);
    clock.advance(Millis::from_ms(left_ms - 1));
    assert_eq!(claimed(&store), [], "{what}: it waits as long as it was to");
    clock.advance(Millis::from_ms(1));
    let firings = claimed(&store);
    assert_eq!(firings.len(), 1, "{what}: it waits no longer than that");
    // A wait that begins now is not changed either, across restarts.
    settle(&store, "shop", &firings[0].token, retry_in(WAIT_MS)).expect("it is settled");
    store.close();
    drop(store);
    let store = open(3);
    clock.advance(Millis::from_ms(WAIT_MS - 1));
    assert_eq!(claimed(&store), [], "{what}, in the third run");
    clock.advance(Millis::from_ms(1));
    let firings = claimed(&store);
    assert_eq!(firings.len(), 1, "{what}, in the third run");
    settle(&store, "shop", &firings[0].token, SettleVerdict::Ack).expect("it is settled");
}

#[test]
fn a_corrected_clock_does_not_lengthen_retries() {
    for ahead_ms in [0, 3_600_000, 400 * 86_400_000] {
        for from in [From::Journal, From::Checkpoint] {
            retries_after_a_correction(ahead_ms, from);
        }
    }
}

/// No timer waits by the wrong clock, so later times are right.
#[test]
fn without_retries_the_steady_clock_follows_a_correction() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let open = |seed| {
        let disk = Arc::new(disk.clone());
        EmbeddedStore::open_inline(disk, busy(seed), Arc::new(clock.clone())).expect("it opens")
    };
    clock.step_wall(3_600_000);
    let store = open(1);
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
    apply(&store, "shop", vec![schedule("a", 0, 10)]).expect("it is taken");
    drop(store);
    clock.step_wall(-3_600_000);
    let store = open(2);
    let firings = claimed(&store);
    settle(&store, "shop", &firings[0].token, retry_in(1_000)).expect("it is settled");
    let view = crate::steps::get(&store, "shop", "a").expect("it is there");
    let next = view.timer().and_then(|timer| timer.next_attempt_at);
    let wall_ms = u64::try_from(clock.wall().as_millis()).expect("before 2200");
    assert_eq!(next.map(Timestamp::unix_ms), Some(wall_ms + 1_000));
}
