//! Limits: an item past a limit is refused with the remedy, and no accepted item is lost (P10).

use duly_core::{
    Millis, Settings, State, Timestamp,
    destination::LaneKey,
    limits::Limits,
    schedule::{Change, IfExists, Patch, When},
};

use super::{
    CaseResult, Harness, Restart,
    scene::{
        Scene, cancel_op, code, http, id, patch_op, refused, schedule_op, secs, settings, text,
        timer,
    },
};
use crate::{Limit, Operation, Outcome, Refusal, SettleVerdict, claim::RECEIVERS_MAX};

fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

pub(super) async fn p10_t7_payloads_up_to_the_limit_and_no_further(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.max_payload_bytes = 100)).await;
    let with = |id: &str, bytes: usize| {
        let mut asked = timer(id, scene.at(secs(60)));
        asked.spec.payload = Some(text("x".repeat(bytes)));
        schedule_op(asked, IfExists::Replace)
    };
    let outcome = scene.apply(with("a", 100)).await;
    assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    let refusal = refused(scene.apply(with("b", 101)).await);
    assert_eq!(refusal.code().as_str(), "payload_too_large");
    assert!(matches!(refusal, Refusal::PayloadTooLarge { bytes: 101, bytes_max: 100, .. }));
    assert_eq!(scene.get("b").await, None);
    assert_eq!(code(scene.apply(with("a", 101)).await), "payload_too_large", "a replacement too");
    let patch = Patch { payload: Change::Set(text("x".repeat(101))), ..Patch::default() };
    assert_eq!(code(scene.apply(patch_op("a", patch)).await), "payload_too_large");
    let view = scene.view("a").await;
    assert_eq!((view.revision(), view.attempts()), (Some(1), 0), "nothing changed");
    let patch = Patch { payload: Change::Set(text("y".repeat(100))), ..Patch::default() };
    assert_eq!(scene.patch("a", patch).await.revision(), Some(2));
    // Values that a change leaves unchanged are not checked again.
    scene.put(limited(|limits| limits.max_payload_bytes = 10)).await;
    let patch = Patch { when: Some(When::After(secs(90))), ..Patch::default() };
    assert_eq!(scene.patch("a", patch).await.revision(), Some(3));
    CaseResult::Whole
}

pub(super) async fn p10_no_more_pending_timers_than_allowed(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.max_pending = Some(2))).await;
    let make =
        |text: &str, after| schedule_op(timer(text, scene.at(secs(after))), IfExists::Replace);
    let outcomes = scene.apply_all(vec![make("a", 60), make("b", 60), make("c", 60)]).await;
    assert!(matches!(outcomes[1], Outcome::Created(_)));
    let refusal = refused(outcomes[2].clone());
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    let Refusal::QuotaExceeded { quota: Limit::MaxPending, max: 2, .. } = refusal else {
        panic!("a quota is exceeded: {refusal:?}");
    };
    let reason = refusal.to_string();
    assert!(
        reason.ends_with("or raise limits.namespace.max_pending (action namespace)"),
        "it names the limit: {reason}"
    );
    let outcomes = scene.apply_all(vec![make("a", 60), make("a", 70)]).await;
    assert!(matches!(outcomes[0], Outcome::Existing(_)), "{:?}", outcomes[0]);
    assert!(matches!(outcomes[1], Outcome::Replaced(_)), "{:?}", outcomes[1]);
    scene.apply(cancel_op("b")).await;
    let outcome = scene.apply(make("c", 60)).await;
    assert!(matches!(outcome, Outcome::Created(_)), "there is room again: {outcome:?}");
    assert_eq!(scene.stats().await.pending(), 2);
    CaseResult::Whole
}

