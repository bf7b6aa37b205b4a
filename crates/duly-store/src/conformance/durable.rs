//! Changes that were returned as done exist after a restart, orderly or by kill -9 (P1).

use duly_core::{
    Millis, Settings, State,
    namespace::SigningSecret,
    schedule::{Change, IfExists, Patch, When},
    timer::AttemptOutcome,
};

use super::{
    CaseResult, Harness, Restart,
    scene::{
        Scene, cancel_op, code, dead, failed, fire_op, http, id, ms, retry_in, schedule_op, secs,
        settings, text, timer,
    },
};
use crate::{
    Outcome, SettleOutcome, SettleVerdict,
    command::DeadLetterId,
    namespaces::{Activity, DeleteMode},
};

/// Restarts the store, or ends the case.
macro_rules! restart {
    ($scene:expr, $how:expr) => {
        if !$scene.restart($how).await {
            return CaseResult::NotDurable;
        }
    };
}

pub(super) async fn p1_timers_in_every_state_are_there_after_a_kill(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in State::ALL.into_iter().filter(|state| *state != State::Due) {
        scene.bring(state.as_str(), state).await;
    }
    scene.bring("due", State::Due).await;
    let mut before = Vec::new();
    for state in State::ALL {
        before.push(scene.view(state.as_str()).await);
    }
    // The bytes are an estimate, which may be computed again.
    let counts = async || crate::Stats { pending_bytes: 0, ..scene.stats().await };
    let stats = counts().await;
    for how in [Restart::Kill, Restart::Clean, Restart::Kill] {
        restart!(scene, how);
        for (state, before) in State::ALL.into_iter().zip(&before) {
            assert_eq!(scene.view(state.as_str()).await, *before, "{state} after {how:?}");
        }
        assert_eq!(counts().await, stats, "counts and totals after {how:?}");
    }
    CaseResult::Whole
}

pub(super) async fn p1_p2_t1_timers_fire_at_their_time_after_a_kill(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(secs(60)));
    asked.spec.payload = Some(text("hello"));
    let made = scene.create(asked.clone()).await;
    restart!(scene, Restart::Kill);
    let again = scene.apply(schedule_op(asked, IfExists::Fail)).await;
    assert!(matches!(again, Outcome::Existing(_)), "the request is known (P6): {again:?}");
    scene.advance(ms(59_999)).await;
    assert!(scene.claim().await.is_empty(), "not early");
    scene.advance(ms(1)).await;
    let firing = scene.claim_one().await;
    assert_eq!(firing.spec.payload, Some(text("hello")));
    let delivery_id = made.timer().map(|timer| timer.delivery_id("shop"));
    assert_eq!(Some(firing.delivery_id), delivery_id, "the delivery id is the same (P7)");
    CaseResult::Whole
}

pub(super) async fn p1_p4_cancelled_stays_cancelled_after_a_kill(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    scene.create_in("b", secs(10)).await;
    scene.bring("r", State::InFlight).await;
    scene.advance(secs(31)).await;
    scene.apply_all(vec![cancel_op("a"), cancel_op("r")]).await;
    restart!(scene, Restart::Kill);
    assert_eq!(scene.claim_one().await.id, id("b"), "only what was not cancelled");
    for (text, attempts, maybe_delivered) in [("a", 0, false), ("r", 1, true)] {
        let already = true;
        let expected = Outcome::Cancelled { attempts, maybe_delivered, already };
        assert_eq!(scene.apply(cancel_op(text)).await, expected);
    }
    CaseResult::Whole
}

pub(super) async fn p1_p5_a_change_stays_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for text in ["later", "sooner", "replaced", "fired"] {
        scene.create_in(text, secs(100)).await;
    }
    let to = |after| Patch { when: Some(When::After(secs(after))), ..Patch::default() };
    scene.patch("later", to(300)).await;
    scene.patch("sooner", to(10)).await;
    let mut asked = timer("replaced", scene.at(secs(200)));
    asked.spec.payload = Some(text("new"));
    scene.apply(schedule_op(asked, IfExists::Replace)).await;
    scene.apply(fire_op("fired")).await;
    restart!(scene, Restart::Kill);
    let mut fired = Vec::new();
    for _ in 0..40 {
        for firing in scene.claim().await {
            scene.settled(&firing, SettleVerdict::Ack).await;
            let after = scene.now().saturating_since(firing.due_at);
            fired.push((firing.id.to_string(), after, firing.spec.payload.clone()));
        }
        scene.advance(secs(10)).await;
    }
    let entry = |id: &str, payload| (id.to_owned(), Millis::ZERO, payload);
    let expected = [
        entry("fired", None),
        entry("sooner", None),
        entry("replaced", Some(text("new"))),
        entry("later", None),
    ];
    assert_eq!(fired, expected, "each once, at its last time");
    CaseResult::Whole
}

