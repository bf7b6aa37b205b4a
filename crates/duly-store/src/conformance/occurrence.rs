//! Occurrences and delivery ids: the receiver's idempotency key (P7).

use duly_core::{
    DeliveryId, Millis, State,
    headers::Headers,
    schedule::{Change, IfExists, Patch, Tags, When},
};

use super::{
    CaseResult, Harness,
    scene::{NODE, SHARD, Scene, dead, id, name, retry_in, schedule_op, secs, text, timer},
};
use crate::{Outcome, SettleVerdict, command::DeadLetterId};

pub(super) async fn p7_one_delivery_id_over_all_attempts(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(1)).await;
    let made = scene.view("a").await;
    let expected = made.timer().map(|timer| timer.delivery_id("shop"));
    scene.advance(secs(1)).await;
    let first = scene.claim_one().await;
    scene.settled(&first, retry_in(Millis::ZERO)).await;
    let second = scene.claim_one().await;
    scene.advance(secs(30)).await;
    let third = scene.claim_for_node().await.remove(0);
    assert_eq!(scene.store().release_owner(SHARD, NODE).await, Ok(1));
    let fourth = scene.claim_one().await;
    for (i, firing) in [&first, &second, &third, &fourth].into_iter().enumerate() {
        assert_eq!(Some(firing.delivery_id), expected, "attempt {}", i + 1);
        assert_eq!((firing.attempt as usize, firing.occurrence), (i + 1, 0));
    }
    scene.settled(&fourth, dead()).await;
    let outcome = scene.redrive(DeadLetterId::Delivery(first.delivery_id), Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
    let fifth = scene.claim_one().await;
    assert_eq!((Some(fifth.delivery_id), fifth.attempt), (expected, 5), "after a redrive too");
    CaseResult::Whole
}

pub(super) async fn p7_the_delivery_id_is_the_frozen_hash(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let view = scene.view("a").await;
    let incarnation = view.timer().expect("a new timer is whole").incarnation;
    let firing = scene.claim_one().await;
    assert_eq!(firing.delivery_id, DeliveryId::of("shop", "a", incarnation, 0));
    assert_eq!(firing.namespace, name("shop"));
    CaseResult::Whole
}

pub(super) async fn p7_content_change_after_an_attempt_is_a_new_occurrence(
    harness: &dyn Harness,
) -> CaseResult {
    let headers = Headers::new([("x-a".to_owned(), "1".to_owned())]);
    let headers = headers.expect("a header that is allowed");
    let patches = [
        Patch { when: Some(When::After(Millis::ZERO)), ..Patch::default() },
        Patch { payload: Change::Set(text("new")), ..Patch::default() },
        Patch { headers: Change::Set(headers), ..Patch::default() },
    ];
    let scene = Scene::new(harness).await;
    for (i, patch) in patches.into_iter().enumerate() {
        let text = format!("t{i}");
        let (_, first) = scene.bring(&text, State::Retrying).await;
        let view = scene.patch(&text, patch).await;
        assert_eq!((view.state, view.attempts()), (State::Due, 0), "{text}");
        let second = scene.claim_one().await;
        assert_eq!((second.occurrence, second.attempt), (1, 1), "{text}");
        assert_ne!(Some(second.delivery_id), first.map(|firing| firing.delivery_id), "{text}");
        scene.settled(&second, SettleVerdict::Ack).await;
    }
    CaseResult::Whole
}

pub(super) async fn p7_other_changes_keep_the_occurrence(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, first) = scene.bring("a", State::Retrying).await;
    let tags = Tags::new(vec!["red".into()]).expect("a short tag");
    let patch = Patch { tags: Change::Set(tags), ..Patch::default() };
    let view = scene.patch("a", patch).await;
    assert_eq!((view.state, view.attempts()), (State::Retrying, 1));
    scene.advance(secs(3_600)).await;
    let second = scene.claim_one().await;
    assert_eq!((second.occurrence, second.attempt), (0, 2));
    assert_eq!(Some(second.delivery_id), first.map(|firing| firing.delivery_id));
    CaseResult::Whole
}

pub(super) async fn p7_a_change_before_any_attempt_keeps_the_occurrence(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let made = scene.create_in("a", secs(60)).await;
    let patch = Patch {
        when: Some(When::After(Millis::ZERO)),
        payload: Change::Set(text("new")),
        ..Patch::default()
    };
    scene.patch("a", patch).await;
    let firing = scene.claim_one().await;
    assert_eq!(firing.occurrence, 0);
    assert_eq!(Some(firing.delivery_id), made.timer().map(|timer| timer.delivery_id("shop")));
    CaseResult::Whole
}

pub(super) async fn p7_an_id_used_again_has_another_delivery_id(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..3 {
        let mut asked = timer("a", scene.at(Millis::ZERO));
        asked.spec.payload = Some(text(format!("round {round}")));
        let outcome = scene.apply(schedule_op(asked, IfExists::Replace)).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        let firing = scene.claim_one().await;
        assert!(seen.insert(firing.delivery_id), "round {round}");
        let verdict = if round == 0 { dead() } else { SettleVerdict::Ack };
        scene.settled(&firing, verdict).await;
    }
    let letter = scene.redrive(DeadLetterId::Timer(id("a")), Millis::ZERO).await;
    let Outcome::Changed(view) = letter else {
        panic!("the first round's dead letter is still there: {letter:?}");
    };
    let first = view.timer().map(|timer| timer.delivery_id("shop"));
    assert!(first.is_some_and(|delivery_id| seen.contains(&delivery_id)));
    CaseResult::Whole
}
