//! Compares the effects of verdicts with a table written by hand. The invariants of `operate/tests` check
//! the results.

use super::*;
use crate::{
    Incarnation, NamespaceName, RetryPolicy, Schedule, Settings, TimerId,
    operate::{Now, Usage},
    schedule::When,
};

const NOW_MS: u64 = 1_900_000_000_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::saturating_from_unix_ms(ms)
}

/// A due timer in its first attempt, or in its second and last one.
fn leased(attempts: u32, expire_after: Option<u64>) -> Box<Timer> {
    let id = TimerId::new("a").unwrap();
    let mut schedule = Schedule::new(id, When::At(at(NOW_MS - 1_000)));
    schedule.spec.expire_after = expire_after.map(Millis::from_ms);
    let mut timer = Timer::new(schedule, at(NOW_MS - 2_000), Incarnation(7)).unwrap();
    timer.attempts = attempts;
    Box::new(timer)
}

fn held(attempts: u32, ends: bool) -> HeldLease {
    let (nonce, attempt) = (5, attempts + 1);
    HeldLease {
        nonce,
        attempt,
        claimed_at: at(NOW_MS - 10),
        held_for: Duration::from_secs(60),
        ends,
        stopped: false,
    }
}

fn retry(wait: Wait) -> SettleVerdict {
    SettleVerdict::Retry { wait, outcome: AttemptOutcome::Failed, reason: "busy".into() }
}

