//! Imports of timers and dead letters of another store. They stay unchanged (P7), and repeated calls import
//! them once.

use duly_core::{
    Incarnation, Millis, Schedule, State, Timer, Timestamp,
    timer::{Attempt, AttemptOutcome, DeadLetterReason},
};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, code, dead, ms, refused, retry_in, secs, settings, text, timer},
};
use crate::{Operation, Outcome, SettleVerdict, TimerView, command::DeadLetterId};

const INCARNATION: Incarnation = Incarnation(0x5eed_0000_0000_0001);

/// Returns a timer as another store had it: changed once, attempted twice, waiting for a retry.
fn tried(scene: &Scene<'_>, name: &str, again_in: Millis) -> Timer {
    let long_ago = Timestamp::saturating_from_unix_ms(scene.now().unix_ms() - 100_000);
    let mut schedule: Schedule = timer(name, duly_core::schedule::When::At(long_ago));
    schedule.spec.payload = Some(text("precious"));
    let mut timer = Timer::new(schedule, long_ago, INCARNATION).expect("long ago is allowed");
    timer.revision = 3;
    timer.occurrence = 2;
    timer.attempts = 2;
    timer.maybe_delivered = true;
    timer.fired_at = Some(long_ago);
    timer.history =
        (1..=2).map(|n| Attempt::new(n, long_ago, AttemptOutcome::TimedOut, "no answer")).collect();
    timer.next_attempt_at = Some(scene.now().saturating_add(again_in));
    timer
}

/// Returns a timer that waits for its first attempt.
fn waiting(scene: &Scene<'_>, name: &str, after: Millis) -> Timer {
    let schedule = timer(name, scene.at(after));
    Timer::new(schedule, scene.now(), INCARNATION).expect("a time that is allowed")
}

fn letter(scene: &Scene<'_>, name: &str) -> Timer {
    let mut timer = tried(scene, name, Millis::ZERO);
    timer.mark_dead_letter(scene.now(), DeadLetterReason::AttemptsSpent);
    timer
}

fn import(timer: &Timer) -> Operation {
    Operation::Import { timer: Box::new(timer.clone()) }
}

fn created(outcome: Outcome) -> TimerView {
    match outcome {
        Outcome::Created(view) => (*view).clone(),
        other => panic!("expected an imported timer, got {other:?}"),
    }
}

fn existing(outcome: Outcome) -> TimerView {
    match outcome {
        Outcome::Existing(view) => (*view).clone(),
        other => panic!("expected what was there, got {other:?}"),
    }
}

pub(super) async fn p7_p11_imported_timer_is_unchanged(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (first, retry) = (waiting(&scene, "first", secs(60)), tried(&scene, "retry", secs(30)));
    for (timer, state) in [(&first, State::Scheduled), (&retry, State::Retrying)] {
        let view = created(scene.apply(import(timer)).await);
        assert_eq!((view.state, view.timer()), (state, Some(timer)));
        assert_eq!(scene.view(timer.id.as_str()).await, view);
    }
    assert_eq!(scene.claim().await, [], "P2: neither before its time");
    scene.advance(secs(30)).await;
    let firing = scene.claim_one().await;
    assert_eq!((firing.id.as_str(), firing.attempt), ("retry", 3), "attempts go on");
    assert_eq!(firing.delivery_id, retry.delivery_id(scene.namespace.as_str()));
    assert_eq!(firing.spec.payload, Some(text("precious")));
    scene.settled(&firing, SettleVerdict::Ack).await;
    scene.advance(secs(30)).await;
    let firing = scene.claim_one().await;
    assert_eq!(firing.delivery_id, first.delivery_id(scene.namespace.as_str()));
    let stats = scene.stats().await;
    assert_eq!((stats.totals.scheduled, stats.totals.delivered), (2, 1));
    CaseResult::Whole
}

pub(super) async fn p4_p6_an_import_can_be_repeated_in_every_state(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let timers =
        ["scheduled", "changed", "due", "cancelled", "running", "finished", "retrying", "dead"];
    for name in timers {
        let scene = scene.other(name, settings()).await;
        let again_in = if name == "scheduled" || name == "changed" { secs(60) } else { secs(0) };
        let timer = waiting(&scene, "a", again_in);
        created(scene.apply(import(&timer)).await);
        match name {
            "changed" => {
                let when = Some(scene.at(secs(90)));
                scene.patch("a", duly_core::schedule::Patch { when, ..Default::default() }).await;
            }
            "cancelled" => {
                let outcome = scene.apply(cancel_op("a")).await;
                assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
            }
            "running" => drop(scene.claim_one().await),
            "finished" => scene.settled(&scene.claim_one().await, SettleVerdict::Ack).await,
            "retrying" => {
                let verdict = retry_in(secs(100));
                scene.settled(&scene.claim_one().await, verdict).await;
            }
            "dead" => scene.settled(&scene.claim_one().await, dead()).await,
            _ => {}
        }
        let before = scene.view("a").await;
        assert_eq!(existing(scene.apply(import(&timer)).await), before, "{name}");
        assert_eq!(scene.view("a").await, before, "{name}: nothing changed");
    }
    CaseResult::Whole
}