pub(super) async fn p1_p8_verdicts_stay_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let verdicts = [
        ("ack", SettleVerdict::Ack, State::Finished),
        ("retry", retry_in(secs(60)), State::Retrying),
        ("dead", dead(), State::Dead),
        ("release", SettleVerdict::Release, State::Due),
    ];
    let mut held = Vec::new();
    for (text, verdict, state) in verdicts {
        let (_, firing) = scene.bring(text, State::InFlight).await;
        held.push((firing.expect("it is leased"), verdict, state));
    }
    for (firing, verdict, _) in &held {
        scene.settled(firing, verdict.clone()).await;
    }
    restart!(scene, Restart::Kill);
    for (firing, verdict, state) in held {
        assert_eq!(scene.state(firing.id.as_str()).await, Some(state));
        let again = scene.settle(&firing, verdict).await;
        assert_eq!(again, SettleOutcome::AlreadySettled, "{state}");
    }
    scene.claim_one().await;
    scene.advance(ms(60_000)).await;
    let retried = scene.claim().await;
    assert!(retried.iter().any(|firing| firing.id == id("retry") && firing.attempt == 2));
    CaseResult::Whole
}

pub(super) async fn p1_p8_consumer_lease_continues_after_a_kill(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, settled) = scene.bring("settled", State::InFlight).await;
    let (_, lost) = scene.bring("lost", State::InFlight).await;
    let (settled, lost) = (settled.expect("leased"), lost.expect("leased"));
    scene.advance(secs(10)).await;
    restart!(scene, Restart::Kill);
    assert!(scene.claim().await.is_empty(), "the leases run on");
    scene.settled(&settled, SettleVerdict::Ack).await;
    scene.advance(ms(19_999)).await;
    assert_eq!(scene.state("lost").await, Some(State::InFlight));
    scene.advance(ms(1)).await;
    let again = scene.claim_one().await;
    assert_eq!((again.id.as_str(), again.attempt), ("lost", 2), "to their end, and count");
    assert_eq!(again.delivery_id, lost.delivery_id);
    assert_eq!(scene.settle(&lost, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    CaseResult::Whole
}

pub(super) async fn p1_p8_an_extension_stays_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, firing) = scene.bring("a", State::InFlight).await;
    let firing = firing.expect("it is leased");
    scene.settled(&firing, SettleVerdict::Extend { lease: secs(120) }).await;
    let until = scene.view("a").await.leased_until;
    restart!(scene, Restart::Kill);
    assert_eq!(scene.view("a").await.leased_until, until);
    scene.advance(ms(119_999)).await;
    scene.settled(&firing, SettleVerdict::Ack).await;
    CaseResult::Whole
}

