//! Cancels: one definite result, and no claim after `cancelled` (P4).

use duly_core::{
    Millis, Settings, State,
    timer::{AttemptOutcome, Wait},
};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, code, failed, id, refused, secs, settings},
};
use crate::{Operation, Outcome, Refusal, SettleOutcome, SettleVerdict, TimerView, command::Seen};

fn cancelled(attempts: u32, maybe_delivered: bool) -> Outcome {
    Outcome::Cancelled { attempts, maybe_delivered, already: false }
}

pub(super) async fn p4_cancel_before_claim_wins(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    scene.create_in("b", secs(10)).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(0, false));
    scene.advance(secs(10)).await;
    assert_eq!(scene.claim_one().await.id, id("b"), "only the other one fires");
    assert_eq!(scene.state("a").await, Some(State::Cancelled));
    CaseResult::Whole
}

pub(super) async fn p4_a_due_timer_can_be_cancelled(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::Due).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(0, false));
    assert!(scene.claim().await.is_empty());
    assert_eq!(scene.stats().await.pending(), 0);
    CaseResult::Whole
}

pub(super) async fn p4_claim_before_cancel_wins(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, firing) = scene.bring("a", State::InFlight).await;
    let firing = firing.expect("an in-flight timer has a lease");
    let refusal = refused(scene.apply(cancel_op("a")).await);
    let Refusal::State { state, leased_until, attempts, .. } = &refusal else {
        panic!("expected a refusal by state, got {refusal:?}");
    };
    assert_eq!(refusal.code().as_str(), "in_flight");
    assert_eq!((*state, *attempts), (State::InFlight, 1));
    assert_eq!(*leased_until, firing.leased_until);
    scene.settled(&firing, SettleVerdict::Ack).await;
    assert_eq!(scene.state("a").await, Some(State::Finished));
    CaseResult::Whole
}

pub(super) async fn p4_cancel_of_a_retry_returns_its_attempts(harness: &dyn Harness) -> CaseResult {
    for (outcome, maybe_delivered) in [
        (AttemptOutcome::Failed, false),
        (AttemptOutcome::NotConnected, false),
        (AttemptOutcome::TimedOut, true),
        (AttemptOutcome::ConnectionLost, true),
    ] {
        let scene = Scene::new(harness).await;
        let scene = scene.other(outcome.as_str(), settings()).await;
        let (_, firing) = scene.bring("a", State::InFlight).await;
        let firing = firing.expect("an in-flight timer has a lease");
        scene.settled(&firing, failed(Wait::Policy, outcome)).await;
        assert_eq!(scene.apply(cancel_op("a")).await, cancelled(1, maybe_delivered), "{outcome:?}");
        scene.advance(secs(3_600)).await;
        assert!(scene.claim().await.is_empty(), "{outcome:?}: no retry comes");
    }
    CaseResult::Whole
}

pub(super) async fn p4_cancel_after_a_lost_lease_is_maybe_delivered(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::InFlight).await;
    scene.advance(secs(31)).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(1, true));
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p4_repeated_cancel_returns_the_same(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("a", State::Scheduled).await;
    let (_, firing) = scene.bring("b", State::InFlight).await;
    let firing = firing.expect("an in-flight timer has a lease");
    scene.settled(&firing, failed(Wait::Policy, AttemptOutcome::TimedOut)).await;
    for (text, attempts, maybe_delivered) in [("a", 0, false), ("b", 1, true)] {
        let first = scene.apply(cancel_op(text)).await;
        assert_eq!(first, cancelled(attempts, maybe_delivered));
        for _ in 0..2 {
            let again = scene.apply(cancel_op(text)).await;
            let already = true;
            assert_eq!(again, Outcome::Cancelled { attempts, maybe_delivered, already });
        }
    }
    assert_eq!(scene.stats().await.totals.cancelled, 2, "counted once each");
    CaseResult::Whole
}

