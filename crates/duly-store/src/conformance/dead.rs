//! Dead letters: kept whole until they are redriven or purged (P3).

use duly_core::{Millis, RetryPolicy, Settings, State, schedule::IfExists};

use super::{
    CaseResult, Harness,
    scene::{
        Scene, code, dead, failed, id, ms, refused, retry_in, schedule_op, secs, settings, text,
        timer,
    },
};
use crate::{
    Operation, Outcome, Refusal, SettleVerdict, command::DeadLetterId, namespaces::Activity,
};

pub(super) async fn p3_p11_a_dead_letter_keeps_everything(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(Millis::ZERO));
    asked.spec.payload = Some(text("precious"));
    scene.create(asked).await;
    scene.settled(&scene.claim_one().await, dead()).await;
    let died_at = scene.now();
    scene.advance(secs(400 * 86_400)).await;
    let view = scene.view("a").await;
    let letter = view.timer().expect("a dead letter is whole");
    assert_eq!((view.state, &letter.spec.payload), (State::Dead, &Some(text("precious"))));
    let dead_letter = letter.dead_letter.expect("it says when and why");
    assert_eq!((dead_letter.at, dead_letter.reason.as_str()), (died_at, "rejected"));
    assert_eq!(letter.last_error(), Some("never again"));
    assert_eq!(scene.stats().await.dead, 1, "it never goes away by itself");
    CaseResult::Whole
}

pub(super) async fn p3_p10_only_overdue_timers_are_dead_lettered(
    harness: &dyn Harness,
) -> CaseResult {
    let mut small = settings();
    small.limits.max_dead = 2;
    let scene = Scene::with(harness, small).await;
    scene.bring("retrying", State::Retrying).await;
    scene.bring("running", State::InFlight).await;
    scene.bring("later", State::Scheduled).await;
    let mut asked = timer("due", scene.at(Millis::ZERO));
    asked.spec.payload = Some(text("precious"));
    scene.create(asked).await;
    let moment = scene.now();
    scene.advance(ms(10)).await;
    scene.create(timer("due since", scene.at(Millis::ZERO))).await;
    scene.set_activity(Activity::Paused).await;
    let give_up = |text: &str| Operation::DeadLetter { id: id(text), if_due_by: moment };
    for (text, expected) in [
        ("later", "already_exists"),
        ("due since", "already_exists"),
        ("running", "in_flight"),
        ("unknown", "not_found"),
    ] {
        let before = scene.get(text).await;
        assert_eq!(code(scene.apply(give_up(text)).await), expected, "{text}");
        assert_eq!(scene.get(text).await, before, "{text}");
    }
    for text in ["due", "retrying"] {
        let outcome = scene.apply(give_up(text)).await;
        let Outcome::Changed(view) = outcome else {
            panic!("expected a dead letter, got {outcome:?}");
        };
        let dead_letter =
            view.timer().and_then(|timer| timer.dead_letter).expect("it says when and why");
        assert_eq!((dead_letter.at, dead_letter.reason.as_str()), (scene.now(), "overdue"));
        assert_eq!(*view, scene.view(text).await);
        let again = scene.apply(give_up(text)).await;
        assert!(matches!(again, Outcome::Unchanged(_)), "{again:?}");
    }
    let kept = scene.view("due").await;
    assert_eq!(kept.timer().and_then(|timer| timer.spec.payload.clone()), Some(text("precious")));

    // The limit of dead letters applies, and a timer beyond it stays as it is.
    let refusal = refused(
        scene.apply(Operation::DeadLetter { id: id("due since"), if_due_by: scene.now() }).await,
    );
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    assert!(refusal.to_string().contains("limits.namespace.max_dead"), "{refusal}");
    assert_eq!(scene.state("due since").await, Some(State::Due));
    let stats = scene.stats().await;
    assert_eq!((stats.dead, stats.totals.dead, stats.totals.failed), (2, 2, 1));

    scene.purge(DeadLetterId::Timer(id("retrying"))).await;
    let redriven = scene.redrive(DeadLetterId::Timer(id("due")), Millis::ZERO).await;
    assert!(matches!(redriven, Outcome::Changed(_)), "{redriven:?}");
    scene.set_activity(Activity::Running).await;
    let firings = scene.claim().await;
    let ids: Vec<&str> = firings.iter().map(|firing| firing.id.as_str()).collect();
    assert_eq!(ids, ["due since", "due"]);
    CaseResult::Whole
}

