//! Schedules: the table of results of a POST with an existing id, row by row (P6), and the fields of a new
//! timer.

use duly_core::{
    State, TimerSpec,
    schedule::{IfExists, Tags},
};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, code, http, id, name, schedule_op, secs, settings, text, timer},
};
use crate::{Answer, Command, Outcome, Refusal};

const COLUMNS: [&str; 5] = ["same", "fail", "keep", "replace", "restart"];

/// Returns the result of a POST, in the words of the table.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created(_) => "created",
        Outcome::Existing(_) => "existing",
        Outcome::Replaced(_) => "replaced",
        other => code(other),
    }
}

/// Checks one row: brings a timer to `state` in one namespace per column, and posts its id again.
async fn row(harness: &dyn Harness, state: State, expected: [&str; 5]) {
    let scene = Scene::new(harness).await;
    for (column, expected) in COLUMNS.into_iter().zip(expected) {
        let scene = scene.other(column, settings()).await;
        let (same, _) = scene.bring("a", state).await;
        let before = scene.view("a").await;
        let mut other = same.clone();
        other.spec.payload = Some(text("another"));
        let (schedule, if_exists) = match column {
            "same" => (same, IfExists::Fail),
            "restart" => (same, IfExists::Restart),
            "fail" => (other, IfExists::Fail),
            "keep" => (other, IfExists::Keep),
            _ => (other, IfExists::Replace),
        };
        let outcome = scene.apply(schedule_op(schedule, if_exists)).await;
        assert_eq!(word(outcome), expected, "{state}, {column}");
        let after = scene.view("a").await;
        let payload = after.timer().and_then(|timer| timer.spec.payload.clone());
        if matches!(expected, "created" | "replaced") {
            assert!(after.state.is_pending(), "{state}, {column}: the new timer lives");
            let has_other_payload = !matches!(column, "same" | "restart");
            assert_eq!(payload.is_some(), has_other_payload, "{state}, {column}");
        } else {
            assert_eq!(after, before, "{state}, {column}: nothing changed");
        }
    }
}