pub(super) async fn p10_no_more_schedules_a_second_than_allowed(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.schedule_per_second = Some(4))).await;
    let at = scene.at(secs(600));
    let make = |text: &str| schedule_op(timer(text, at), IfExists::Replace);
    let outcomes = scene.apply_all(["a", "b", "c", "d", "e"].map(make).to_vec()).await;
    assert!(outcomes[..4].iter().all(|o| matches!(o, Outcome::Created(_))), "{outcomes:?}");
    let refusal = refused(outcomes[4].clone());
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    assert!(refusal.to_string().contains("schedule_per_second"), "it says which limit: {refusal}");
    let Refusal::QuotaExceeded { retry_after: Some(wait), .. } = refusal else {
        panic!("it says how long to wait: {refusal:?}");
    };
    assert!(wait > Millis::ZERO && wait <= Millis::from_ms(250), "{wait}");
    // A repetition of the request, and an operation that is no schedule, use no quota.
    let again = scene.apply(make("a")).await;
    assert!(matches!(again, Outcome::Existing(_)), "{again:?}");
    scene.apply(cancel_op("b")).await;
    assert_eq!(code(scene.apply(make("e")).await), "resource_exhausted");
    scene.advance(wait).await;
    let outcome = scene.apply(make("e")).await;
    assert!(matches!(outcome, Outcome::Created(_)), "after the wait there is room: {outcome:?}");
    let replace = schedule_op(timer("a", scene.at(secs(700))), IfExists::Replace);
    assert_eq!(code(scene.apply(replace.clone()).await), "resource_exhausted");
    // A changed limit takes effect at once.
    scene.put(settings()).await;
    assert!(matches!(scene.apply(replace).await, Outcome::Replaced(_)));
    assert!(matches!(scene.apply(make("f")).await, Outcome::Created(_)));
    CaseResult::Whole
}

pub(super) async fn p10_no_due_time_further_than_allowed(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.max_delay = Some(secs(100)))).await;
    scene.create_in("a", secs(100)).await;
    let past_it = scene.at(Millis::from_ms(100_001));
    for (when, field) in [(past_it, "due_at"), (When::After(secs(101)), "delay")] {
        let schedule = schedule_op(timer("b", when), IfExists::Fail);
        let patch = patch_op("a", Patch { when: Some(when), ..Patch::default() });
        for operation in [schedule, patch] {
            let refusal = refused(scene.apply(operation).await);
            let invalid = refusal.invalid().expect("a value is not allowed");
            assert_eq!(invalid.field, field);
            let allowed = "at most 1m40s from now (limits.namespace.max_delay of namespace ";
            assert!(invalid.allowed.starts_with(allowed), "{invalid}");
            // The error shows the value as it was given: a delay is not converted to a time.
            let seen = match when {
                When::At(due_at) => Some(format!("\"{due_at}\"")),
                When::After(_) => Some("\"1m41s\"".to_owned()),
            };
            assert_eq!(invalid.seen, seen);
        }
    }
    assert_eq!(scene.get("b").await, None);
    assert_eq!(scene.view("a").await.revision(), Some(1));
    CaseResult::Whole
}

pub(super) async fn p10_tombstones_are_bounded_oldest_first(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.max_retained = 3)).await;
    for i in 0..5 {
        let text = format!("t{i}");
        scene.create_in(&text, secs(60)).await;
        scene.apply(cancel_op(&text)).await;
        scene.advance(secs(1)).await;
    }
    let mut kept = Vec::new();
    for i in 0..5 {
        let text = format!("t{i}");
        kept.push(scene.state(&text).await);
    }
    let cancelled = Some(State::Cancelled);
    assert_eq!(kept, [None, None, cancelled, cancelled, cancelled]);
    assert_eq!(scene.stats().await.retained, 3);
    CaseResult::Whole
}

pub(super) async fn p6_tombstones_last_for_the_retention(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::with(harness, Settings { retention: secs(100), ..settings() }).await;
    let (asked, _) = scene.bring("finished", State::Finished).await;
    scene.bring("cancelled", State::Cancelled).await;
    scene.advance(secs(99)).await;
    assert_eq!(scene.state("cancelled").await, Some(State::Cancelled));
    let again = scene.apply(schedule_op(asked.clone(), IfExists::Fail)).await;
    assert!(matches!(again, Outcome::Existing(_)), "while the tombstone lives: {again:?}");
    scene.advance(secs(1)).await;
    assert_eq!(scene.get("finished").await, None);
    assert_eq!(scene.stats().await.retained, 0);
    assert_eq!(code(scene.apply(cancel_op("cancelled")).await), "not_found");
    let again = scene.apply(schedule_op(asked, IfExists::Fail)).await;
    assert!(matches!(again, Outcome::Created(_)), "after it, it is a new timer: {again:?}");
    CaseResult::Whole
}