fn with_context<T>(decide: impl FnOnce(&Context<'_>) -> T) -> T {
    // Two attempts, 100 ms apart.
    let retry = RetryPolicy::Delays(vec![Millis::from_ms(100)]);
    let settings = Settings { retry, ..Settings::default() };
    let namespace = NamespaceName::new("n").unwrap();
    decide(&Context {
        namespace: &namespace,
        settings: &settings,
        usage: Usage::default(),
        now: Now { wall: at(NOW_MS), steady: at(NOW_MS + 7) },
        random: 0,
    })
}

/// The remains of a firing, as one line.
fn left(effect: Option<Effect>) -> String {
    match effect {
        None => "-".to_owned(),
        Some(Effect::Put(cause, timer)) => {
            let wait = timer.next_attempt_at.map(|at| at.unix_ms() - NOW_MS);
            format!("live {cause:?} attempts {} next {wait:?}", timer.attempts)
        }
        Some(Effect::End(tombstone)) => {
            format!("{} attempts {}", tombstone.ended.state(), tombstone.attempts)
        }
        Some(Effect::DeadLetter(cause, timer)) => {
            let reason = timer.dead_letter.unwrap().reason.as_str();
            format!("dead {cause:?} {reason} attempts {}", timer.attempts)
        }
        Some(Effect::Purge) => "purge".to_owned(),
        Some(Effect::Forget) => "forget".to_owned(),
        Some(Effect::Extend(lease)) => format!("leased {lease}"),
        Some(Effect::Stop(_)) => "stopped".to_owned(),
    }
}

#[test]
fn every_verdict_matches_the_contract() {
    let dead = || SettleVerdict::Dead { reason: "never".into() };
    let extend = |lease| SettleVerdict::Extend { lease };
    let snooze = |after| SettleVerdict::Snooze { after };
    let (ok, spent) = (SettleOutcome::Ok, SettleOutcome::Dead);
    let (minute, day) = (Millis::from_secs(60), Millis::from_secs(86_400));
    let expired = Some(999);
    for (attempts, expire_after, ends, verdict, expected, outcome) in [
        (0, None, true, SettleVerdict::Ack, "finished attempts 1", ok),
        // A firing that was claimed before it expired is delivered.
        (1, expired, false, SettleVerdict::Ack, "finished attempts 2", ok),
        (0, None, true, retry(Wait::Policy), "live AttemptFailed attempts 1 next Some(107)", ok),
        (0, None, true, retry(Wait::None), "live AttemptFailed attempts 1 next Some(7)", ok),
        (
            0,
            None,
            true,
            retry(Wait::AtLeast(minute)),
            "live AttemptFailed attempts 1 next Some(60007)",
            ok,
        ),
        (
            0,
            None,
            true,
            retry(Wait::Exactly(minute)),
            "live AttemptFailed attempts 1 next Some(60007)",
            ok,
        ),
        // No wait is longer than the longest backoff.
        (
            0,
            None,
            true,
            retry(Wait::Exactly(Millis::MAX)),
            "live AttemptFailed attempts 1 next Some(2592000007)",
            ok,
        ),
        (
            1,
            None,
            true,
            retry(Wait::Exactly(minute)),
            "dead AttemptFailed attempts_spent attempts 2",
            spent,
        ),
        (0, expired, true, retry(Wait::None), "dead AttemptFailed expired attempts 1", ok),
        (0, None, false, dead(), "dead AttemptFailed rejected attempts 1", ok),
        (1, None, true, SettleVerdict::Release, "live Released attempts 1 next None", ok),
        // The last attempt is put off, and is still left.
        (1, None, true, snooze(minute), "live Released attempts 2 next Some(60007)", ok),
        (0, None, true, snooze(Millis::MAX), "live Released attempts 1 next Some(2592000007)", ok),
        (0, expired, true, snooze(minute), "dead Expired expired attempts 1", ok),
        (0, None, true, extend(minute), "leased 1m", ok),
        // At most 12 hours after the claim.
        (0, None, true, extend(day), "leased 11h59m", ok),
        (0, None, false, extend(minute), "-", ok),
    ] {
        let timer = leased(attempts, expire_after);
        let settled =
            with_context(|context| settle(timer, &held(attempts, ends), &verdict, context));
        let token = match &settled.0 {
            Some(Effect::Put(_, timer) | Effect::DeadLetter(_, timer)) => timer.last_settled,
            Some(Effect::End(tombstone)) => tombstone.settled(),
            _ => None,
        };
        let expected_token = verdict.ending().map(|verdict| SettledToken { nonce: 5, verdict });
        assert_eq!(token, expected_token, "it is remembered: {verdict:?}");
        assert_eq!((left(settled.0).as_str(), settled.1), (expected, outcome), "{verdict:?}");
    }
}

#[test]
fn p4_a_stopped_timer_is_cancelled_unless_its_attempt_succeeds() {
    let (ok, cancelled) = (SettleOutcome::Ok, SettleOutcome::Cancelled);
    let dead = SettleVerdict::Dead { reason: "never".into() };
    let minute = SettleVerdict::Extend { lease: Millis::from_secs(60) };
    for (attempts, verdict, expected, outcome) in [
        (0, SettleVerdict::Ack, "finished attempts 1", ok),
        (0, minute, "leased 1m", ok),
        (0, retry(Wait::Policy), "cancelled attempts 1", cancelled),
        // Without the order the last attempt would make a dead letter.
        (1, retry(Wait::None), "cancelled attempts 2", cancelled),
        (0, dead, "cancelled attempts 1", cancelled),
        // The attempt does not count.
        (0, SettleVerdict::Release, "cancelled attempts 0", cancelled),
        // It was made, though its receiver put it off.
        (0, SettleVerdict::Snooze { after: Millis::ZERO }, "cancelled attempts 1", cancelled),
    ] {
        let stopped = HeldLease { stopped: true, ..held(attempts, true) };
        let timer = leased(attempts, None);
        let (effect, settled) = with_context(|context| settle(timer, &stopped, &verdict, context));
        if let Some(Effect::End(tombstone)) = &effect {
            let token = verdict.ending().map(|verdict| SettledToken { nonce: 5, verdict });
            let token = token.filter(|token| token.verdict != Verdict::Release);
            assert_eq!(tombstone.settled(), token, "{verdict:?}");
            let uncounted = u32::from(matches!(verdict, SettleVerdict::Snooze { .. }));
            let details = tombstone.details.as_ref().unwrap();
            assert_eq!(details.uncounted, uncounted, "{verdict:?}");
        }
        assert_eq!((left(effect).as_str(), settled), (expected, outcome), "{verdict:?}");
    }
    let stopped = HeldLease { stopped: true, ..held(0, false) };
    let lost = with_context(|context| {
        lose_lease(leased(0, None), &stopped, LeaseLoss::NodeGone, at(NOW_MS), context)
    });
    let Effect::End(tombstone) = &lost else { panic!("it has ended: {lost:?}") };
    assert!(tombstone.maybe_delivered);
    assert_eq!(left(Some(lost)), "cancelled attempts 1");
}

#[test]
fn p4_a_lost_lease_counts_and_may_have_been_delivered() {
    for (attempts, expected) in [
        (0, "live AttemptFailed attempts 1 next Some(3)"),
        (1, "dead AttemptFailed attempts_spent attempts 2"),
    ] {
        let effect = with_context(|context| {
            let since = at(NOW_MS + 3);
            lose_lease(
                leased(attempts, None),
                &held(attempts, true),
                LeaseLoss::Ended,
                since,
                context,
            )
        });
        let (Effect::Put(_, timer) | Effect::DeadLetter(_, timer)) = &effect else {
            panic!("it stays: {effect:?}")
        };
        assert!(timer.maybe_delivered);
        assert_eq!(timer.history.last().unwrap().reason, "the lease ended before a verdict");
        assert_eq!(left(Some(effect)), expected);
    }
}

#[test]
fn a_firing_expires_strictly_after_its_time() {
    for (expire_after, expected) in [
        (999, Ok("dead Expired expired attempts 0".to_owned())),
        (1_000, Err(())),
        (5_000, Err(())),
    ] {
        let timer = leased(0, Some(expire_after));
        let effect = with_context(|context| expire(timer, context));
        assert_eq!(effect.map(|effect| left(Some(effect))).map_err(drop), expected);
    }
    let kept = with_context(|context| expire(leased(0, None), context)).unwrap_err();
    assert_eq!(*kept, *leased(0, None), "the timer comes back as it was");
}

#[test]
fn p8_the_same_verdict_again_is_recognised_and_no_other() {
    let known = |nonce, verdict| Some(SettledToken { nonce, verdict });
    let ack = || [None, known(5, Verdict::Ack), known(6, Verdict::Retry)];
    assert_eq!(settled_before(ack(), 5, &SettleVerdict::Ack), SettleOutcome::AlreadySettled);
    assert_eq!(settled_before(ack(), 6, &retry(Wait::None)), SettleOutcome::AlreadySettled);
    for (nonce, verdict) in [
        (6, SettleVerdict::Ack),
        (5, SettleVerdict::Release),
        (7, SettleVerdict::Ack),
        (5, SettleVerdict::Extend { lease: Millis::from_secs(60) }),
    ] {
        assert_eq!(settled_before(ack(), nonce, &verdict), SettleOutcome::LeaseLost, "{verdict:?}");
    }
    // A timer that was cancelled before a failed attempt keeps no tokens.
    let mut timer = leased(0, None);
    timer.last_settled = known(5, Verdict::Retry);
    assert_eq!(Tombstone::of(&timer, Ended::Cancelled, at(NOW_MS)).settled(), None);
    assert_eq!(Tombstone::of(&timer, Ended::Finished, at(NOW_MS)).settled(), timer.last_settled);
}
