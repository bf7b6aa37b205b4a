//! Deleting a large namespace costs its steps neither a walk nor the freeing of its tables.

use duly_core::{
    Millis, Schedule,
    schedule::{IfExists, When},
};
use duly_store::{Command, Operation, Outcome, command::Answer, namespaces::DeleteMode};

use crate::engine::{
    Engine,
    tests::{id, opened, shop, small},
};

const TIMERS: u32 = 5_000;

fn apply(engine: &mut Engine, operation: Operation) {
    let command = Command { namespace: shop(), operation, answer: Answer::Brief };
    let outcome = engine.apply(command);
    assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
}

/// One step; answers how many pieces of work it handed over.
fn step(engine: &mut Engine) -> usize {
    engine.begin_step();
    if let Some(mark) = engine.commit().expect("a healthy disk") {
        mark.file.sync_data().expect("a healthy disk");
        engine.synced(mark.lsn, mark.position);
    }
    let work = engine.take_work();
    let count = work.len();
    work.into_iter().for_each(|work| work()(engine));
    count
}

/// Steps until nothing is left to do.
fn rest(engine: &mut Engine) -> usize {
    let mut works = step(engine);
    while engine.is_busy() {
        works += step(engine);
    }
    works
}

#[test]
fn the_memory_of_a_deleted_namespace_is_freed_in_the_background() {
    let (mut engine, ..) = opened(small());
    for n in 0..TIMERS {
        let timer = id(&format!("t{n}"));
        let when = When::After(Millis::from_secs(60));
        let schedule = Box::new(Schedule::new(timer.clone(), when));
        apply(&mut engine, Operation::Schedule { schedule, if_exists: IfExists::Fail });
        if n % 2 == 0 {
            apply(&mut engine, Operation::Cancel { id: timer, if_revision: None });
        }
    }
    while rest(&mut engine) > 0 {}
    let number = engine.namespaces.number_of(&shop()).expect("it was made");
    let held = engine.namespaces.get(number).expect("it is there");
    let settings = std::sync::Arc::downgrade(&held.settings);

    engine.delete_namespace(&shop(), DeleteMode::Force).expect("it is there");
    assert!(settings.upgrade().is_some(), "the namespace is not freed in the step");
    let works = rest(&mut engine);
    assert!(settings.upgrade().is_none(), "but soon");
    // The namespace, its pending timers, its stubs.
    assert_eq!(works, 3, "each is handed to the background");
    assert!(engine.files.iter().all(|(_, _, counts)| counts.live == 0), "and counted out");
}