pub(super) async fn p1_p4_p6_a_forgotten_timer_leaves_nothing(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let forget = |text: &str| Operation::Forget { id: id(text) };
    for state in [State::Scheduled, State::InFlight, State::Retrying] {
        let text = state.as_str();
        scene.bring(text, state).await;
        let refusal = refused(scene.apply(forget(text)).await);
        assert!(matches!(refusal, Refusal::State { state: of, .. } if of == state), "{refusal:?}");
        assert_eq!(scene.state(text).await, Some(state), "it is pending as before");
    }
    let mut requests = Vec::new();
    for (text, state) in [("a", State::Finished), ("b", State::Cancelled)] {
        requests.push(scene.bring(text, state).await.0);
        assert_eq!(scene.apply(forget(text)).await, Outcome::Purged);
        assert_eq!(scene.get(text).await, None);
        assert_eq!(code(scene.apply(forget(text)).await), "not_found", "a repetition does nothing");
    }
    if scene.restart(Restart::Kill).await {
        assert_eq!([scene.get("a").await, scene.get("b").await], [None, None], "after a kill");
    }
    scene.freed_down_to(0).await;
    for asked in requests {
        let again = scene.apply(schedule_op(asked, IfExists::Fail)).await;
        assert!(matches!(again, Outcome::Created(_)), "the id is as if never used: {again:?}");
    }
    CaseResult::Whole
}

/// The settings that bound the number or the age of tombstones. A lowered value counts for those that
/// exist. (Dead letters have no such setting: only a caller removes them.)
pub(super) async fn p6_p10_settings_bound_what_is_kept_already(
    harness: &dyn Harness,
) -> CaseResult {
    let lowered: [fn(&mut Settings); 2] =
        [|settings| settings.retention = secs(100), |settings| settings.limits.max_retained = 1];
    let scene = Scene::new(harness).await;
    for (k, lower) in lowered.into_iter().enumerate() {
        let mut own = Settings { retention: secs(3_600), ..settings() };
        let scene = scene.other(&format!("bounded{k}"), own.clone()).await;
        for (text, age) in [("old", secs(60)), ("new", secs(40))] {
            scene.create_in(text, secs(600)).await;
            scene.apply(cancel_op(text)).await;
            scene.advance(age).await;
        }
        assert_eq!(scene.stats().await.retained, 2);
        lower(&mut own);
        scene.put(own).await;
        let kept = [scene.state("old").await, scene.state("new").await];
        assert_eq!(kept, [None, Some(State::Cancelled)], "of setting {k}");
        assert_eq!(code(scene.apply(cancel_op("old")).await), "not_found");
        scene.freed_down_to(1).await;
        if scene.restart(Restart::Kill).await {
            let kept = [scene.state("old").await, scene.state("new").await];
            assert_eq!(kept, [None, Some(State::Cancelled)], "of setting {k}, after a kill");
            scene.freed_down_to(1).await;
        }
        let again = timer("old", scene.at(secs(600)));
        let again = scene.apply(schedule_op(again, IfExists::Fail)).await;
        assert!(matches!(again, Outcome::Created(_)), "its id is free: {again:?}");
    }
    CaseResult::Whole
}

pub(super) async fn p6_a_longer_retention_restores_nothing(harness: &dyn Harness) -> CaseResult {
    let own = |retention| Settings { retention, ..settings() };
    let scene = Scene::with(harness, own(secs(100))).await;
    for (text, age) in [("over", secs(70)), ("kept", secs(30))] {
        scene.create_in(text, secs(600)).await;
        scene.apply(cancel_op(text)).await;
        scene.advance(age).await;
    }
    for retention in [secs(1_000), secs(50), secs(300)] {
        scene.put(own(retention)).await;
        let kept = [scene.state("over").await, scene.state("kept").await];
        assert_eq!(kept, [None, Some(State::Cancelled)], "{retention:?}");
    }
    if scene.restart(Restart::Kill).await {
        assert_eq!(scene.state("over").await, None, "nor does a restart");
    }
    // It counts for the tombstone that was kept, in place of the retention at its end.
    scene.advance(secs(269)).await;
    assert_eq!(scene.state("kept").await, Some(State::Cancelled));
    scene.advance(secs(1)).await;
    assert_eq!(scene.state("kept").await, None);
    CaseResult::Whole
}

