//! Settlements: only the holder of the lease can settle, and a repeated verdict does no harm (P3, P8).

use duly_core::{
    Millis, RetryPolicy, Settings, State,
    timer::{AttemptOutcome, DeadLetterReason, Wait},
};

use super::{
    CaseResult, Harness,
    scene::{SHARD, Scene, dead, failed, ms, name, retry_in, secs, settings, timer},
};
use crate::{SettleOutcome, SettleVerdict, Settlement, Token, query::Body};

fn extend(lease: Millis) -> SettleVerdict {
    SettleVerdict::Extend { lease }
}

/// Returns one of every verdict that ends a lease, with the state that it leads to.
fn verdicts() -> [(SettleVerdict, State); 4] {
    [
        (SettleVerdict::Ack, State::Finished),
        (retry_in(secs(60)), State::Retrying),
        (dead(), State::Dead),
        (SettleVerdict::Release, State::Due),
    ]
}

pub(super) async fn p3_each_verdict_leads_to_its_state(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (i, (verdict, state)) in verdicts().into_iter().enumerate() {
        let scene = scene.other(&format!("n{i}"), settings()).await;
        let (_, firing) = scene.bring("a", State::InFlight).await;
        let firing = firing.expect("an in-flight timer has a lease");
        assert_eq!(scene.settle(&firing, verdict).await, SettleOutcome::Ok, "{state}");
        assert_eq!(scene.state("a").await, Some(state));
    }
    CaseResult::Whole
}

pub(super) async fn p8_the_same_verdict_again_is_recognised(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (i, (verdict, state)) in verdicts().into_iter().enumerate() {
        let scene = scene.other(&format!("n{i}"), settings()).await;
        let (_, firing) = scene.bring("a", State::InFlight).await;
        let firing = firing.expect("an in-flight timer has a lease");
        scene.settled(&firing, verdict.clone()).await;
        let before = scene.view("a").await;
        for (other, _) in verdicts() {
            let expected = if other == verdict {
                SettleOutcome::AlreadySettled
            } else {
                SettleOutcome::LeaseLost
            };
            assert_eq!(scene.settle(&firing, other.clone()).await, expected, "{state}, {other:?}");
        }
        assert_eq!(scene.settle(&firing, extend(secs(30))).await, SettleOutcome::LeaseLost);
        assert_eq!(scene.view("a").await, before, "{state}: nothing changed");
        let totals = scene.stats().await.totals;
        assert!(totals.delivered + totals.failed + totals.dead <= 2, "{totals:?}");
    }
    CaseResult::Whole
}

pub(super) async fn p8_a_stale_token_changes_nothing(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    for (i, (verdict, _)) in verdicts().into_iter().enumerate() {
        let scene = scene.other(&format!("n{i}"), settings()).await;
        let (_, stale) = scene.bring("a", State::InFlight).await;
        let stale = stale.expect("an in-flight timer has a lease");
        scene.advance(secs(30)).await;
        let fresh = scene.claim_one().await;
        assert_eq!((stale.attempt, fresh.attempt), (1, 2));
        let before = scene.view("a").await;
        assert_eq!(scene.settle(&stale, verdict).await, SettleOutcome::LeaseLost);
        assert_eq!(scene.settle(&stale, extend(secs(60))).await, SettleOutcome::LeaseLost);
        assert_eq!(scene.view("a").await, before);
        scene.settled(&fresh, SettleVerdict::Ack).await;
        assert_eq!(scene.stats().await.totals.delivered, 1);
    }
    CaseResult::Whole
}

pub(super) async fn p8_a_token_of_an_earlier_timer_is_stale(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, stale) = scene.bring("a", State::InFlight).await;
    let stale = stale.expect("an in-flight timer has a lease");
    scene.settled(&stale, SettleVerdict::Release).await;
    scene.apply(super::scene::cancel_op("a")).await;
    scene.create_in("a", Millis::ZERO).await;
    let fresh = scene.claim_one().await;
    assert_eq!(scene.settle(&stale, SettleVerdict::Ack).await, SettleOutcome::LeaseLost);
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    scene.settled(&fresh, SettleVerdict::Ack).await;
    CaseResult::Whole
}

