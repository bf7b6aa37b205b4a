//! Two ids with the same hash: the second is never taken for the first where a record is read.
//!
//! Such ids cannot be constructed. Of 10⁹ timers, two have one hash in one store of ten thousand. The
//! promise then: the second is refused, and the first stays as it is. The only exception is a cancel of a
//! timer without attempts: it reads nothing, so it knows only the hash.

use duly_core::{Millis, Schedule, State, schedule::IfExists, schedule::Patch, schedule::When};
use duly_store::{
    ListRequest, Operation, Outcome, Refusal, SettleVerdict, TimerView, query::ListState,
};

use super::{Bench, id, shop};
use crate::{engine::list::Listing, index::COLLIDES};

const FIRST: &str = "first";

fn second() -> String {
    format!("{FIRST}{COLLIDES}second")
}

fn schedule(text: &str, after_ms: u64, if_exists: IfExists) -> Operation {
    let schedule = Schedule::new(id(text), When::After(Millis::from_ms(after_ms)));
    Operation::Schedule { schedule: Box::new(schedule), if_exists }
}

fn bench(after_ms: u64) -> Bench {
    let mut bench = Bench::new();
    let made = bench.apply(schedule(FIRST, after_ms, IfExists::Fail));
    assert!(matches!(made, Outcome::Created(_)), "{made:?}");
    bench.sync();
    let engine = &bench.engine;
    let number = engine.namespaces.number_of(&shop()).unwrap();
    assert_eq!(engine.key(number, FIRST), engine.key(number, &second()), "they collide");
    bench
}

fn get(bench: &mut Bench, text: &str) -> Option<TimerView> {
    bench.engine.begin_step();
    bench.engine.get(&shop(), &id(text), u64::MAX).unwrap()
}

fn listed(bench: &mut Bench, state: ListState) -> Vec<String> {
    let mut listing = Listing::new(&bench.engine, ListRequest::new(shop(), state)).unwrap();
    let page = loop {
        if let Some(page) = listing.slice(&mut bench.engine) {
            break page.unwrap();
        }
    };
    page.timers.iter().map(|view| view.id().to_string()).collect()
}

fn is_not_found(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::UnknownTimer { .. }))
}

/// Every call with the second id leaves the first as it is.
fn leaves_the_first_alone(bench: &mut Bench, cancel_if_revision: Option<u32>) {
    let (second, before) = (second(), get(bench, FIRST));
    assert!(before.is_some());
    assert_eq!(get(bench, &second), None);
    for if_exists in [IfExists::Fail, IfExists::Keep, IfExists::Replace] {
        let refused = bench.apply(schedule(&second, 5_000, if_exists));
        let Outcome::Refused(Refusal::Invalid(invalid)) = refused else {
            panic!("{if_exists:?}: {refused:?}");
        };
        assert!(invalid.to_string().contains("another id"), "it says what to do: {invalid}");
    }
    let patch = || Box::new(Patch { when: Some(When::After(Millis::ZERO)), ..Patch::default() });
    let changed = Operation::Reschedule { id: id(&second), patch: patch(), if_revision: None };
    for operation in [
        changed,
        Operation::Fire { id: id(&second) },
        Operation::Cancel { id: id(&second), if_revision: cancel_if_revision },
    ] {
        let refused = bench.apply(operation.clone());
        assert!(is_not_found(&refused), "{operation:?}: {refused:?}");
    }
    bench.sync_if_any();
    assert_eq!(get(bench, FIRST), before);
}

#[test]
fn p4_colliding_id_of_pending_timer_is_refused() {
    let mut bench = bench(60_000);
    leaves_the_first_alone(&mut bench, Some(1));
    assert_eq!(listed(&mut bench, ListState::Pending), [FIRST]);
    let mut bench = bench.reopened();
    leaves_the_first_alone(&mut bench, Some(1));
    bench.clock.advance(Millis::from_secs(60));
    assert_eq!(bench.claim()[0].id, id(FIRST), "it fires as ever");
}

#[test]
fn p4_colliding_cancel_after_an_attempt_is_not_found() {
    let mut bench = bench(0);
    let firings = bench.claim();
    bench.sync_if_any();
    leaves_the_first_alone(&mut bench, None);
    bench.settle(&firings[0], SettleVerdict::Ack);
    bench.sync_if_any();
    assert_eq!(get(&mut bench, FIRST).map(|view| view.state), Some(State::Finished));
    leaves_the_first_alone(&mut bench, None);
    assert_eq!(listed(&mut bench, ListState::Only(State::Finished)), [FIRST]);
}

/// The promise where nothing is read: the one timer of that hash ends, once. A caller that asks for it by
/// its own id learns that before it would have fired.
#[test]
fn p4_colliding_cancel_before_an_attempt_ends_the_timer() {
    let mut bench = bench(60_000);
    let cancelled = bench.apply(Operation::Cancel { id: id(&second()), if_revision: None });
    assert!(matches!(cancelled, Outcome::Cancelled { already: false, .. }), "{cancelled:?}");
    bench.sync_if_any();
    assert_eq!(listed(&mut bench, ListState::Pending), [""; 0]);
    assert_eq!(listed(&mut bench, ListState::Only(State::Cancelled)), [second()]);
    assert_eq!(get(&mut bench, FIRST), None, "nothing is told of it under a wrong id");
    let mut bench = bench.reopened();
    bench.clock.advance(Millis::from_secs(120));
    assert_eq!(bench.claim(), []);
}
