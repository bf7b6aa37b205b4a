//! All allowed times (P12), and steps of the clocks (T24).

use duly_core::{
    Millis, State, Timestamp,
    schedule::{IfExists, Patch, When},
};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, id, ms, patch_op, refused, retry_in, schedule_op, secs, timer},
};
use crate::{Outcome, Refusal, SettleOutcome, SettleVerdict, command::DeadLetterId};

const HOUR_MS: i64 = 3_600_000;

pub(super) async fn p12_the_past_is_due_at_once(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut times = vec![Timestamp::MIN, Timestamp::saturating_from_unix_ms(1), scene.now()];
    for (i, due_at) in times.iter().enumerate() {
        let view = scene.create(timer(&format!("t{i}"), When::At(*due_at))).await;
        assert_eq!((view.state, view.due_at()), (State::Due, *due_at));
    }
    let firings = scene.claim().await;
    times.sort();
    let due: Vec<_> = firings.iter().map(|firing| firing.due_at).collect();
    assert_eq!(due, times, "with their own due times, in order");
    CaseResult::Whole
}

pub(super) async fn p12_t2_the_farthest_times_are_kept_exactly(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let start = scene.now();
    let far = [
        1_u64 << 31,
        1 << 32,
        (1 << 31) * 1_000,
        (1 << 32) * 1_000,
        Timestamp::MAX.unix_ms() - start.unix_ms(),
    ];
    for (i, delay) in far.into_iter().enumerate() {
        let view = scene.create(timer(&format!("t{i}"), When::After(ms(delay)))).await;
        assert_eq!(view.due_at().unix_ms(), start.unix_ms() + delay, "{delay} ms");
        assert_eq!(view.state, State::Scheduled);
    }
    scene.advance(ms((1 << 31) - 1)).await;
    assert!(scene.claim().await.is_empty());
    for (i, wait) in [1, 1_u64 << 31].into_iter().enumerate() {
        scene.advance(ms(wait)).await;
        let firing = scene.claim_one().await;
        assert_eq!(firing.id, id(&format!("t{i}")));
        scene.settled(&firing, SettleVerdict::Ack).await;
    }
    assert_eq!(scene.stats().await.scheduled, 3, "the others still wait");
    CaseResult::Whole
}

pub(super) async fn p12_t2_an_impossible_delay_is_refused(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(60)).await;
    let left = Timestamp::MAX.unix_ms() - scene.now().unix_ms();
    for delay in [left + 1, i64::MAX as u64, u64::MAX] {
        let when = When::After(ms(delay));
        let schedule = schedule_op(timer("b", when), IfExists::Fail);
        let patch = patch_op("a", Patch { when: Some(when), ..Patch::default() });
        for operation in [schedule, patch] {
            let refusal = refused(scene.apply(operation).await);
            let Refusal::Invalid(invalid) = refusal else {
                panic!("expected an invalid value, got {refusal:?}");
            };
            assert_eq!(invalid.field, "delay");
        }
    }
    assert_eq!(scene.get("b").await, None);
    assert_eq!(scene.view("a").await.revision(), Some(1), "unchanged");
    scene.bring("d", State::Dead).await;
    let refusal = refused(scene.redrive(DeadLetterId::Timer(id("d")), Millis::MAX).await);
    assert_eq!(refusal.code().as_str(), "invalid_argument");
    assert_eq!(scene.state("d").await, Some(State::Dead));
    CaseResult::Whole
}

pub(super) async fn p3_t17_t25_after_long_silence_everything_fires_in_order(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let days = [0_u64, 1, 3, 7, 30, 90, 365, 1_000];
    for day in days.iter().rev() {
        scene.create_in(&format!("day{day}"), secs(day * 86_400)).await;
    }
    scene.advance(secs(1_000 * 86_400)).await;
    let firings = scene.claim().await;
    let expected: Vec<String> = days.iter().map(|day| format!("day{day}")).collect();
    assert_eq!(super::scene::ids(&firings), expected);
    CaseResult::Whole
}