pub(super) async fn p8_no_token_of_this_store_or_namespace(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, firing) = scene.bring("a", State::InFlight).await;
    let firing = firing.expect("an in-flight timer has a lease");
    let longest = vec![0x5a; 200];
    for own in [&[0][..], &[1; 7], &[2; 16], &[3; 24], &[4; 64], &longest] {
        let settlements = vec![(Token::new(SHARD, own), SettleVerdict::Ack)];
        assert_eq!(scene.settle_all(settlements).await, [SettleOutcome::InvalidToken], "{own:?}");
    }
    let bytes = firing.token.own().to_vec();
    for at in 0..bytes.len() {
        let mut forged = bytes.clone();
        forged[at] ^= 1;
        let settlements = vec![(Token::new(SHARD, &forged), SettleVerdict::Ack)];
        let outcome = scene.settle_all(settlements).await[0];
        let refused = [SettleOutcome::InvalidToken, SettleOutcome::LeaseLost].contains(&outcome);
        assert!(refused, "a token with byte {at} changed was taken: {outcome:?}");
    }
    scene.other("bank", settings()).await;
    let elsewhere = Settlement {
        token: firing.token.clone(),
        namespace: Some(name("bank")),
        verdict: SettleVerdict::Ack,
    };
    let outcomes = scene.store().settle(SHARD, vec![elsewhere]).await;
    assert_eq!(outcomes, Ok(vec![SettleOutcome::InvalidToken]));
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    let anywhere = Settlement {
        token: Token::parse(&firing.token.to_string()).expect("its own text form"),
        namespace: None,
        verdict: SettleVerdict::Ack,
    };
    let outcomes = scene.store().settle(SHARD, vec![anywhere]).await;
    assert_eq!(outcomes, Ok(vec![SettleOutcome::Ok]), "the token alone is enough");
    CaseResult::Whole
}

pub(super) async fn p3_retry_waits_follow_the_verdict(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let cases = [
        (Wait::Policy, secs(1)),
        (Wait::AtLeast(ms(500)), secs(1)),
        (Wait::AtLeast(secs(90)), secs(90)),
        (Wait::Exactly(ms(250)), ms(250)),
        (Wait::None, Millis::ZERO),
    ];
    for (i, (wait, expected)) in cases.into_iter().enumerate() {
        let scene = scene.other(&format!("n{i}"), settings()).await;
        scene.create_in("a", Millis::ZERO).await;
        let firing = scene.claim_one().await;
        scene.advance(secs(2)).await;
        scene.settled(&firing, failed(wait, AttemptOutcome::Failed)).await;
        let view = scene.view("a").await;
        let next = view.timer().and_then(|timer| timer.next_attempt_at);
        assert_eq!(
            next,
            Some(scene.now().saturating_add(expected)),
            "{wait:?}, from the verdict on"
        );
    }
    CaseResult::Whole
}

