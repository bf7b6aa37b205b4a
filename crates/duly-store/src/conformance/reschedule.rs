//! Changes of a pending timer: no claim for the old time after the call returns (P5).

use duly_core::{
    Millis, State,
    schedule::{Change, Patch, Tags, When},
};

use super::{
    CaseResult, Harness,
    scene::{Scene, code, http, id, patch_op, refused, secs, text, timer},
};
use crate::{Operation, Refusal, SettleVerdict};

fn to(when: When) -> Patch {
    Patch { when: Some(when), ..Patch::default() }
}

pub(super) async fn p5_a_later_time_is_the_only_time(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    let view = scene.patch("a", to(scene.at(secs(20)))).await;
    assert_eq!((view.revision(), view.due_at()), (Some(2), scene.now().saturating_add(secs(20))));
    scene.advance(secs(19)).await;
    assert!(scene.claim().await.is_empty(), "the old time has passed, the new one has not");
    scene.advance(secs(1)).await;
    scene.settled(&scene.claim_one().await, SettleVerdict::Ack).await;
    scene.advance(secs(60)).await;
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p5_t6_an_earlier_time_is_the_only_time(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("long", secs(100)).await;
    scene.create_in("a", secs(1_000)).await;
    scene.patch("a", to(scene.at(secs(5)))).await;
    scene.create_in("short", secs(3)).await;
    let mut fired = Vec::new();
    for _ in 0..1_100 {
        scene.advance(secs(1)).await;
        for firing in scene.claim().await {
            scene.settled(&firing, SettleVerdict::Ack).await;
            fired.push((firing.id.to_string(), scene.now().saturating_since(firing.due_at)));
        }
    }
    let on_time = |text: &str| (text.to_owned(), Millis::ZERO);
    assert_eq!(fired, [on_time("short"), on_time("a"), on_time("long")]);
    CaseResult::Whole
}

pub(super) async fn p5_a_due_timer_can_be_put_off(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::Due).await;
    let view = scene.patch("a", to(When::After(secs(5)))).await;
    assert_eq!(view.state, State::Scheduled);
    assert!(scene.claim().await.is_empty());
    scene.advance(secs(5)).await;
    assert_eq!(scene.claim_one().await.attempt, 1);
    CaseResult::Whole
}

pub(super) async fn p5_a_delay_counts_from_now(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    scene.advance(secs(7)).await;
    let view = scene.patch("a", to(When::After(secs(10)))).await;
    assert_eq!(view.due_at(), scene.now().saturating_add(secs(10)));
    CaseResult::Whole
}

pub(super) async fn p5_each_field_replaces_resets_or_stays(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let tags = Tags::new(vec!["red".into()]).expect("a short tag");
    let mut asked = timer("a", scene.at(secs(10)));
    asked.spec.payload = Some(text("old"));
    asked.spec.tags = tags.clone();
    asked.spec.destination = Some(http("http://one.example/"));
    scene.create(asked).await;
    scene.advance(secs(1)).await;
    let patch =
        Patch { payload: Change::Set(text("new")), destination: Change::Reset, ..Patch::default() };
    let view = scene.patch("a", patch).await;
    let changed = view.timer().expect("a pending timer is whole");
    assert_eq!((&changed.spec.payload, &changed.spec.destination), (&Some(text("new")), &None));
    assert_eq!((&changed.spec.tags, changed.revision), (&tags, 2));
    assert_eq!((changed.updated_at, changed.occurrence), (scene.now(), 0));
    scene.advance(secs(9)).await;
    let firing = scene.claim_one().await;
    assert_eq!(
        firing.spec.payload,
        Some(text("new")),
        "it follows the namespace's destination now"
    );
    CaseResult::Whole
}

pub(super) async fn p5_only_pending_timers_outside_a_lease_can_change(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in [State::Finished, State::Dead, State::Cancelled, State::InFlight] {
        let text = state.as_str();
        scene.bring(text, state).await;
        let before = scene.view(text).await;
        let outcome = scene.apply(patch_op(text, to(scene.at(secs(5))))).await;
        assert_eq!(code(outcome), text);
        assert_eq!(scene.view(text).await, before);
    }
    let outcome = scene.apply(patch_op("unknown", to(scene.at(secs(5))))).await;
    assert_eq!(code(outcome), "not_found");
    CaseResult::Whole
}

pub(super) async fn p5_the_revision_is_checked_before_the_state(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let patch = |text: &str, revision: u32| Operation::Reschedule {
        id: id(text),
        patch: Box::new(to(When::After(secs(5)))),
        if_revision: Some(revision),
    };
    scene.bring("a", State::InFlight).await;
    scene.bring("b", State::Scheduled).await;
    let refusal = refused(scene.apply(patch("a", 9)).await);
    assert_eq!(refusal, Refusal::Revision { id: id("a"), expected: 9, actual: 1 });
    assert_eq!(code(scene.apply(patch("a", 1)).await), "in_flight");
    assert_eq!(code(scene.apply(patch("b", 2)).await), "revision_mismatch");
    let taken = scene.apply(patch("b", 1)).await;
    assert!(matches!(taken, crate::Outcome::Changed(_)), "{taken:?}");
    assert_eq!(code(scene.apply(patch("b", 1)).await), "revision_mismatch");
    CaseResult::Whole
}

pub(super) async fn p5_a_new_destination_is_a_new_lane(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(Millis::ZERO));
    asked.spec.destination = Some(http("http://one.example/x"));
    scene.create(asked).await;
    let (one, two) =
        (http("http://one.example/").lane_key(), http("http://two.example/").lane_key());
    let patch =
        Patch { destination: Change::Set(http("http://two.example/y")), ..Patch::default() };
    scene.patch("a", patch).await;
    assert!(scene.claim_as(scene.request(vec![one])).await.firings.is_empty());
    let claimed = scene.claim_as(scene.request(vec![two.clone()])).await;
    assert_eq!(claimed.firings.len(), 1);
    assert_eq!(claimed.firings[0].lane, two);
    assert_eq!(*claimed.firings[0].destination(), http("http://two.example/y"));
    CaseResult::Whole
}