pub(super) async fn p6_a_raised_retention_counts_at_once(harness: &dyn Harness) -> CaseResult {
    let own = |retention| Settings { retention, ..settings() };
    let scene = Scene::with(harness, own(Millis::ZERO)).await;
    scene.create_in("cancelled", secs(60)).await;
    scene.create_in("delivered", secs(0)).await;
    let firing = scene.claim_one().await;
    scene.put(own(secs(3_600))).await;
    scene.apply(cancel_op("cancelled")).await;
    scene.settled(&firing, SettleVerdict::Ack).await;
    let states = async || [scene.state("cancelled").await, scene.state("delivered").await];
    let kept = [Some(State::Cancelled), Some(State::Finished)];
    assert_eq!(states().await, kept, "they ended in the millisecond of the change");
    if scene.restart(Restart::Kill).await {
        assert_eq!(states().await, kept);
    }
    CaseResult::Whole
}

pub(super) async fn p6_t24_a_raised_retention_survives_a_step_back(
    harness: &dyn Harness,
) -> CaseResult {
    let own = |retention| Settings { retention, ..settings() };
    let scene = Scene::with(harness, own(secs(10))).await;
    scene.create_in("later", secs(600)).await;
    if harness.step_wall(100_000).is_none() {
        return CaseResult::NoClockSteps;
    }
    scene.put(own(secs(3_600))).await;
    harness.step_wall(-100_000);
    scene.apply(cancel_op("later")).await;
    assert_eq!(scene.state("later").await, Some(State::Cancelled));
    if scene.restart(Restart::Kill).await {
        assert_eq!(scene.state("later").await, Some(State::Cancelled));
    }
    CaseResult::Whole
}

pub(super) async fn p9_p10_origins_past_the_number_of_lanes_share_one(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let origin = |i: usize| http(&format!("http://h{i:03}.example/x"));
    let operations = (0..RECEIVERS_MAX + 3).map(|i| {
        let mut asked = timer(&format!("t{i:03}"), scene.at(Millis::ZERO));
        asked.spec.destination = Some(origin(i));
        schedule_op(asked, IfExists::Fail)
    });
    let outcomes = scene.apply_all(operations.collect()).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
    let own = scene.claim_as(scene.request(vec![origin(RECEIVERS_MAX - 1).lane_key()])).await;
    assert_eq!(own.firings.len(), 1, "the last origin with a lane of its own");
    let past = scene.claim_as(scene.request(vec![origin(RECEIVERS_MAX).lane_key()])).await;
    assert!(past.firings.is_empty(), "the first without");
    let shared = scene.claim_as(scene.request(vec![LaneKey::Overflow])).await.firings;
    let destinations: Vec<_> = shared.iter().map(|firing| firing.destination().clone()).collect();
    assert_eq!(destinations.len(), 3);
    assert!((0..3).all(|i| destinations.contains(&origin(RECEIVERS_MAX + i))), "{destinations:?}");
    assert!(shared.iter().all(|firing| firing.lane == LaneKey::Overflow));
    let own_destination = http("http://namespace.example/");
    scene.put(Settings { destination: own_destination.clone(), ..settings() }).await;
    scene.create_in("plain", Millis::ZERO).await;
    let plain = scene.claim_as(scene.request(vec![own_destination.lane_key()])).await;
    assert_eq!(plain.firings.len(), 1, "the namespace's own destination never overflows");
    CaseResult::Whole
}

pub(super) async fn p10_a_refused_item_leaves_no_trace(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::with(harness, limited(|limits| limits.max_pending = Some(1))).await;
    scene.create_in("a", secs(60)).await;
    let before = scene.stats().await;
    for i in 0..50 {
        let mut asked = timer(&format!("t{i}"), When::At(Timestamp::MAX));
        asked.spec.destination = Some(http(&format!("http://h{i}.example/")));
        let outcome = scene.apply(schedule_op(asked, IfExists::Fail)).await;
        assert_eq!(code(outcome), "resource_exhausted");
    }
    assert_eq!(scene.stats().await, before);
    CaseResult::Whole
}
