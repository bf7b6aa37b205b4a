//! Compares the memory of a view with the counts of an allocator (P10). It has its own binary, because the
//! allocator counts all threads.

use std::alloc::System;

use cap::Cap;
use duly_core::{
    Destination, Incarnation, NamespaceName, Payload, RetryPolicy, Schedule, State, Timer, TimerId,
    Timestamp, Tombstone,
    destination::HttpDestination,
    headers::Headers,
    payload::Form,
    schedule::{SlotKey, Tags, When},
    timer::{Attempt, AttemptOutcome},
    tombstone::Ended,
};
use duly_store::TimerView;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

type Make = Box<dyn Fn() -> Vec<TimerView>>;

/// A timer with this many bytes of payload, and this many headers, tags and attempts.
fn timer(payload_bytes: usize, hangs_on: usize) -> Timer {
    let due_at = Timestamp::from_unix_ms(1_000).expect("a time");
    let mut schedule =
        Schedule::new(TimerId::new("an-id-of-usual-length").expect("an id"), When::At(due_at));
    if payload_bytes > 0 {
        let bytes = vec![b'x'; payload_bytes].into();
        schedule.spec.payload = Some(Payload { form: Form::Text, bytes });
    }
    let pairs = (0..hangs_on).map(|i| (format!("x-header-{i}"), "some value of it".repeat(2)));
    schedule.spec.headers = Headers::from_stored(pairs.clone().collect());
    if hangs_on > 0 {
        schedule.spec.tags =
            Tags::new((0..hangs_on).map(|i| format!("tag-{i}")).collect()).expect("tags");
        schedule.spec.slot_key = Some(SlotKey::new("x".repeat(100)).expect("a key"));
        schedule.spec.retry = Some(RetryPolicy::Delays(vec![duly_core::Millis::from_secs(1); 20]));
        let mut http = HttpDestination::new("https://example.com/a/path").expect("a receiver");
        http.headers = Headers::from_stored(pairs.collect());
        schedule.spec.destination = Some(Destination::Http(http));
    }
    let mut timer = Timer::new(schedule, Timestamp::MIN, Incarnation(1)).expect("a timer");
    timer.history = (0..hangs_on)
        .map(|_| Attempt::new(1, due_at, AttemptOutcome::Failed, &"because ".repeat(40)))
        .collect();
    timer
}

#[test]
fn p10_view_memory_matches_the_allocator() {
    let name = NamespaceName::new("a-namespace").expect("a name");
    let whole = |payload_bytes, hangs_on| {
        let name = name.clone();
        move || {
            let timer = timer(payload_bytes, hangs_on);
            vec![TimerView::whole(name.clone(), State::Scheduled, timer)]
        }
    };
    let tombstone = {
        let name = name.clone();
        move || {
            let now = Timestamp::from_unix_ms(2_000).expect("a time");
            let tombstone = Tombstone::of(&timer(100, 4), Ended::Finished, now);
            vec![TimerView::tombstone(name.clone(), tombstone)]
        }
    };
    let cases: [(&str, Make); 6] = [
        ("an empty one", Box::new(whole(0, 0))),
        ("a small payload", Box::new(whole(200, 0))),
        ("with a little of everything", Box::new(whole(200, 4))),
        ("with much of everything", Box::new(whole(1_000, 16))),
        ("a large payload", Box::new(whole(1 << 20, 2))),
        ("a tombstone", Box::new(tombstone)),
    ];
    for (case, make) in cases {
        let before = ALLOCATOR.allocated();
        let views = make();
        let taken = (ALLOCATOR.allocated() - before) as f64;
        let counted = views[0].memory_bytes() as f64;
        assert!((counted / taken - 1.0).abs() < 0.2, "{case}: {counted} counted, {taken} taken");
        drop(views);
    }
}