pub(super) async fn p3_the_last_attempt_leads_to_a_dead_letter(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    for (attempt, wait) in [(1, 1), (2, 10), (3, 100)] {
        let firing = scene.claim_one().await;
        assert_eq!(firing.attempt, attempt);
        scene.settled(&firing, failed(Wait::Policy, AttemptOutcome::Failed)).await;
        scene.advance(secs(wait)).await;
    }
    let last = scene.claim_one().await;
    let verdict = failed(Wait::Exactly(secs(5)), AttemptOutcome::TimedOut);
    assert_eq!(scene.settle(&last, verdict.clone()).await, SettleOutcome::Dead);
    assert_eq!(scene.settle(&last, verdict).await, SettleOutcome::AlreadySettled);
    let view = scene.view("a").await;
    let letter = view.timer().expect("a dead letter is whole");
    assert_eq!((view.state, letter.attempts, letter.maybe_delivered), (State::Dead, 4, true));
    assert_eq!(
        letter.dead_letter.map(|dead_letter| dead_letter.reason.as_str()),
        Some("attempts_spent")
    );
    let history: Vec<u32> = letter.history.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!(history, [1, 2, 3, 4]);
    assert_eq!(letter.last_error(), Some("status 503"));
    scene.advance(secs(3_600)).await;
    assert!(scene.claim().await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p3_tombstone_keeps_the_attempt_history(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let fired_at = scene.now();
    scene.settled(&scene.claim_one().await, retry_in(secs(5))).await;
    scene.advance(secs(5)).await;
    let claimed_at = scene.now();
    let firing = scene.claim_one().await;
    scene.advance(secs(1)).await;
    scene.settled(&firing, SettleVerdict::Ack).await;
    let view = scene.view("a").await;
    let Body::Tombstone(tombstone) = &view.body else {
        panic!("a finished timer is a tombstone: {view:?}");
    };
    assert_eq!(
        (tombstone.ended_at, tombstone.attempts, tombstone.maybe_delivered),
        (scene.now(), 2, false)
    );
    let details = tombstone.details.as_ref().expect("a finished timer keeps its details");
    assert_eq!((details.revision, details.fired_at), (1, Some(fired_at)));
    let story: Vec<_> = details.history.iter().map(|a| (a.attempt, a.at, a.outcome)).collect();
    let failed = (1, fired_at, AttemptOutcome::Failed);
    assert_eq!(story, [failed, (2, claimed_at, AttemptOutcome::Delivered)]);
    CaseResult::Whole
}

pub(super) async fn p3_release_counts_no_attempt(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let first = scene.claim_one().await;
    scene.settled(&first, SettleVerdict::Release).await;
    let second = scene.claim_one().await;
    assert_eq!((second.attempt, second.delivery_id), (1, first.delivery_id));
    assert_ne!(second.token, first.token);
    scene.settled(&second, retry_in(Millis::ZERO)).await;
    let third = scene.claim_one().await;
    scene.settled(&third, SettleVerdict::Release).await;
    let view = scene.view("a").await;
    assert_eq!((view.state, view.attempts(), view.maybe_delivered()), (State::Retrying, 1, false));
    assert_eq!(scene.claim_one().await.attempt, 2);
    assert_eq!(scene.stats().await.totals.fired, 4, "each claim was a firing handed out");
    CaseResult::Whole
}

pub(super) async fn p3_a_snooze_uses_up_no_attempt(harness: &dyn Harness) -> CaseResult {
    let retry = RetryPolicy::Delays(vec![secs(1)]);
    let scene = Scene::with(harness, Settings { retry, ..settings() }).await;
    scene.create_in("a", Millis::ZERO).await;
    let snooze = || SettleVerdict::Snooze { after: secs(10) };
    for attempt in 1..=5 {
        let firing = scene.claim_one().await;
        assert_eq!(firing.attempt, attempt, "each attempt has a number of its own");
        scene.settled(&firing, snooze()).await;
        assert_eq!(scene.settle(&firing, snooze()).await, SettleOutcome::AlreadySettled);
        let view = scene.view("a").await;
        assert_eq!((view.state, view.maybe_delivered()), (State::Retrying, false));
        scene.advance(ms(9_999)).await;
        assert!(scene.claim().await.is_empty(), "it waits for all of the time");
        scene.advance(ms(1)).await;
    }
    // The policy allows two attempts, and both are left.
    for (attempt, state) in [(6, State::Retrying), (7, State::Dead)] {
        let firing = scene.claim_one().await;
        assert_eq!(firing.attempt, attempt);
        scene.settle(&firing, retry_in(Millis::ZERO)).await;
        assert_eq!(scene.state("a").await, Some(state));
    }
    let totals = scene.stats().await.totals;
    assert_eq!((totals.fired, totals.failed, totals.dead), (7, 2, 1));
    CaseResult::Whole
}

pub(super) async fn p3_a_snooze_ends_with_expire_after(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut asked = timer("a", scene.at(Millis::ZERO));
    asked.spec.expire_after = Some(secs(15));
    scene.create(asked).await;
    let snooze = || SettleVerdict::Snooze { after: secs(10) };
    scene.settled(&scene.claim_one().await, snooze()).await;
    scene.advance(secs(10)).await;
    scene.settled(&scene.claim_one().await, snooze()).await;
    scene.advance(secs(6)).await;
    assert!(scene.claim().await.is_empty());
    let view = scene.view("a").await;
    let reason = view.timer().and_then(|timer| timer.dead_letter).map(|letter| letter.reason);
    assert_eq!((view.state, reason), (State::Dead, Some(DeadLetterReason::Expired)));
    CaseResult::Whole
}

pub(super) async fn p8_extend_lasts_from_now_to_twelve_hours_after_the_claim(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let claimed_at = scene.now();
    let firing = scene.claim_one().await;
    scene.advance(secs(20)).await;
    scene.settled(&firing, extend(secs(30))).await;
    let until = scene.view("a").await.leased_until;
    assert_eq!(until, Some(scene.now().saturating_add(secs(30))));
    scene.advance(secs(29)).await;
    assert_eq!(scene.state("a").await, Some(State::InFlight), "past the first end");
    let half_a_day = secs(12 * 3_600);
    scene.settled(&firing, extend(half_a_day)).await;
    let until = scene.view("a").await.leased_until;
    assert_eq!(until, Some(claimed_at.saturating_add(half_a_day)), "capped");
    scene.advance(ms(half_a_day.ms() - 49_001)).await;
    assert_eq!(scene.state("a").await, Some(State::InFlight));
    scene.advance(ms(1)).await;
    assert_eq!(scene.settle(&firing, extend(secs(30))).await, SettleOutcome::LeaseLost);
    assert_eq!(scene.claim_one().await.attempt, 2);
    CaseResult::Whole
}

pub(super) async fn p8_an_extension_does_not_ask_the_wall_clock(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, firing) = scene.bring("a", State::InFlight).await;
    let firing = firing.expect("an in-flight timer has a lease");
    if harness.step_wall(13 * 3_600_000).is_none() {
        return CaseResult::NoClockSteps;
    }
    for _ in 0..2 {
        scene.settled(&firing, extend(secs(60))).await;
        scene.advance(secs(50)).await;
        assert!(scene.claim().await.is_empty(), "the lease is running");
    }
    scene.settled(&firing, SettleVerdict::Ack).await;
    CaseResult::Whole
}

pub(super) async fn p10_an_extension_not_allowed_refuses_the_whole_call(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    scene.create_in("b", Millis::ZERO).await;
    let firings = scene.claim().await;
    for lease in [ms(999), secs(12 * 3_600 + 1)] {
        let settlements = [SettleVerdict::Ack, extend(lease)].into_iter().zip(&firings);
        let settlements = settlements.map(|(verdict, firing)| Settlement {
            token: firing.token.clone(),
            namespace: None,
            verdict,
        });
        let answer = scene.store().settle(SHARD, settlements.collect()).await;
        let error = answer.expect_err("the length is not allowed");
        assert_eq!(error.code().as_str(), "invalid_argument");
    }
    assert_eq!(scene.stats().await.in_flight, 2, "nothing was done");
    let verdicts = firings.iter().map(|firing| (firing.token.clone(), SettleVerdict::Ack));
    assert_eq!(scene.settle_all(verdicts.collect()).await, [SettleOutcome::Ok; 2]);
    CaseResult::Whole
}

pub(super) async fn p8_verdicts_of_one_call_are_taken_in_order(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let firing = scene.claim_one().await;
    let token = || firing.token.clone();
    let outcomes = scene
        .settle_all(vec![
            (token(), extend(secs(60))),
            (Token::new(SHARD, &[9; 16]), SettleVerdict::Ack),
            (token(), SettleVerdict::Ack),
            (token(), SettleVerdict::Ack),
            (token(), dead()),
        ])
        .await;
    use SettleOutcome::{AlreadySettled, InvalidToken, LeaseLost, Ok};
    assert_eq!(outcomes, [Ok, InvalidToken, Ok, AlreadySettled, LeaseLost]);
    CaseResult::Whole
}
