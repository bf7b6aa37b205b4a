//! Little free disk, or more index than memory: new timers are refused with an instruction, everything
//! else continues, and with free space new timers are accepted again (P10).

use std::sync::Arc;

use duly_core::{Millis, Settings, State, schedule::IfExists};
use duly_store::conformance::ManualClock;
use duly_store::{Limit, Operation, Outcome, Refusal, SettleOutcome, SettleVerdict, Store};
use duly_store_embedded::{EmbeddedStore, Options, disk::SimDisk};

use crate::{
    steps::{
        Step, Tokens, apply, cancel, claim, dead_letter_verdict, fire, get, payload, perform,
        purge, put_timer, redrive, repay, reschedule, retry_in, schedule, settle,
    },
    twins::small,
    workload::{forgetful, settings},
};

const HOUR_MS: u64 = 3_600_000;

struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    store: EmbeddedStore,
    made: usize,
}

impl Scene {
    fn new(options: Options, settings: Settings) -> Self {
        let (disk, clock) = (SimDisk::new(1), ManualClock::default());
        let on = Arc::new(disk.clone());
        let store = EmbeddedStore::open_inline(on, options, Arc::new(clock.clone()));
        let store = store.expect("a new store opens");
        let put = Step::Put("shop", Box::new(settings));
        perform(&store, &put, &mut Tokens::new()).expect("it is taken");
        Self { disk, clock, store, made: 0 }
    }

    fn one(&self, operation: Operation) -> Outcome {
        let mut outcomes = apply(&self.store, "shop", vec![operation]).expect("it is answered");
        outcomes.remove(0)
    }

    /// Advances the clock so that the machine is checked again.
    fn wait(&self) {
        self.clock.advance(Millis::from_secs(2));
    }

