//! The smallest and the largest timers, on every way that a record takes: journal, sorted run,
//! checkpoint, restart, get, list, claim, retry, dead letter, redrive. The bytes stay the same.

use std::{collections::BTreeMap, sync::Arc};

use duly_core::{
    Millis, Payload, Settings, State,
    limits::Limits,
    payload::{Form, PAYLOAD_BYTES_HARD},
    schedule::IfExists,
};
use duly_store::{Firing, SettleOutcome, SettleVerdict, conformance::ManualClock, query::Body};
use duly_store_embedded::{
    EmbeddedStore, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    faulty::FaultyDisk,
    harness::Shell,
    snapshot::Snapshot,
    stage::open,
    steps::{
        Step, Tokens, apply, cancel, claim, dead_letter_verdict, fire, perform, put_timer, redrive,
        retry_in, schedule, settle,
    },
    twins::small,
    workload::forgetful,
};

const YEAR_MS: u64 = 31_536_000_000;
const MIB: usize = 1 << 20;
/// Size of a segment that holds the largest timer, and not a second one.
const SEGMENT_BYTES: u64 = 17 << 20;
/// A prime number: the pattern is shifted in every sector and block.
const PATTERN_BYTES: usize = 4_099;

fn options(seed: u64) -> Options {
    let sizes = Options { checkpoint_bytes: 1 << 20, young_bytes: 1, ..small(seed) };
    Options { segment_bytes: SEGMENT_BYTES, chunk_bytes: 1 << 20, ..sizes }
}

fn payload(seed: u8, bytes: usize) -> Payload {
    let pattern: Vec<u8> =
        (0..PATTERN_BYTES).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
    let mut all = pattern.repeat(bytes / PATTERN_BYTES + 1);
    all.truncate(bytes);
    Payload { form: Form::Binary, bytes: all.into() }
}

/// Makes every size with the shortest id and the longest.
fn all() -> BTreeMap<String, Payload> {
    let largest = usize::try_from(PAYLOAD_BYTES_HARD).expect("it fits memory");
    let mut timers = BTreeMap::new();
    for (letter, bytes) in ('a'..).zip([0, MIB, 2 * MIB + 1, largest]) {
        for (seed, id_bytes) in [(letter as u8, 1), (letter as u8 ^ 0x80, 256)] {
            timers.insert(letter.to_string().repeat(id_bytes), payload(seed, bytes));
        }
    }
    timers
}

struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    store: Option<EmbeddedStore>,
    timers: BTreeMap<String, Payload>,
    openings: u64,
}

impl Scene {
    fn new() -> Self {
        let (disk, clock, timers) = (SimDisk::new(1), ManualClock::default(), all());
        let mut scene = Self { disk, clock, store: None, timers, openings: 0 };
        scene.open();
        let limits = Limits { max_payload_bytes: PAYLOAD_BYTES_HARD, ..Limits::default() };
        let put = Step::Put("shop", Box::new(Settings { limits, ..forgetful() }));
        perform(scene.store(), &put, &mut Tokens::new()).expect("taken");
        scene
    }

    fn open(&mut self) {
        self.openings += 1;
        let on: Arc<dyn Disk> = Arc::new(FaultyDisk::new(self.disk.clone()));
        let store = open(Shell::Inline, on, &self.clock, options(self.openings));
        self.store = Some(store.expect("it opens"));
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("a store is open between restarts")
    }

    /// Loses power; the contents stay the same.
    fn restart(&mut self) {
        let before = Snapshot::of(self.store());
        self.disk = self.disk.crash();
        self.store = None;
        self.open();
        assert!(Snapshot::of(self.store()) == before, "a restart changes nothing");
    }