pub(super) async fn p6_import_replaces_no_other_timer(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (state, expected) in [
        (State::Scheduled, Some("already_exists")),
        (State::Due, Some("already_exists")),
        (State::InFlight, Some("already_exists")),
        (State::Retrying, Some("already_exists")),
        (State::Finished, Some("finished")),
        (State::Dead, None),
    ] {
        let scene = scene.other(state.as_str(), settings()).await;
        scene.bring("a", state).await;
        let before = scene.view("a").await;
        let timer = waiting(&scene, "a", secs(60));
        let outcome = scene.apply(import(&timer)).await;
        match expected {
            Some(expected) => {
                assert_eq!(code(outcome), expected, "{state}");
                assert_eq!(scene.view("a").await, before, "{state}: nothing changed");
            }
            None => {
                assert_eq!(created(outcome).timer(), Some(&timer), "{state}");
                assert_eq!(scene.stats().await.dead, 1, "the other firing's letter stays");
            }
        }
    }
    CaseResult::Whole
}

pub(super) async fn p3_p7_imported_dead_letter_is_separate_and_redrivable(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let letter = letter(&scene, "a");
    let delivery = letter.delivery_id(scene.namespace.as_str());
    scene.create_in("a", secs(60)).await;
    let live = scene.view("a").await;
    let view = created(scene.apply(import(&letter)).await);
    assert_eq!((view.state, view.timer()), (State::Dead, Some(&letter)));
    assert_eq!(scene.view("a").await, live, "another timer of its id stays what it is");
    assert_eq!(existing(scene.apply(import(&letter)).await), view, "again");
    let stats = scene.stats().await;
    assert_eq!((stats.dead, stats.totals.dead, stats.scheduled), (1, 1, 1));

    // The firing does not become live beside its dead letter, even if another timer of the id was
    // dead-lettered since.
    let mut again = letter.clone();
    again.dead_letter = None;
    assert_eq!(existing(scene.apply(import(&again)).await), view, "it was given up");

    scene.apply(cancel_op("a")).await;
    let redriven = scene.redrive(DeadLetterId::Delivery(delivery), ms(0)).await;
    assert!(matches!(redriven, Outcome::Changed(_)), "{redriven:?}");
    let firing = scene.claim_one().await;
    assert_eq!((firing.delivery_id, firing.attempt), (delivery, 3));
    let running = scene.view("a").await;
    assert_eq!(existing(scene.apply(import(&letter)).await), running, "it lives again");
    scene.settled(&firing, SettleVerdict::Ack).await;
    let ended = scene.view("a").await;
    assert_eq!(existing(scene.apply(import(&letter)).await), ended, "it has ended");
    CaseResult::Whole
}

pub(super) async fn p10_an_import_keeps_to_the_limits(harness: &dyn Harness) -> CaseResult {
    let mut small = settings();
    small.limits.max_pending = Some(1);
    small.limits.max_dead = 1;
    small.limits.max_payload_bytes = 10;
    small.limits.max_delay = Some(secs(100));
    let scene = Scene::with(harness, small).await;
    let far = waiting(&scene, "far", secs(101));
    assert_eq!(code(scene.apply(import(&far)).await), "invalid_argument");
    let mut large = waiting(&scene, "large", secs(1));
    large.spec.payload = Some(text("a".repeat(11)));
    assert_eq!(code(scene.apply(import(&large)).await), "payload_too_large");
    created(scene.apply(import(&letter(&scene, "dead"))).await);
    let refusal = refused(scene.apply(import(&letter(&scene, "dead too"))).await);
    assert!(refusal.to_string().contains("limits.namespace.max_dead"), "{refusal}");
    created(scene.apply(import(&waiting(&scene, "one", secs(1)))).await);
    let refusal = refused(scene.apply(import(&waiting(&scene, "two", secs(1)))).await);
    assert!(refusal.to_string().contains("max_pending"), "{refusal}");
    for name in ["far", "large", "two", "dead too"] {
        assert_eq!(scene.get(name).await, None, "{name}");
    }
    CaseResult::Whole
}

pub(super) async fn p1_imported_timers_and_dead_letters_survive(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(600)).await;
    let timers = [
        waiting(&scene, "first", secs(60)),
        tried(&scene, "retry", secs(30)),
        letter(&scene, "dead"),
        letter(&scene, "a"),
    ];
    for timer in &timers {
        created(scene.apply(import(timer)).await);
    }
    let names = ["first", "retry", "dead", "a"];
    let mut before = Vec::new();
    for name in names {
        before.push(scene.view(name).await);
    }
    let stats = scene.stats().await;
    for how in [super::Restart::Kill, super::Restart::Clean] {
        if !scene.restart(how).await {
            return CaseResult::NotDurable;
        }
        for (name, before) in names.iter().zip(&before) {
            assert_eq!(scene.view(name).await, *before, "{how:?}");
        }
        assert_eq!(scene.stats().await, stats, "{how:?}");
    }
    // The dead letter of an id that another timer has is imported too, by its delivery id.
    let delivery = timers[3].delivery_id(scene.namespace.as_str());
    assert!(matches!(scene.purge(DeadLetterId::Delivery(delivery)).await, Outcome::Purged));
    assert_eq!(scene.view("a").await, before[3]);
    CaseResult::Whole
}