pub(super) async fn p4_cancel_of_ended_timers_is_refused_by_state(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for state in [State::Finished, State::Dead] {
        let text = state.as_str();
        scene.bring(text, state).await;
        assert_eq!(code(scene.apply(cancel_op(text)).await), text);
        assert_eq!(scene.state(text).await, Some(state));
    }
    assert_eq!(code(scene.apply(cancel_op("unknown")).await), "not_found");
    CaseResult::Whole
}

pub(super) async fn p4_cancel_checks_the_revision_first(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let cancel = |revision| Operation::Cancel { id: id("a"), if_revision: Some(revision) };
    scene.bring("a", State::InFlight).await;
    let refusal = refused(scene.apply(cancel(2)).await);
    let expected = Refusal::Revision { id: id("a"), expected: 2, actual: 1 };
    assert_eq!(refusal, expected, "before the state");
    assert_eq!(code(scene.apply(cancel(1)).await), "in_flight");
    scene.advance(secs(31)).await;
    assert_eq!(code(scene.apply(cancel(2)).await), "revision_mismatch");
    assert_eq!(scene.state("a").await, Some(State::Retrying), "a refused cancel changes nothing");
    assert_eq!(scene.apply(cancel(1)).await, cancelled(1, true));
    CaseResult::Whole
}

pub(super) async fn p4_cancel_seen_cancels_only_the_listed_timer(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let seen = |view: &TimerView, state| {
        let timer = view.timer().expect("it is pending");
        let (incarnation, revision) = (timer.incarnation, timer.revision);
        let seen = Seen { incarnation, revision, state };
        Operation::CancelSeen { id: timer.id.clone(), seen }
    };
    let old = scene.create_in("a", secs(10)).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(0, false));
    assert_eq!(code(scene.apply(seen(&old, None)).await), "not_found", "it has ended");
    let new = scene.create_in("a", secs(20)).await;
    assert_eq!(old.revision(), new.revision(), "the revision does not tell them apart");
    assert_eq!(code(scene.apply(seen(&old, None)).await), "not_found", "another timer");
    assert_eq!(scene.state("a").await, Some(State::Scheduled));
    scene.bring("b", State::InFlight).await;
    let flies = scene.get("b").await.expect("it is there");
    assert_eq!(code(scene.apply(seen(&flies, None)).await), "in_flight");
    scene.advance(secs(31)).await;
    assert_eq!(code(scene.apply(seen(&flies, Some(State::Due))).await), "not_found");
    assert_eq!(scene.state("b").await, Some(State::Retrying), "another state");
    let retries = seen(&flies, Some(State::Retrying));
    assert_eq!(scene.apply(retries).await, cancelled(1, true));
    assert_eq!(code(scene.apply(seen(&new, Some(State::Scheduled))).await), "not_found");
    assert_eq!(scene.apply(seen(&new, None)).await, cancelled(0, false), "due by now");
    CaseResult::Whole
}

pub(super) async fn p4_p8_a_cancelled_retry_takes_no_late_verdict(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, firing) = scene.bring("a", State::InFlight).await;
    let firing = firing.expect("an in-flight timer has a lease");
    scene.advance(secs(31)).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(1, true));
    assert_eq!(scene.settle(&firing, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    assert_eq!(scene.state("a").await, Some(State::Cancelled));
    assert_eq!(scene.stats().await.totals.delivered, 0);
    CaseResult::Whole
}

pub(super) async fn p4_without_retention_a_cancelled_timer_is_unknown(
    harness: &dyn Harness,
) -> CaseResult {
    let retention = Millis::ZERO;
    let scene = Scene::with(harness, Settings { retention, ..settings() }).await;
    scene.create_in("a", secs(10)).await;
    assert_eq!(scene.apply(cancel_op("a")).await, cancelled(0, false));
    assert_eq!(scene.get("a").await, None);
    assert_eq!(code(scene.apply(cancel_op("a")).await), "not_found");
    CaseResult::Whole
}
