//! Fire: a timer is due now, or its next attempt is.

use duly_core::State;

use super::{
    CaseResult, Harness,
    scene::{Scene, code, fire_op, secs},
};
use crate::Outcome;

pub(super) async fn p5_fire_makes_a_scheduled_timer_due_now(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::Scheduled).await;
    assert!(scene.claim().await.is_empty());
    let outcome = scene.apply(fire_op("a")).await;
    let Outcome::Changed(view) = outcome else {
        panic!("expected a change, got {outcome:?}");
    };
    assert_eq!((view.state, view.revision()), (State::Due, Some(2)));
    assert_eq!(view.due_at(), scene.now());
    let firing = scene.claim_one().await;
    assert_eq!((firing.attempt, firing.due_at), (1, scene.now()));
    scene.settled(&firing, crate::SettleVerdict::Ack).await;
    scene.advance(secs(3_600)).await;
    assert!(scene.claim().await.is_empty(), "not at the old time as well");
    CaseResult::Whole
}

pub(super) async fn p5_p7_fire_makes_the_next_attempt_now(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, first) = scene.bring("a", State::Retrying).await;
    assert!(scene.claim().await.is_empty());
    let outcome = scene.apply(fire_op("a")).await;
    let Outcome::Changed(view) = outcome else {
        panic!("expected a change, got {outcome:?}");
    };
    assert_eq!((view.state, view.revision()), (State::Retrying, Some(2)));
    let second = scene.claim_one().await;
    assert_eq!(second.attempt, 2, "the attempts go on");
    assert_eq!(Some(second.delivery_id), first.map(|firing| firing.delivery_id));
    CaseResult::Whole
}

pub(super) async fn p5_fire_of_due_or_in_flight_changes_nothing(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::InFlight).await;
    scene.bring("b", State::Due).await;
    for text in ["a", "b"] {
        let before = scene.view(text).await;
        let outcome = scene.apply(fire_op(text)).await;
        let Outcome::Unchanged(view) = outcome else {
            panic!("expected no change, got {outcome:?}");
        };
        assert_eq!(*view, before);
        assert_eq!(scene.view(text).await, before);
    }
    assert_eq!(scene.stats().await.totals.rescheduled, 0);
    CaseResult::Whole
}

pub(super) async fn p5_fire_of_ended_timers_is_refused(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in [State::Finished, State::Dead, State::Cancelled] {
        let text = state.as_str();
        scene.bring(text, state).await;
        assert_eq!(code(scene.apply(fire_op(text)).await), text);
    }
    assert_eq!(code(scene.apply(fire_op("unknown")).await), "not_found");
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}