    /// Checks that every timer is in this state, with its payload, alone and in a list.
    fn all_are(&self, state: State, when: &str) {
        // A snapshot compares every get with the list.
        let shown = Snapshot::of(self.store());
        assert_eq!(shown.timers.len(), self.timers.len(), "{when}");
        for view in shown.timers.values() {
            let id = view.id().as_str();
            let short = format!("{when}: {:.1} of {} bytes", id, id.len());
            assert_eq!(view.state, state, "{short}");
            let Body::Whole(timer) = &view.body else {
                panic!("{short} is a tombstone");
            };
            let found = timer.spec.payload.as_ref().expect("every one has a payload");
            assert!(*found == self.timers[id], "{short}: its bytes changed");
        }
    }

    /// Claims every timer and compares the firings.
    fn claimed(&self, when: &str) -> Vec<Firing> {
        let mut firings = Vec::new();
        loop {
            let some = claim(self.store(), "shop", 3).expect("claimed");
            if some.is_empty() {
                assert_eq!(firings.len(), self.timers.len(), "{when}");
                return firings;
            }
            for firing in &some {
                let id = firing.id.as_str();
                let found = firing.spec.payload.as_ref().expect("every one has a payload");
                let is_same = *found == self.timers[id];
                assert!(is_same, "{when}: {id:.1} of {} bytes changed", id.len());
            }
            firings.extend(some);
        }
    }

    fn settle_all(&self, firings: &[Firing], verdict: &SettleVerdict) {
        for firing in firings {
            let settled = settle(self.store(), "shop", &firing.token, verdict.clone());
            assert_eq!(settled, Ok(SettleOutcome::Ok));
        }
    }

    fn each(&self, operation: impl Fn(&str) -> duly_store::Operation) {
        for id in self.timers.keys() {
            apply(self.store(), "shop", vec![operation(id)]).expect("taken");
        }
    }

    /// Makes timers that come and go until the present segments are gone, and their records are in
    /// sorted runs.
    fn rewrite(&self, when: &str) {
        let segments = || -> Vec<String> {
            self.disk.names().into_iter().filter(|name| name.ends_with(".log")).collect()
        };
        let before = segments();
        for number in 0..60 {
            let id = format!("filler {number}");
            let filler = vec![schedule(&id, YEAR_MS, 4_000), cancel(&id)];
            let large = payload(1, 6 * MIB);
            let put = put_timer(&id, YEAR_MS, large, IfExists::Replace);
            apply(self.store(), "shop", filler).expect("taken");
            apply(self.store(), "shop", vec![put, cancel(&id)]).expect("taken");
            if segments().iter().all(|name| !before.contains(name)) {
                return;
            }
        }
        panic!("{when}: {before:?} became {:?}", segments());
    }
}

#[test]
fn p11_empty_and_16_mib_payloads_keep_their_bytes() {
    let mut scene = Scene::new();
    for (id, payload) in &scene.timers {
        let put = put_timer(id, YEAR_MS, payload.clone(), IfExists::Fail);
        apply(scene.store(), "shop", vec![put]).expect("taken");
    }
    scene.all_are(State::Scheduled, "in the journal");
    scene.restart();
    scene.rewrite("scheduled");
    let runs = scene.disk.names().into_iter().filter(|name| name.starts_with("runs/")).count();
    assert!(runs > 0, "they are in runs");
    scene.all_are(State::Scheduled, "in runs");
    scene.restart();
    scene.all_are(State::Scheduled, "in runs, opened");

    scene.each(fire);
    let firings = scene.claimed("the first attempt");
    scene.settle_all(&firings, &retry_in(60_000));
    scene.all_are(State::Retrying, "after an attempt");
    scene.rewrite("retrying");
    scene.restart();
    scene.clock.advance(Millis::from_secs(60));
    let firings = scene.claimed("the second attempt");
    scene.settle_all(&firings, &dead_letter_verdict());
    scene.rewrite("dead");
    scene.restart();
    scene.all_are(State::Dead, "dead letters");

    scene.each(|id| redrive(id, 0));
    let firings = scene.claimed("redriven");
    scene.settle_all(&firings, &SettleVerdict::Ack);
    scene.restart();
    assert!(Snapshot::of(scene.store()).timers.is_empty(), "all of them were delivered");
}
