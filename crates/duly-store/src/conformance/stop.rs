//! Cancels of timers in flight with the order that no attempt follows the one under way (P4).

use duly_core::{
    RetryPolicy, Settings, State,
    timer::{AttemptOutcome, Wait},
    view::Body,
};

use super::{
    CaseResult, Harness, Restart,
    scene::{
        NODE, SHARD, Scene, cancel_op, code, dead, failed, id, retry_in, secs, settings, stop_op,
    },
};
use crate::{Firing, Operation, Outcome, SettleOutcome, SettleVerdict, command::Seen};

fn stopped(attempts: u32, already: bool) -> Outcome {
    Outcome::Stopped { attempts, maybe_delivered: false, already }
}

/// Brings a timer into flight and stops it.
async fn stopped_in_flight(scene: &Scene<'_>, text: &str) -> Firing {
    let (_, firing) = scene.bring(text, State::InFlight).await;
    assert_eq!(scene.apply(stop_op(text)).await, stopped(1, false));
    let view = scene.view(text).await;
    assert_eq!((view.state, view.stopped), (State::InFlight, true), "{text}");
    firing.expect("an in-flight timer has a lease")
}

/// Checks that a stopped timer is cancelled and never fires again.
async fn check_cancelled(scene: &Scene<'_>, text: &str, attempts: u32, maybe_delivered: bool) {
    let already = Outcome::Cancelled { attempts, maybe_delivered, already: true };
    assert_eq!(scene.apply(cancel_op(text)).await, already, "{text}");
    assert_eq!(scene.apply(stop_op(text)).await, already, "{text}");
    assert_eq!(scene.state(text).await, Some(State::Cancelled), "{text}");
    scene.advance(secs(200)).await;
    assert!(scene.claim().await.is_empty(), "{text}: no attempt follows");
}

pub(super) async fn p4_a_stopped_attempt_that_fails_ends_cancelled(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (text, verdict, attempts, maybe_delivered) in [
        ("retry", retry_in(secs(1)), 1, false),
        ("unknown", failed(Wait::Policy, AttemptOutcome::TimedOut), 1, true),
        ("dead", dead(), 1, false),
        ("release", SettleVerdict::Release, 0, false),
        ("snooze", SettleVerdict::Snooze { after: secs(1) }, 1, false),
    ] {
        let firing = stopped_in_flight(&scene, text).await;
        assert_eq!(
            scene.settle(&firing, verdict.clone()).await,
            SettleOutcome::Cancelled,
            "{text}"
        );
        // A release is remembered only while the timer lives.
        let is_snooze = matches!(verdict, SettleVerdict::Snooze { .. });
        let again = match verdict {
            SettleVerdict::Release | SettleVerdict::Snooze { .. } => SettleOutcome::LeaseLost,
            _ => SettleOutcome::AlreadySettled,
        };
        assert_eq!(scene.settle(&firing, verdict).await, again, "{text}");
        check_cancelled(&scene, text, attempts, maybe_delivered).await;
        let Body::Tombstone(tombstone) = scene.view(text).await.body else { panic!("{text}") };
        let uncounted = tombstone.details.map(|details| details.uncounted);
        assert_eq!(uncounted, Some(u32::from(is_snooze)), "{text}");
    }
    let stats = scene.stats().await;
    assert_eq!((stats.totals.cancelled, stats.totals.dead, stats.pending()), (5, 0, 0));
    CaseResult::Whole
}

pub(super) async fn p4_the_last_attempt_of_a_stopped_timer_is_no_dead_letter(
    harness: &dyn Harness,
) -> CaseResult {
    let twice = RetryPolicy::Delays(vec![secs(1)]);
    let scene = Scene::with(harness, Settings { retry: twice, ..settings() }).await;
    let (_, first) = scene.bring("a", State::InFlight).await;
    scene.settled(&first.expect("an in-flight timer has a lease"), retry_in(secs(0))).await;
    let last = scene.claim_one().await;
    assert_eq!(scene.apply(stop_op("a")).await, stopped(2, false));
    assert_eq!(scene.settle(&last, retry_in(secs(1))).await, SettleOutcome::Cancelled);
    check_cancelled(&scene, "a", 2, false).await;
    assert_eq!(scene.stats().await.dead, 0);
    CaseResult::Whole
}

