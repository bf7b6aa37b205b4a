//! The deletion of a large namespace costs its steps neither a walk nor the release of its tables.

use duly_core::{
    Millis, NamespaceName, Schedule,
    schedule::{IfExists, When},
};
use duly_store::{
    Command, Operation, Outcome,
    command::Answer,
    namespaces::{DeleteMode, Put},
};

use crate::engine::{
    Engine,
    tests::{id, opened, shop, small},
};

const TIMERS: u32 = 5_000;

fn apply(engine: &mut Engine, operation: Operation) {
    apply_in(engine, shop(), operation);
}

fn apply_in(engine: &mut Engine, namespace: NamespaceName, operation: Operation) {
    let command = Command { namespace, operation, answer: Answer::Brief };
    let outcome = engine.apply(command);
    assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
}

/// Runs one step. Returns the number of pieces of work that it handed over.
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

/// Runs steps until nothing is left to do.
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
    let settings = std::sync::Arc::downgrade(&held.record.settings);

    engine.delete_namespace(&shop(), DeleteMode::Force).expect("it is there");
    assert!(settings.upgrade().is_some(), "the namespace is not freed in the step");
    let works = rest(&mut engine);
    assert!(settings.upgrade().is_none(), "but soon");
    // The namespace, its pending timers, its tombstones.
    assert_eq!(works, 3, "each is handed to the background");
    assert!(engine.files.iter().all(|(_, _, counts)| counts.live == 0), "and counted out");
}

#[test]
fn p1_namespaces_deleted_in_a_row_are_reclaimed_once() {
    let (mut engine, ..) = opened(small());
    let names = ["shop", "second", "kept"].map(|name| NamespaceName::new(name).unwrap());
    for name in &names {
        engine.put_namespace(name, Put::IfAbsent(Box::default())).unwrap();
    }
    for n in 0..TIMERS {
        for name in &names {
            let when = When::After(Millis::from_secs(60));
            let schedule = Box::new(Schedule::new(id(&format!("t{n}")), when));
            let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
            apply_in(&mut engine, name.clone(), operation);
        }
    }
    while rest(&mut engine) > 0 {}
    engine.delete_namespace(&names[0], DeleteMode::Force).unwrap();
    step(&mut engine);
    assert!(!engine.reclamation.indexes.is_empty(), "the first is under way");
    engine.delete_namespace(&names[1], DeleteMode::Force).unwrap();
    rest(&mut engine);
    let live: u64 = engine.files.iter().map(|(_, _, counts)| counts.live).sum();
    assert_eq!(live, u64::from(TIMERS), "what the third holds, and nothing else");
}