pub(super) async fn p3_p7_redrive_delivers_again_with_fresh_attempts(
    harness: &dyn Harness,
) -> CaseResult {
    let retry = RetryPolicy::Delays(vec![Millis::ZERO]);
    let scene = Scene::with(harness, Settings { retry, ..settings() }).await;
    let (_, first) = scene.bring("a", State::Dead).await;
    let outcome = scene.redrive(DeadLetterId::Timer(id("a")), secs(60)).await;
    let Outcome::Changed(view) = outcome else {
        panic!("expected a change, got {outcome:?}");
    };
    assert_eq!((view.state, view.revision(), view.attempts()), (State::Retrying, Some(1), 1));
    assert_eq!(scene.stats().await.dead, 0);
    scene.advance(ms(59_999)).await;
    assert!(scene.claim().await.is_empty(), "not before its delay");
    scene.advance(ms(1)).await;
    let second = scene.claim_one().await;
    assert_eq!(second.attempt, 2, "attempts go on");
    assert_eq!(Some(second.delivery_id), first.map(|firing| firing.delivery_id));
    let failure =
        || failed(duly_core::timer::Wait::Policy, duly_core::timer::AttemptOutcome::Failed);
    scene.settled(&second, failure()).await;
    let third = scene.claim_one().await;
    assert_eq!(scene.settle(&third, failure()).await, crate::SettleOutcome::Dead);
    let view = scene.view("a").await;
    assert_eq!((view.state, view.attempts()), (State::Dead, 3), "two more, as the policy says");
    CaseResult::Whole
}

pub(super) async fn p3_purged_dead_letter_is_removed(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::Dead).await;
    assert_eq!(scene.purge(DeadLetterId::Timer(id("a"))).await, Outcome::Purged);
    assert_eq!(scene.get("a").await, None);
    assert_eq!(code(scene.purge(DeadLetterId::Timer(id("a"))).await), "not_found");
    assert_eq!(code(scene.redrive(DeadLetterId::Timer(id("a")), Millis::ZERO).await), "not_found");
    let stats = scene.stats().await;
    assert_eq!((stats.dead, stats.totals.dead), (0, 1), "the total stays");
    CaseResult::Whole
}

pub(super) async fn p3_only_dead_letters_are_redriven_or_purged(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in
        State::ALL.into_iter().filter(|state| *state != State::Dead && *state != State::Due)
    {
        let text = state.as_str();
        scene.bring(text, state).await;
        let before = scene.view(text).await;
        let letter = || DeadLetterId::Timer(id(text));
        assert_eq!(code(scene.redrive(letter(), Millis::ZERO).await), "not_found", "{text}");
        assert_eq!(code(scene.purge(letter()).await), "not_found", "{text}");
        assert_eq!(scene.view(text).await, before);
    }
    CaseResult::Whole
}