pub(super) async fn p4_a_stop_is_too_late_for_an_attempt_that_succeeds(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let firing = stopped_in_flight(&scene, "a").await;
    scene.settled(&firing, SettleVerdict::Ack).await;
    assert_eq!(scene.state("a").await, Some(State::Finished));
    assert_eq!(code(scene.apply(stop_op("a")).await), "finished");
    CaseResult::Whole
}

pub(super) async fn p4_a_stopped_timer_is_cancelled_when_its_lease_ends(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let firing = stopped_in_flight(&scene, "a").await;
    scene.advance(secs(31)).await;
    assert_eq!(scene.settle(&firing, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    check_cancelled(&scene, "a", 1, true).await;

    scene.create_in("b", secs(0)).await;
    assert_eq!(scene.claim_for_node().await.len(), 1);
    assert_eq!(scene.apply(stop_op("b")).await, stopped(1, false));
    let ended = scene.store().release_owner(SHARD, NODE).await.expect("its leases end");
    assert_eq!(ended, 1);
    check_cancelled(&scene, "b", 1, true).await;
    CaseResult::Whole
}

pub(super) async fn p4_p8_an_extension_keeps_the_stop(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let firing = stopped_in_flight(&scene, "a").await;
    let until = scene.view("a").await.leased_until;
    assert_eq!(until, firing.leased_until, "a stop does not move the end of the lease");
    scene.advance(secs(20)).await;
    scene.settled(&firing, SettleVerdict::Extend { lease: secs(30) }).await;
    scene.advance(secs(20)).await;
    let view = scene.view("a").await;
    assert_eq!((view.state, view.stopped), (State::InFlight, true));
    assert_eq!(scene.settle(&firing, retry_in(secs(1))).await, SettleOutcome::Cancelled);
    check_cancelled(&scene, "a", 1, false).await;
    CaseResult::Whole
}

pub(super) async fn p4_a_stop_can_be_repeated_and_checks_what_it_names(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let of = |if_revision, seen| Operation::CancelOrStop { id: id("a"), if_revision, seen };
    scene.bring("a", State::InFlight).await;
    let view = scene.view("a").await;
    let timer = view.timer().expect("it is pending");
    let (incarnation, revision) = (timer.incarnation, timer.revision);
    let seen = Seen { incarnation, revision, state: None };
    let other = Seen { revision: revision + 1, ..seen };
    assert_eq!(code(scene.apply(of(Some(2), None)).await), "revision_mismatch");
    assert_eq!(code(scene.apply(of(None, Some(other))).await), "not_found");
    assert!(!scene.view("a").await.stopped, "a refused stop changes nothing");
    assert_eq!(scene.apply(of(Some(1), Some(seen))).await, stopped(1, false));
    assert_eq!(scene.apply(of(Some(1), Some(seen))).await, stopped(1, true));
    assert_eq!(code(scene.apply(cancel_op("a")).await), "in_flight");
    assert_eq!(scene.view("a").await.revision(), Some(1), "the timer itself is unchanged");
    CaseResult::Whole
}

pub(super) async fn p4_a_stop_of_a_timer_out_of_flight_is_a_cancel(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (text, state, attempts) in [
        ("scheduled", State::Scheduled, 0),
        ("due", State::Due, 0),
        ("retrying", State::Retrying, 1),
    ] {
        scene.bring(text, state).await;
        let cancelled = Outcome::Cancelled { attempts, maybe_delivered: false, already: false };
        assert_eq!(scene.apply(stop_op(text)).await, cancelled, "{text}");
    }
    scene.bring("dead", State::Dead).await;
    assert_eq!(code(scene.apply(stop_op("dead")).await), "dead");
    assert_eq!(code(scene.apply(stop_op("unknown")).await), "not_found");
    CaseResult::Whole
}

pub(super) async fn p1_p4_a_stop_survives_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    stopped_in_flight(&scene, "consumer").await;
    scene.create_in("node", secs(0)).await;
    assert_eq!(scene.claim_for_node().await.len(), 1);
    assert_eq!(scene.apply(stop_op("node")).await, stopped(1, false));
    if !scene.restart(Restart::Kill).await {
        return CaseResult::NotDurable;
    }
    if scene.state("node").await == Some(State::InFlight) {
        // A shared store keeps the leases of its nodes.
        scene.store().release_owner(SHARD, NODE).await.expect("its leases end");
    }
    check_cancelled(&scene, "node", 1, true).await;
    // The lease of the consumer was over by then.
    check_cancelled(&scene, "consumer", 1, true).await;
    CaseResult::Whole
}