    /// Returns the reason that a new timer is refused, if it is.
    fn refusal(&mut self) -> Option<String> {
        self.made += 1;
        match self.one(schedule(&format!("new {}", self.made), HOUR_MS, 10)) {
            Outcome::Created(_) => None,
            Outcome::Refused(Refusal::Exhausted { limit, reason, retry_after }) => {
                let is_memory = reason.contains("store.index_memory_max");
                assert_eq!(limit, if is_memory { Limit::Memory } else { Limit::Disk });
                assert!(retry_after.is_some(), "waiting can help");
                assert!(self.store.health().not_ready.contains(&reason), "it is shown: {reason}");
                Some(reason)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Repeats `grow` until new timers are refused for lack of memory.
    fn until_refused(&mut self, mut grow: impl FnMut(&Self, usize)) {
        for place in 0..200 {
            grow(self, place);
            self.wait();
            if let Some(reason) = self.refusal() {
                assert!(reason.contains("store.index_memory_max allows"), "{reason}");
                return;
            }
        }
        panic!("there is a limit");
    }

    /// Checks that all calls other than new timers work, with the timers of [`prepared`].
    fn all_else_works(&self) {
        let changed =
            |outcome: Outcome| assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
        changed(self.one(reschedule("moved", 2 * HOUR_MS)));
        changed(self.one(repay("moved", payload("paid", 20))));
        changed(self.one(fire("moved")));
        changed(self.one(redrive("dead", 0)));
        assert_eq!(self.one(purge("purged")), Outcome::Purged);
        let cancelled = self.one(cancel("cancelled"));
        assert!(matches!(cancelled, Outcome::Cancelled { .. }), "{cancelled:?}");
        let firings = claim(&self.store, "shop", 10).expect("claims are granted");
        let mut ids: Vec<String> = firings.iter().map(|firing| firing.id.to_string()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["dead", "due 0", "due 1", "due 2", "moved"]);
        let verdicts =
            [SettleVerdict::Ack, retry_in(1_000), dead_letter_verdict(), SettleVerdict::Release];
        for (firing, verdict) in firings.iter().zip(verdicts) {
            let settled = settle(&self.store, "shop", &firing.token, verdict);
            assert_eq!(settled, Ok(SettleOutcome::Ok));
        }
        assert_eq!(
            get(&self.store, "shop", "put off").map(|view| view.state),
            Some(State::Scheduled)
        );
    }
}

/// Makes a store with something of everything in it.
fn prepared(options: Options, settings: Settings) -> Scene {
    let scene = Scene::new(options, settings);
    let now = ["dead", "purged"].map(|id| schedule(id, 0, 10));
    apply(&scene.store, "shop", now.into()).expect("it is taken");
    for firing in claim(&scene.store, "shop", 2).expect("claims are granted") {
        settle(&scene.store, "shop", &firing.token, dead_letter_verdict()).expect("it is settled");
    }
    let due = ["due 0", "due 1", "due 2"].map(|id| schedule(id, 0, 10));
    let later = ["moved", "cancelled", "put off"].map(|id| schedule(id, 100 * HOUR_MS, 10));
    apply(&scene.store, "shop", [due, later].concat()).expect("it is taken");
    scene
}

fn little_memory() -> Options {
    Options { index_memory_max_bytes: 64 << 10, ..small(1) }
}

#[test]
fn p10_past_the_index_memory_only_new_timers_are_refused() {
    let mut scene = prepared(little_memory(), forgetful());
    let id = |batch: usize, i: usize| format!("t{batch} {i}");
    let mut batches = 0;
    scene.until_refused(|scene, batch| {
        let made = (0..100).map(|i| schedule(&id(batch, i), 50 * HOUR_MS, 10)).collect();
        apply(&scene.store, "shop", made).expect("it is answered");
        batches = batch + 1;
    });
    assert!((5..100).contains(&batches), "{batches} hundreds fit 64 KiB");
    let replaced = scene.one(put_timer("put off", HOUR_MS, payload("other", 9), IfExists::Replace));
    assert!(matches!(replaced, Outcome::Refused(Refusal::Exhausted { .. })), "{replaced:?}");
    scene.all_else_works();
    for batch in 0..batches {
        let gone = (0..100).map(|i| cancel(&id(batch, i))).collect();
        apply(&scene.store, "shop", gone).expect("it is answered");
    }
    scene.wait();
    assert_eq!(scene.refusal(), None, "room brings new timers back");
    assert_eq!(scene.store.health().not_ready, Vec::<String>::new());
}

#[test]
fn p10_tombstones_count_in_the_memory_of_the_index() {
    let mut scene = prepared(little_memory(), settings());
    scene.until_refused(|scene, batch| {
        let made = (0..100).flat_map(|i| {
            let id = format!("t{batch} {i}");
            [schedule(&id, 50 * HOUR_MS, 10), cancel(&id)]
        });
        apply(&scene.store, "shop", made.collect()).expect("it is answered");
    });
    scene.all_else_works();
}

#[test]
fn p10_dead_letters_count_in_the_memory_of_the_index() {
    let mut scene = Scene::new(little_memory(), settings());
    scene.until_refused(|scene, batch| {
        // The same ids: timers with several dead letters have lists of them as well.
        let made = (0..50).map(|i| {
            let id = format!("t{i}");
            put_timer(&id, 0, payload(&id, 10 + batch), IfExists::Replace)
        });
        let made = made.collect();
        apply(&scene.store, "shop", made).expect("it is answered");
        for firing in claim(&scene.store, "shop", 100).expect("claims are granted") {
            settle(&scene.store, "shop", &firing.token, dead_letter_verdict())
                .expect("it is settled");
        }
    });
    let before = scene.store.health().index_bytes;
    for _ in 0..10 {
        for i in 0..50 {
            scene.one(purge(&format!("t{i}")));
        }
    }
    assert!(scene.store.health().index_bytes < before, "what is purged gives its memory back");
}

#[test]
fn p10_below_the_disk_reserve_only_new_timers_are_refused() {
    let by_bytes = Options { min_free_bytes: Some(4 << 20), ..small(1) };
    let by_share = Options { min_free_percent: 90, ..small(1) };
    for (options, free_bytes) in [(by_bytes, 3 << 20), (by_share, 100 << 10)] {
        let mut scene = prepared(options, settings());
        assert_eq!(scene.refusal(), None);
        let all_bytes = 1 << 30;
        scene.disk.set_free_bytes(free_bytes);
        scene.wait();
        let reason = scene.refusal().expect("new timers are refused");
        assert!(reason.contains("in reserve (store.min_free_bytes"), "{reason}");
        let room = scene.store.health().disk_room.expect("the disk says it");
        assert!(room.free_bytes < room.reserve_bytes, "{room:?}");
        assert!(reason.contains(&format!("keeps {} in", room.reserve_bytes)), "{reason} {room:?}");
        scene.all_else_works();
        scene.disk.set_free_bytes(all_bytes);
        scene.wait();
        assert_eq!(scene.refusal(), None, "room brings new timers back");
    }
}

#[test]
fn p10_below_the_inode_reserve_only_new_timers_are_refused() {
    let mut scene = prepared(small(1), settings());
    assert_eq!(scene.refusal(), None);
    scene.disk.set_free_inodes(3);
    scene.wait();
    let reason = scene.refusal().expect("new timers are refused");
    assert!(reason.contains("has 3 inodes free and Duly keeps"), "{reason}");
    let room = scene.store.health().disk_room.and_then(|room| room.inodes);
    let room = room.expect("the disk counts them");
    assert!(room.free == 3 && room.reserve > 3, "{room:?}");
    scene.all_else_works();
    scene.disk.set_free_inodes(1 << 20);
    scene.wait();
    assert_eq!(scene.refusal(), None, "inodes bring new timers back");
}

/// New timers that fill the segment must not take the space of other calls.
#[test]
fn p10_without_free_inodes_cancels_and_firings_continue() {
    for free in [0, 3] {
        let mut scene = prepared(small(1), settings());
        scene.disk.set_free_inodes(free);
        scene.wait();
        let mut refused = 0;
        for _ in 0..200 {
            refused += usize::from(scene.refusal().is_some());
            scene.wait();
        }
        assert_eq!(refused, 200, "with {free} free inodes every new timer is refused");
        scene.all_else_works();
    }
}