pub(super) async fn p3_dead_letter_stays_beside_a_new_timer(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, first) = scene.bring("a", State::Dead).await;
    let delivery_id = first.expect("it was leased").delivery_id;
    let mut asked = timer("a", scene.at(secs(10)));
    asked.spec.payload = Some(text("second life"));
    let outcome = scene.apply(schedule_op(asked, IfExists::Replace)).await;
    let Outcome::Created(view) = outcome else {
        panic!("expected a new timer, got {outcome:?}");
    };
    assert_eq!((view.revision(), view.state), (Some(1), State::Scheduled));
    assert_eq!(scene.state("a").await, Some(State::Scheduled), "the live one answers");
    let refusal = refused(scene.redrive(DeadLetterId::Delivery(delivery_id), Millis::ZERO).await);
    assert_eq!(refusal.code().as_str(), "already_exists");
    assert!(matches!(refusal, Refusal::State { state: State::Scheduled, .. }), "{refusal:?}");
    assert_eq!(scene.stats().await.dead, 1, "the letter is still there");
    scene.advance(secs(10)).await;
    scene.settled(&scene.claim_one().await, SettleVerdict::Ack).await;
    assert_eq!(scene.state("a").await, Some(State::Finished), "the latest end answers");
    let outcome = scene.redrive(DeadLetterId::Delivery(delivery_id), Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
    assert_eq!(scene.state("a").await, Some(State::Retrying));
    assert_eq!(scene.stats().await.retained, 0, "the tombstone made room");
    let again = scene.claim_one().await;
    assert_eq!(again.delivery_id, delivery_id);
    scene.settled(&again, dead()).await;
    assert_eq!(scene.state("a").await, Some(State::Dead), "the tombstone does not come back");
    CaseResult::Whole
}

pub(super) async fn p3_an_id_names_its_latest_dead_letter(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut deliveries = Vec::new();
    for round in 0..3 {
        let mut asked = timer("a", scene.at(Millis::ZERO));
        asked.spec.payload = Some(text(format!("round {round}")));
        scene.apply(schedule_op(asked, IfExists::Replace)).await;
        let firing = scene.claim_one().await;
        scene.settled(&firing, dead()).await;
        scene.advance(secs(1)).await;
        deliveries.push(firing.delivery_id);
    }
    assert_eq!(scene.stats().await.dead, 3);
    let latest = scene.view("a").await;
    assert_eq!(latest.timer().map(|t| t.delivery_id("shop")), Some(deliveries[2]));
    assert_eq!(scene.purge(DeadLetterId::Delivery(deliveries[1])).await, Outcome::Purged);
    let outcome = scene.redrive(DeadLetterId::Timer(id("a")), Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
    assert_eq!(scene.claim_one().await.delivery_id, deliveries[2]);
    assert_eq!(scene.stats().await.dead, 1, "the first round's");
    CaseResult::Whole
}

pub(super) async fn p3_expired_timer_is_dead_lettered_without_attempt(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (text, expire_after) in [("a", secs(60)), ("b", secs(90))] {
        let mut asked = timer(text, scene.at(secs(10)));
        asked.spec.expire_after = Some(expire_after);
        scene.create(asked).await;
    }
    scene.advance(secs(70)).await;
    assert_eq!(scene.state("a").await, Some(State::Due), "at the last moment");
    scene.advance(ms(1)).await;
    let stats = scene.stats().await;
    assert_eq!((stats.due, stats.dead, stats.totals.dead), (1, 1, 1), "without any claim");
    let view = scene.view("a").await;
    let letter = view.timer().expect("a dead letter is whole");
    assert_eq!((view.state, letter.attempts, letter.history.len()), (State::Dead, 0, 0));
    assert_eq!(letter.dead_letter.map(|dead_letter| dead_letter.reason.as_str()), Some("expired"));
    assert_eq!(scene.claim_one().await.id, id("b"), "the other one is in time");
    scene.advance(secs(3_600)).await;
    let stats = scene.stats().await;
    assert_eq!(stats.totals.failed, 1, "its lease was lost, and then it was too late");
    assert_eq!(scene.state("b").await, Some(State::Dead));
    let outcome = scene.redrive(DeadLetterId::Timer(id("a")), Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
    assert_eq!(scene.claim_one().await.id, id("a"), "a redriven one does not expire again");
    CaseResult::Whole
}

pub(super) async fn p3_expiry_does_not_touch_a_running_attempt(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(Millis::ZERO));
    asked.spec.expire_after = Some(secs(5));
    scene.create(asked).await;
    let firing = scene.claim_one().await;
    scene.advance(secs(10)).await;
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    scene.settled(&firing, retry_in(Millis::ZERO)).await;
    let view = scene.view("a").await;
    assert_eq!((view.state, view.attempts()), (State::Dead, 1), "no other attempt begins");
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}