pub(super) async fn p6_post_over_scheduled(harness: &dyn Harness) -> CaseResult {
    row(
        harness,
        State::Scheduled,
        ["existing", "already_exists", "existing", "replaced", "replaced"],
    )
    .await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_due(harness: &dyn Harness) -> CaseResult {
    row(harness, State::Due, ["existing", "already_exists", "existing", "replaced", "replaced"])
        .await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_retrying(harness: &dyn Harness) -> CaseResult {
    row(
        harness,
        State::Retrying,
        ["existing", "already_exists", "existing", "replaced", "replaced"],
    )
    .await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_in_flight(harness: &dyn Harness) -> CaseResult {
    row(
        harness,
        State::InFlight,
        ["existing", "already_exists", "existing", "in_flight", "in_flight"],
    )
    .await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_finished(harness: &dyn Harness) -> CaseResult {
    row(harness, State::Finished, ["existing", "finished", "existing", "created", "created"]).await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_cancelled(harness: &dyn Harness) -> CaseResult {
    row(harness, State::Cancelled, ["created"; 5]).await;
    CaseResult::Whole
}

pub(super) async fn p6_post_over_dead(harness: &dyn Harness) -> CaseResult {
    row(harness, State::Dead, ["dead", "dead", "existing", "created", "created"]).await;
    CaseResult::Whole
}

pub(super) async fn p6_same_request_with_a_delay_is_the_same_later(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let schedule = timer("a", duly_core::schedule::When::After(secs(60)));
    let first = scene.create(schedule.clone()).await;
    scene.advance(secs(10)).await;
    let again = scene.apply(schedule_op(schedule, IfExists::Fail)).await;
    let Outcome::Existing(view) = again else {
        panic!("expected the existing timer, got {again:?}");
    };
    assert_eq!(view.due_at(), first.due_at(), "the due time stands");
    let longer = timer("a", duly_core::schedule::When::After(secs(61)));
    let other = scene.apply(schedule_op(longer, IfExists::Fail)).await;
    assert_eq!(code(other), "already_exists");
    CaseResult::Whole
}

pub(super) async fn p6_changed_timer_keeps_its_request_hash(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let schedule = timer("a", scene.at(secs(60)));
    scene.create(schedule.clone()).await;
    let patch = duly_core::schedule::Patch { when: Some(scene.at(secs(90))), ..Default::default() };
    scene.patch("a", patch).await;
    let again = scene.apply(schedule_op(schedule, IfExists::Fail)).await;
    assert_eq!(word(again), "existing");
    CaseResult::Whole
}

pub(super) async fn p6_replace_counts_the_revision_and_is_another_incarnation(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(60)).await;
    let old = scene.view("a").await;
    let mut schedule = timer("a", scene.at(secs(30)));
    schedule.spec.payload = Some(text("new"));
    let outcome = scene.apply(schedule_op(schedule, IfExists::Replace)).await;
    let Outcome::Replaced(new) = outcome else {
        panic!("expected a replaced timer, got {outcome:?}");
    };
    assert_eq!((old.revision(), new.revision()), (Some(1), Some(2)));
    let incarnation = |view: &crate::TimerView| view.timer().map(|timer| timer.incarnation);
    assert_ne!(incarnation(&old), incarnation(&new));
    scene.advance(secs(30)).await;
    let firing = scene.claim_one().await;
    assert_eq!(firing.spec.payload, Some(text("new")));
    scene.settled(&firing, crate::SettleVerdict::Ack).await;
    scene.advance(secs(60)).await;
    assert!(scene.claim().await.is_empty(), "the old timer is gone (T4)");
    CaseResult::Whole
}

pub(super) async fn p4_t4_t26_an_id_used_again_fires_once_at_the_new_time(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let first = scene.create_in("a", secs(10)).await;
    let operations =
        vec![cancel_op("a"), schedule_op(timer("a", scene.at(secs(20))), IfExists::Fail)];
    let outcomes = scene.apply_all(operations).await;
    let Outcome::Created(second) = &outcomes[1] else {
        panic!("a cancelled id can be used again: {outcomes:?}");
    };
    assert_eq!(second.revision(), Some(1));
    assert_eq!(scene.stats().await.retained, 0, "the tombstone made room");
    let incarnation = |view: &crate::TimerView| view.timer().map(|timer| timer.incarnation);
    assert_ne!(incarnation(&first), incarnation(second));
    scene.advance(secs(10)).await;
    assert!(scene.claim().await.is_empty(), "the cancelled one does not fire");
    scene.advance(secs(10)).await;
    let firing = scene.claim_one().await;
    assert_eq!(Some(firing.delivery_id), second.timer().map(|t| t.delivery_id("shop")));
    CaseResult::Whole
}

pub(super) async fn p6_new_timer_has_the_requested_fields(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let now = scene.now();
    let mut asked = timer("a", scene.at(secs(60)));
    asked.spec = TimerSpec {
        payload: Some(text("hello")),
        tags: Tags::new(vec!["red".into(), "blue".into()]).expect("two short tags"),
        destination: Some(http("http://example.com/hook")),
        expire_after: Some(secs(600)),
        ..TimerSpec::default()
    };
    let view = scene.create(asked.clone()).await;
    assert_eq!((view.state, view.attempts()), (State::Scheduled, 0));
    let made = view.timer().expect("a new timer is whole");
    assert_eq!((made.created_at, made.updated_at, made.revision), (now, now, 1));
    assert_eq!((made.occurrence, made.attempts, made.history.len()), (0, 0, 0));
    assert_eq!((&made.spec.payload, &made.spec.tags), (&asked.spec.payload, &asked.spec.tags));
    assert_eq!(
        (&made.spec.destination, made.spec.expire_after),
        (&asked.spec.destination, asked.spec.expire_after)
    );
    assert_eq!(*view, scene.view("a").await, "reading it gives the same");
    CaseResult::Whole
}

pub(super) async fn p6_operations_on_one_id_run_in_order(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let make = |after: u64| schedule_op(timer("a", scene.at(secs(after))), IfExists::Fail);
    let outcomes =
        scene.apply_all(vec![make(60), cancel_op("a"), make(70), make(80), cancel_op("a")]).await;
    let words: Vec<&str> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Cancelled { already: false, .. } => "cancelled",
            other => word(other),
        })
        .collect();
    assert_eq!(words, ["created", "cancelled", "created", "already_exists", "cancelled"]);
    CaseResult::Whole
}

pub(super) async fn t13_refused_item_affects_no_other_item(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let command = |namespace: &str, text: &str| Command {
        answer: Answer::Whole,
        namespace: name(namespace),
        operation: schedule_op(timer(text, scene.at(secs(60))), IfExists::Fail),
    };
    let commands = vec![
        command("shop", "a"),
        command("nowhere", "b"),
        Command { namespace: name("shop"), operation: cancel_op("unknown"), answer: Answer::Whole },
        command("shop", "c"),
    ];
    let outcomes = scene.store().apply(super::scene::SHARD, commands).await;
    let outcomes = outcomes.expect("the call itself is fine");
    assert_eq!(outcomes.len(), 4);
    assert!(matches!(outcomes[0], Outcome::Created(_)), "{:?}", outcomes[0]);
    let unknown = Outcome::Refused(Refusal::UnknownNamespace(name("nowhere")));
    assert_eq!(outcomes[1], unknown);
    assert_eq!(code(outcomes[2].clone()), "not_found");
    assert!(matches!(outcomes[3], Outcome::Created(_)), "{:?}", outcomes[3]);
    assert_eq!(scene.stats().await.pending(), 2);
    let get = scene.store().get(super::scene::SHARD, name("nowhere"), id("b"), u64::MAX).await;
    assert_eq!(get.expect("a read is answered"), None);
    CaseResult::Whole
}

pub(super) async fn t5_the_same_id_in_two_namespaces_is_two_timers(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = scene.other("bank", settings()).await;
    let first = scene.create_in("a", secs(10)).await;
    let second = other.create_in("a", secs(20)).await;
    let delivery_id = |view: &crate::TimerView, namespace: &str| {
        view.timer().map(|timer| timer.delivery_id(namespace))
    };
    assert_ne!(delivery_id(&first, "shop"), delivery_id(&second, "bank"));
    scene.apply(cancel_op("a")).await;
    assert_eq!(other.state("a").await, Some(State::Scheduled));
    other.advance(secs(20)).await;
    assert!(scene.claim().await.is_empty());
    assert_eq!(other.claim_one().await.namespace, name("bank"));
    CaseResult::Whole
}