pub(super) async fn p2_t24_a_step_back_delays_and_never_fires_early(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", secs(10)).await;
    scene.advance(secs(9)).await;
    if harness.step_wall(-HOUR_MS).is_none() {
        return CaseResult::NoClockSteps;
    }
    scene.advance(secs(3_600)).await;
    assert!(scene.claim().await.is_empty(), "its time by the wall clock has not come");
    scene.advance(secs(1)).await;
    assert_eq!(scene.claim_one().await.due_at, scene.now());
    CaseResult::Whole
}

pub(super) async fn p2_t24_a_step_back_before_a_claim_takes_due_away(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    assert_eq!(scene.state("a").await, Some(State::Due));
    if harness.step_wall(-1).is_none() {
        return CaseResult::NoClockSteps;
    }
    assert_eq!(scene.state("a").await, Some(State::Scheduled));
    assert!(scene.claim().await.is_empty(), "no high-water mark: due is due now");
    scene.advance(ms(1)).await;
    assert_eq!(scene.claim_one().await.id, id("a"));
    CaseResult::Whole
}

pub(super) async fn p2_t24_a_step_forward_makes_due_at_once(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("hour", secs(3_600)).await;
    scene.create_in("day", secs(86_400)).await;
    if harness.step_wall(HOUR_MS).is_none() {
        return CaseResult::NoClockSteps;
    }
    let firing = scene.claim_one().await;
    assert_eq!(firing.id, id("hour"));
    scene.settled(&firing, SettleVerdict::Ack).await;
    harness.step_wall(-HOUR_MS);
    scene.advance(secs(86_399)).await;
    assert!(scene.claim().await.is_empty(), "forward and back again fires nothing early");
    scene.advance(secs(1)).await;
    assert_eq!(scene.claim_one().await.id, id("day"));
    CaseResult::Whole
}

pub(super) async fn p8_t24_steps_do_not_move_leases(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for step_ms in [24 * HOUR_MS, -48 * HOUR_MS] {
        scene.create_in("a", Millis::ZERO).await;
        let firing = scene.claim_one().await;
        if harness.step_wall(step_ms).is_none() {
            return CaseResult::NoClockSteps;
        }
        scene.advance(ms(29_999)).await;
        assert_eq!(scene.state("a").await, Some(State::InFlight), "{step_ms}");
        scene.advance(ms(1)).await;
        assert_eq!(scene.state("a").await, Some(State::Retrying), "{step_ms}");
        assert_eq!(scene.settle(&firing, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
        scene.apply(cancel_op("a")).await;
    }
    CaseResult::Whole
}

pub(super) async fn p2_t24_steps_do_not_move_retries(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create(timer("a", When::At(Timestamp::MIN))).await;
    for step_ms in [24 * HOUR_MS, -48 * HOUR_MS] {
        let firing = scene.claim_one().await;
        scene.settled(&firing, retry_in(secs(5))).await;
        if harness.step_wall(step_ms).is_none() {
            return CaseResult::NoClockSteps;
        }
        scene.advance(ms(4_999)).await;
        assert!(scene.claim().await.is_empty(), "{step_ms}: not hastened");
        scene.advance(ms(1)).await;
        assert_eq!(scene.state("a").await, Some(State::Retrying));
    }
    assert_eq!(scene.claim_one().await.attempt, 3, "not delayed either");
    CaseResult::Whole
}

pub(super) async fn p2_t24_a_retry_is_never_before_the_due_time(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    scene.settled(&scene.claim_one().await, retry_in(secs(5))).await;
    if harness.step_wall(-HOUR_MS).is_none() {
        return CaseResult::NoClockSteps;
    }
    scene.advance(secs(5)).await;
    assert!(scene.claim().await.is_empty(), "the due time lies ahead again");
    scene.advance(secs(3_595)).await;
    assert_eq!(scene.claim_one().await.attempt, 2);
    CaseResult::Whole
}

pub(super) async fn p5_t24_fire_works_after_a_step(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create(timer("a", When::At(Timestamp::MIN))).await;
    scene.settled(&scene.claim_one().await, retry_in(secs(3_600))).await;
    for step_ms in [24 * HOUR_MS, -48 * HOUR_MS] {
        if harness.step_wall(step_ms).is_none() {
            return CaseResult::NoClockSteps;
        }
        let outcome = scene.apply(super::scene::fire_op("a")).await;
        assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
        let firing = scene.claim_one().await;
        scene.settled(&firing, retry_in(secs(3_600))).await;
    }
    CaseResult::Whole
}