pub(super) async fn p1_p3_a_nodes_leases_end_with_it_and_count(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let first = scene.claim_for_node().await.remove(0);
    for how in [Restart::Kill, Restart::Clean] {
        restart!(scene, how);
        let view = scene.view("a").await;
        assert_eq!((view.state, view.attempts()), (State::Retrying, 1), "{how:?}");
        assert!(view.maybe_delivered(), "{how:?}");
        let history = &view.timer().expect("a pending timer is whole").history;
        assert_eq!(history.last().map(|a| a.outcome), Some(AttemptOutcome::LeaseLost));
    }
    assert_eq!(scene.settle(&first, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    let second = scene.claim_one().await;
    assert_eq!((second.attempt, second.delivery_id), (2, first.delivery_id));
    CaseResult::Whole
}

pub(super) async fn p1_p3_claims_of_nodes_use_up_the_budget_over_kills(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    for attempt in 1..=4 {
        let firings = scene.claim_for_node().await;
        assert_eq!(firings.len(), 1, "attempt {attempt}");
        assert_eq!(firings[0].attempt, attempt);
        restart!(scene, Restart::Kill);
    }
    assert_eq!(scene.state("a").await, Some(State::Dead), "a poisonous one ends");
    assert_eq!(scene.stats().await.totals.fired, 4);
    CaseResult::Whole
}

pub(super) async fn p1_p7_occurrences_and_attempts_stay_after_a_kill(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, first) = scene.bring("a", State::Retrying).await;
    let patch = Patch {
        when: Some(When::After(Millis::ZERO)),
        payload: Change::Set(text("second")),
        ..Patch::default()
    };
    scene.patch("a", patch).await;
    restart!(scene, Restart::Kill);
    let second = scene.claim_one().await;
    assert_eq!((second.occurrence, second.attempt), (1, 1));
    assert_eq!(second.spec.payload, Some(text("second")));
    assert_ne!(Some(second.delivery_id), first.map(|firing| firing.delivery_id));
    let verdict = failed(duly_core::timer::Wait::Exactly(secs(9)), AttemptOutcome::TimedOut);
    scene.settled(&second, verdict).await;
    restart!(scene, Restart::Kill);
    scene.advance(ms(8_999)).await;
    assert!(scene.claim().await.is_empty(), "the wait goes on");
    scene.advance(ms(1)).await;
    let third = scene.claim_one().await;
    assert_eq!((third.attempt, third.delivery_id), (2, second.delivery_id));
    CaseResult::Whole
}

pub(super) async fn p1_p3_dead_letters_and_redrives_survive_a_restart(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for text in ["kept", "purged", "redriven"] {
        scene.bring(text, State::Dead).await;
    }
    let before = scene.view("kept").await;
    scene.purge(DeadLetterId::Timer(id("purged"))).await;
    scene.redrive(DeadLetterId::Timer(id("redriven")), secs(10)).await;
    restart!(scene, Restart::Kill);
    assert_eq!(scene.view("kept").await, before);
    assert_eq!(scene.get("purged").await, None);
    assert_eq!(scene.state("redriven").await, Some(State::Retrying));
    assert_eq!(scene.stats().await.dead, 1);
    scene.advance(secs(10)).await;
    let firing = scene.claim_one().await;
    assert_eq!((firing.id.as_str(), firing.attempt), ("redriven", 2));
    CaseResult::Whole
}

pub(super) async fn p1_timers_that_expired_during_downtime_end(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::with(harness, Settings { retention: secs(100), ..settings() }).await;
    scene.bring("tombstone", State::Finished).await;
    let mut asked = timer("late", scene.at(secs(5)));
    asked.spec.expire_after = Some(secs(50));
    scene.create(asked).await;
    scene.create_in("due", secs(50)).await;
    restart!(scene, Restart::Kill);
    scene.advance(secs(100)).await;
    restart!(scene, Restart::Kill);
    assert_eq!(scene.get("tombstone").await, None, "its retention is over");
    assert_eq!(scene.state("late").await, Some(State::Dead));
    assert_eq!(scene.claim_one().await.id, id("due"));
    CaseResult::Whole
}

pub(super) async fn p1_namespaces_are_there_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let secret = SigningSecret::new(&format!("whsec_{}", "A".repeat(32)));
    let mut asked = settings();
    asked.signing_secrets = vec![secret.expect("base64 of 24 bytes")];
    asked.destination = http("http://one.example/x");
    (asked.weight, asked.limits.max_pending) = (9, Some(123));
    let scene = Scene::with(harness, asked).await;
    let gone = scene.other("gone", settings()).await;
    gone.create_in("a", secs(10)).await;
    scene.set_activity(Activity::Paused).await;
    let deleted = scene.store().delete_namespace(gone.namespace.clone(), DeleteMode::Force).await;
    assert_eq!(deleted, Ok(()));
    let before = scene.store().list_namespaces(None, 100).await.expect("a page");
    assert_eq!((before.len(), before[0].paused), (1, true));
    restart!(scene, Restart::Kill);
    assert_eq!(scene.store().list_namespaces(None, 100).await, Ok(before));
    let outcome = gone.apply(cancel_op("a")).await;
    assert_eq!(code(outcome), "not_found");
    gone.put(settings()).await;
    restart!(scene, Restart::Kill);
    assert_eq!(gone.stats().await, crate::Stats::default(), "made again, it is empty");
    gone.advance(secs(10)).await;
    assert!(gone.claim().await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p1_lanes_are_the_same_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let origin = |i: usize| http(&format!("http://h{i:03}.example/x"));
    let count = crate::claim::RECEIVERS_MAX + 2;
    let operations = (0..count).map(|i| {
        let mut asked = timer(&format!("t{i:03}"), scene.at(Millis::ZERO));
        asked.spec.destination = Some(origin(i));
        schedule_op(asked, IfExists::Fail)
    });
    scene.apply_all(operations.collect()).await;
    let before = scene.ready(None, 1_000).await.lanes;
    assert_eq!(before.len(), crate::claim::RECEIVERS_MAX + 1, "and the one that is shared");
    restart!(scene, Restart::Kill);
    let after = scene.ready(None, 1_000).await.lanes;
    let lanes =
        |ready: Vec<crate::ReadyLane>| ready.into_iter().map(|r| r.lane).collect::<Vec<_>>();
    assert_eq!(lanes(after), lanes(before));
    CaseResult::Whole
}
