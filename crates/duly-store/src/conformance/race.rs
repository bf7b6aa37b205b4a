//! Concurrent calls: their results agree with each other, in any order (T3).
//!
//! The calls of a case are polled together, so a store with its own threads may interleave them. Every round
//! uses a new timer, which is due at the time of the race.

use duly_core::{
    Millis, State,
    schedule::{Patch, When},
};
use futures::future::{join, join3};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, dead, id, patch_op, refused, retry_in, secs, stop_op},
};
use crate::{Outcome, SettleOutcome, SettleVerdict};

const ROUNDS: usize = 50;

pub(super) async fn p4_t3_a_cancel_that_races_a_claim_has_one_outcome(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for round in 0..ROUNDS {
        let text = format!("t{round}");
        scene.create_in(&text, Millis::ZERO).await;
        let cancel = scene.apply(cancel_op(&text));
        let (one, cancelled, two) = match round % 2 {
            0 => join3(scene.claim(), cancel, scene.claim()).await,
            _ => {
                let (cancelled, (one, two)) =
                    join(cancel, join(scene.claim(), scene.claim())).await;
                (one, cancelled, two)
            }
        };
        let granted = [one, two].concat();
        assert!(granted.len() <= 1, "{text} was granted twice");
        match cancelled {
            Outcome::Cancelled { attempts: 0, already: false, .. } => {
                assert!(granted.is_empty(), "{text} was cancelled, and granted");
                assert_eq!(scene.state(&text).await, Some(State::Cancelled));
            }
            other => {
                assert_eq!(refused(other).code().as_str(), "in_flight");
                assert_eq!(granted.len(), 1, "{text} is in flight, and nobody has it");
                scene.settled(&granted[0], SettleVerdict::Ack).await;
            }
        }
    }
    let totals = scene.stats().await.totals;
    assert_eq!(totals.cancelled + totals.delivered, ROUNDS as u64);
    CaseResult::Whole
}

pub(super) async fn p5_t3_a_change_that_races_a_claim_has_one_outcome(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for round in 0..ROUNDS {
        let text = format!("t{round}");
        scene.create_in(&text, Millis::ZERO).await;
        let patch = Patch { when: Some(When::After(secs(5))), ..Patch::default() };
        let change = scene.apply(patch_op(&text, patch));
        let (granted, changed) = match round % 2 {
            0 => join(scene.claim(), change).await,
            _ => {
                let (changed, granted) = join(change, scene.claim()).await;
                (granted, changed)
            }
        };
        match changed {
            Outcome::Changed(view) => {
                assert!(granted.is_empty(), "{text} was put off, and granted for the old time");
                assert_eq!(view.due_at(), scene.now().saturating_add(secs(5)));
                scene.advance(secs(5)).await;
                scene.settled(&scene.claim_one().await, SettleVerdict::Ack).await;
            }
            other => {
                assert_eq!(refused(other).code().as_str(), "in_flight");
                assert_eq!(granted.len(), 1, "{text} is in flight, and nobody has it");
                scene.settled(&granted[0], SettleVerdict::Ack).await;
            }
        }
    }
    assert_eq!(scene.stats().await.totals.delivered, ROUNDS as u64);
    CaseResult::Whole
}

pub(super) async fn p8_t3_two_verdicts_that_race_have_one_winner(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    for round in 0..ROUNDS {
        let text = format!("t{round}");
        scene.create_in(&text, Millis::ZERO).await;
        let firing = scene.claim_one().await;
        let (ack, give_up) =
            join(scene.settle(&firing, SettleVerdict::Ack), scene.settle(&firing, dead())).await;
        let expected = match (ack, give_up) {
            (SettleOutcome::Ok, SettleOutcome::LeaseLost) => State::Finished,
            (SettleOutcome::LeaseLost, SettleOutcome::Ok) => State::Dead,
            other => panic!("exactly one verdict is taken, got {other:?}"),
        };
        assert_eq!(scene.view(&text).await.state, expected);
        assert_eq!(*scene.view(&text).await.id(), id(&text));
    }
    let totals = scene.stats().await.totals;
    assert_eq!(totals.delivered + totals.dead, ROUNDS as u64);
    CaseResult::Whole
}

pub(super) async fn p4_t3_a_stop_that_races_a_verdict_has_one_outcome(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut finished = 0;
    for round in 0..ROUNDS {
        let text = format!("t{round}");
        scene.create_in(&text, Millis::ZERO).await;
        let firing = scene.claim_one().await;
        let succeeds = round % 4 < 2;
        let verdict = if succeeds { SettleVerdict::Ack } else { retry_in(Millis::ZERO) };
        let (stop, settle) = (scene.apply(stop_op(&text)), scene.settle(&firing, verdict));
        let (stopped, settled) = match round % 2 {
            0 => join(stop, settle).await,
            _ => {
                let (settled, stopped) = join(settle, stop).await;
                (stopped, settled)
            }
        };
        let expected = match (stopped, succeeds) {
            (Outcome::Stopped { already: false, .. }, false) => SettleOutcome::Cancelled,
            // The attempt had failed before, so the timer was cancelled out of flight.
            (Outcome::Cancelled { already: false, .. }, false)
            | (Outcome::Stopped { already: false, .. }, true) => SettleOutcome::Ok,
            (other, true) => {
                assert_eq!(refused(other).code().as_str(), "finished");
                SettleOutcome::Ok
            }
            (other, false) => panic!("{text}: {other:?}"),
        };
        assert_eq!(settled, expected, "{text}");
        finished += u64::from(succeeds);
        let state = if succeeds { State::Finished } else { State::Cancelled };
        assert_eq!(scene.state(&text).await, Some(state));
        assert!(scene.claim().await.is_empty(), "{text}: no attempt follows");
    }
    let totals = scene.stats().await.totals;
    assert_eq!((totals.delivered, totals.cancelled), (finished, ROUNDS as u64 - finished));
    CaseResult::Whole
}
