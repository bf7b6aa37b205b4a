//! Leases that end without a verdict: the firing is due again, and the attempt counts (P3, P8).

use duly_core::{Millis, RetryPolicy, Settings, State, timer::AttemptOutcome};

use super::{
    CaseResult, Harness,
    scene::{NODE, SHARD, Scene, ms, secs, settings},
};
use crate::{MemberId, Owner, SettleOutcome, SettleVerdict};

pub(super) async fn p3_a_lease_that_ends_makes_it_due_again(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let claimed_at = scene.now();
    let first = scene.claim_one().await;
    assert_eq!(first.leased_until, Some(claimed_at.saturating_add(secs(30))));
    scene.advance(ms(29_999)).await;
    assert!(scene.claim().await.is_empty(), "the lease is running");
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    scene.advance(ms(1)).await;
    let view = scene.view("a").await;
    assert_eq!((view.state, view.attempts(), view.maybe_delivered()), (State::Retrying, 1, true));
    let history = &view.timer().expect("a pending timer is whole").history;
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].at, history[0].outcome), (claimed_at, AttemptOutcome::LeaseLost));
    assert!(!history[0].reason.is_empty(), "it says why");
    let second = scene.claim_one().await;
    assert_eq!((second.attempt, second.delivery_id), (2, first.delivery_id));
    assert_eq!(scene.settle(&first, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    scene.settled(&second, SettleVerdict::Ack).await;
    CaseResult::Whole
}

pub(super) async fn p8_a_lease_is_good_to_its_last_millisecond(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let firing = scene.claim_one().await;
    scene.advance(ms(29_999)).await;
    scene.settled(&firing, SettleVerdict::Ack).await;
    scene.create_in("b", Millis::ZERO).await;
    let firing = scene.claim_one().await;
    scene.advance(ms(30_000)).await;
    assert_eq!(scene.settle(&firing, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    CaseResult::Whole
}

pub(super) async fn p3_lost_leases_use_up_the_budget(harness: &dyn Harness) -> CaseResult {
    let retry = RetryPolicy::Delays(vec![secs(600)]);
    let scene = Scene::with(harness, Settings { retry, ..settings() }).await;
    scene.create_in("a", Millis::ZERO).await;
    scene.claim_one().await;
    scene.advance(secs(30)).await;
    assert_eq!(scene.claim_one().await.attempt, 2, "at once: a lost lease waits for nothing");
    scene.advance(secs(30)).await;
    let view = scene.view("a").await;
    let letter = view.timer().expect("a dead letter is whole");
    assert_eq!((view.state, letter.attempts, letter.history.len()), (State::Dead, 2, 2));
    assert_eq!(
        letter.dead_letter.map(|dead_letter| dead_letter.reason.as_str()),
        Some("attempts_spent")
    );
    assert!(letter.maybe_delivered);
    assert!(scene.claim().await.is_empty());
    let totals = scene.stats().await.totals;
    assert_eq!((totals.fired, totals.failed, totals.dead), (2, 2, 1));
    CaseResult::Whole
}

pub(super) async fn p3_lease_ends_without_any_call(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::InFlight).await;
    scene.advance(secs(30)).await;
    let stats = scene.stats().await;
    assert_eq!((stats.in_flight, stats.retrying), (0, 1), "counts see it without a claim");
    let ready = scene.ready(None, 10).await;
    assert_eq!(ready.lanes.len(), 1, "and so does `ready`");
    assert!(ready.lanes[0].retry >= 1);
    CaseResult::Whole
}

pub(super) async fn p3_release_owner_ends_that_nodes_leases_only(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let other = MemberId(8);
    let claim_as = async |run| {
        let mut request = scene.request(vec![duly_core::destination::LaneKey::Pull]);
        request.owner = Owner::Node(run);
        scene.claim_as(request).await.firings.remove(0)
    };
    scene.create_in("mine", Millis::ZERO).await;
    let mine = claim_as(NODE).await;
    scene.create_in("theirs", Millis::ZERO).await;
    let theirs = claim_as(other).await;
    scene.create_in("pulled", Millis::ZERO).await;
    let pulled = scene.claim_one().await;
    let release = async |run| scene.store().release_owner(SHARD, run).await;
    assert_eq!(release(NODE).await, Ok(1));
    assert_eq!(release(NODE).await, Ok(0), "they are gone");
    let view = scene.view("mine").await;
    assert_eq!((view.state, view.attempts(), view.maybe_delivered()), (State::Retrying, 1, true));
    let again = scene.claim_one().await;
    assert_eq!((again.id.as_str(), again.attempt), ("mine", 2));
    assert_eq!(again.delivery_id, mine.delivery_id);
    assert_eq!(scene.settle(&mine, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    scene.settled(&theirs, SettleVerdict::Ack).await;
    scene.settled(&pulled, SettleVerdict::Ack).await;
    CaseResult::Whole
}

pub(super) async fn p3_release_owner_counts_against_the_budget(
    harness: &dyn Harness,
) -> CaseResult {
    let retry = RetryPolicy::Delays(vec![secs(600)]);
    let scene = Scene::with(harness, Settings { retry, ..settings() }).await;
    scene.create_in("a", Millis::ZERO).await;
    for expected in [State::Retrying, State::Dead] {
        assert_eq!(scene.claim_for_node().await.len(), 1);
        assert_eq!(scene.store().release_owner(SHARD, NODE).await, Ok(1));
        assert_eq!(scene.state("a").await, Some(expected));
    }
    CaseResult::Whole
}

pub(super) async fn p8_a_nodes_lease_lives_as_long_as_the_node(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let firing = scene.claim_for_node().await.remove(0);
    assert_eq!(firing.leased_until, None, "it has no end of its own");
    let longer = SettleVerdict::Extend { lease: secs(60) };
    assert_eq!(scene.settle(&firing, longer).await, SettleOutcome::Ok);
    assert_eq!(scene.view("a").await.leased_until, None);
    scene.advance(secs(24 * 3_600)).await;
    assert!(scene.claim().await.is_empty(), "no heartbeat was missed");
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    scene.settled(&firing, SettleVerdict::Ack).await;
    CaseResult::Whole
}
