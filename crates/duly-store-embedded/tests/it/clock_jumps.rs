//! A wall clock that jumps ahead, with `on_clock_jump = hold`: the store continues with its own time
//! until the clock is back, or the store is opened again.

use std::sync::Arc;

use duly_core::{Millis, State};
use duly_store::{Outcome, SettleVerdict, Store, Timers, conformance::ManualClock};
use duly_store_embedded::{EmbeddedStore, OnClockJump, Options, disk::SimDisk};

use crate::{
    steps::{Step, Tokens, apply, claim, perform, schedule, settle, wait},
    twins::busy,
    workload::settings,
};

const HOUR_MS: i64 = 3_600_000;

struct Scene {
    disk: SimDisk,
    clock: ManualClock,
    store: EmbeddedStore,
}

impl Scene {
    fn new(on_clock_jump: OnClockJump) -> Self {
        let (disk, clock) = (SimDisk::new(1), ManualClock::default());
        let store = open(&disk, &clock, on_clock_jump);
        let put = Step::Put("shop", Box::new(settings()));
        perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
        apply(&store, "shop", vec![schedule("now", 0, 10), schedule("in an hour", 3_600_000, 10)])
            .expect("they are taken");
        Self { disk, clock, store }
    }

    fn tick(&self) {
        perform(&self.store, &Step::Tick, &mut Tokens::new()).expect("a healthy store answers");
    }

    /// Claims the timers that are due, and acknowledges them.
    fn claimed(&self) -> Vec<String> {
        let firings = claim(&self.store, "shop", 10).expect("a healthy store answers");
        for firing in &firings {
            settle(&self.store, "shop", &firing.token, SettleVerdict::Ack).expect("it is settled");
        }
        firings.iter().map(|firing| firing.id.to_string()).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.store.health().not_ready
    }
}

fn open(disk: &SimDisk, clock: &ManualClock, on_clock_jump: OnClockJump) -> EmbeddedStore {
    let options = Options { on_clock_jump, ..busy(1) };
    EmbeddedStore::open_inline(Arc::new(disk.clone()), options, Arc::new(clock.clone()))
        .unwrap_or_else(|error| panic!("it does not open: {error}"))
}

#[test]
fn p2_a_held_clock_jump_makes_nothing_claimable() {
    let scene = Scene::new(OnClockJump::Hold);
    scene.clock.step_wall(HOUR_MS + 1);
    scene.tick();
    assert_eq!(scene.claimed(), ["now"], "the other is not due by the right time");
    let reasons = scene.reasons();
    assert!(matches!(&reasons[..], [reason] if reason.contains("by 1h;")), "{reasons:?}");

    // Delays from now count from the store's own time.
    let after = |ms| duly_core::schedule::When::After(Millis::from_ms(ms));
    let timer = duly_core::TimerId::new("in a minute").expect("an id");
    let schedule = Box::new(duly_core::Schedule::new(timer, after(60_000)));
    let if_exists = duly_core::schedule::IfExists::Fail;
    let operation = duly_store::Operation::Schedule { schedule, if_exists };
    let outcomes = apply(&scene.store, "shop", vec![operation]).expect("taken");
    assert!(matches!(&outcomes[..], [Outcome::Created(_)]), "{outcomes:?}");

    scene.clock.step_wall(-HOUR_MS);
    scene.tick();
    assert_eq!(scene.reasons(), [""; 0]);
    assert_eq!(scene.claimed(), [""; 0]);
    scene.clock.advance(Millis::from_secs(60));
    assert_eq!(scene.claimed(), ["in a minute"]);
    scene.clock.advance(Millis::from_secs(3_600));
    assert_eq!(scene.claimed(), ["in an hour"]);
}

#[test]
fn a_held_jump_takes_effect_after_a_restart() {
    let mut scene = Scene::new(OnClockJump::Hold);
    scene.clock.step_wall(HOUR_MS + 1);
    scene.tick();
    assert_eq!(scene.claimed(), ["now"]);
    scene.store.close();
    scene.store = open(&scene.disk.kill(), &scene.clock, OnClockJump::Hold);
    assert_eq!((scene.claimed(), scene.reasons()), (vec!["in an hour".into()], vec![]));
}

#[test]
fn without_hold_a_jump_fires_due_timers() {
    let scene = Scene::new(OnClockJump::Fire);
    scene.clock.step_wall(HOUR_MS + 1);
    scene.tick();
    assert_eq!((scene.claimed().len(), scene.reasons()), (2, vec![]));

    let scene = Scene::new(OnClockJump::Hold);
    scene.clock.step_wall(-HOUR_MS);
    scene.tick();
    assert_eq!(scene.reasons(), [""; 0], "a step back only delays");
    scene.clock.step_wall(HOUR_MS);
    scene.clock.advance(Millis::from_secs(3_600));
    scene.tick();
    assert_eq!(scene.claimed(), ["now", "in an hour"]);
}

#[test]
fn p3_nothing_expires_by_a_clock_that_is_held() {
    let scene = Scene::new(OnClockJump::Hold);
    let operation = match schedule("brief", 1_000, 10) {
        duly_store::Operation::Schedule { mut schedule, if_exists } => {
            schedule.spec.expire_after = Some(Millis::from_secs(10));
            duly_store::Operation::Schedule { schedule, if_exists }
        }
        other => panic!("expected a schedule, got {other:?}"),
    };
    apply(&scene.store, "shop", vec![operation]).expect("it is taken");
    scene.clock.step_wall(HOUR_MS);
    scene.tick();
    scene.clock.step_wall(-HOUR_MS);
    scene.clock.advance(Millis::from_secs(1));
    scene.tick();
    let view = wait(scene.store.get(
        duly_core::shard::ShardId(0),
        duly_core::NamespaceName::new("shop").expect("a name"),
        duly_core::TimerId::new("brief").expect("an id"),
        u64::MAX,
    ));
    let view = view.expect("it is read").expect("it is there");
    assert_eq!(view.state, State::Due);
    assert_eq!(scene.claimed(), ["now", "brief"]);
}
