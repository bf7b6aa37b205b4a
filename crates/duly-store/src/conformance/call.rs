//! Rules for a whole call: its size, its shard, and the part of timers that its result shows (P10).

use duly_core::{Millis, State, destination::LaneKey, schedule::IfExists, shard::ShardId};

use super::{
    CaseResult, Harness,
    scene::{SHARD, Scene, cancel_op, schedule_op, secs, text, timer},
};
use crate::{
    Answer, Command, Operation, Outcome, SettleVerdict, Settlement, Token, claim::LANES_MAX,
    command::COMMANDS_MAX, query::Body, settle::SETTLEMENTS_MAX,
};

fn command(scene: &Scene<'_>, operation: Operation, answer: Answer) -> Command {
    Command { namespace: scene.namespace.clone(), operation, answer }
}

pub(super) async fn p10_a_call_of_too_many_items_does_nothing(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let cancels = |count| vec![command(&scene, cancel_op("a"), Answer::Brief); count];
    let error = scene.store().apply(SHARD, cancels(COMMANDS_MAX + 1)).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "invalid_argument");
    let mut request = scene.request(vec![LaneKey::Pull; LANES_MAX + 1]);
    let error = scene.store().claim(SHARD, request.clone()).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "invalid_argument");
    assert_eq!(scene.state("a").await, Some(State::Due), "nothing was done");
    request.lanes.truncate(LANES_MAX);
    let firing = scene.claim_as(request).await.firings.remove(0);
    let settlement =
        Settlement { token: firing.token.clone(), namespace: None, verdict: SettleVerdict::Ack };
    let many = vec![settlement; SETTLEMENTS_MAX + 1];
    let error = scene.store().settle(SHARD, many).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "invalid_argument");
    assert_eq!(scene.state("a").await, Some(State::InFlight), "nothing was done");
    CaseResult::Whole
}

pub(super) async fn p10_a_brief_answer_leaves_the_payload_out(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(secs(60)));
    asked.spec.payload = Some(text("a long story"));
    let schedule = schedule_op(asked, IfExists::Fail);
    for answer in [Answer::Brief, Answer::Whole] {
        let commands = vec![command(&scene, schedule.clone(), answer)];
        let mut outcomes = scene.store().apply(SHARD, commands).await.expect("it is carried out");
        let (Outcome::Created(view) | Outcome::Existing(view)) = outcomes.remove(0) else {
            panic!("expected the timer");
        };
        let Body::Whole(shown) = &view.body else { panic!("a pending timer is whole") };
        assert_eq!(shown.spec.payload.is_some(), answer == Answer::Whole);
        assert_eq!((shown.id.as_str(), shown.revision), ("a", 1));
    }
    let kept = scene.view("a").await;
    assert!(
        kept.timer().is_some_and(|timer| timer.spec.payload.is_some()),
        "only the answer is brief"
    );
    CaseResult::Whole
}

pub(super) async fn p10_unknown_shard_is_refused(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let none = ShardId(scene.store().shards());
    let asked = schedule_op(timer("a", scene.at(secs(60))), IfExists::Fail);
    let commands = vec![command(&scene, asked, Answer::Whole)];
    let error = scene.store().apply(none, commands).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "invalid_argument");
    assert_eq!(scene.get("a").await, None);
    let request = scene.request(vec![LaneKey::Pull]);
    assert!(scene.store().claim(none, request).await.is_err());
    let settlement = Settlement {
        token: Token::new(none, &[0; 8]),
        namespace: None,
        verdict: SettleVerdict::Ack,
    };
    assert!(scene.store().settle(none, vec![settlement]).await.is_err());
    CaseResult::Whole
}
