//! A timer that is cancelled and made again at one instant (T26): only the later one exists.

use duly_core::{Millis, schedule::IfExists};
use duly_store::{Operation, SettleOutcome, SettleVerdict};
use duly_store_embedded::disk::SimDisk;

use crate::{
    faulty::FaultyDisk,
    harness::Shell,
    snapshot::Snapshot,
    stage::Stage,
    steps::{Step, cancel, claim, payload, put_timer, settle},
    twins::busy,
    workload::settings,
};

fn make(text: &str, due_ms: u64) -> Operation {
    put_timer("t", due_ms, payload(text, 100), IfExists::Fail)
}

fn stage(shell: Shell) -> Stage {
    let mut stage = Stage::with(shell, FaultyDisk::new(SimDisk::new(1)), busy);
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage
}

/// Ways to end the process between the calls and the firing.
const ENDS: [fn(&mut Stage); 3] = [|_| {}, Stage::restart_killed, Stage::restart_crashed];

#[test]
fn p4_p5_t26_a_recreated_timer_fires_once_in_its_last_form() {
    for shell in [Shell::Inline, Shell::Threads] {
        for (due_ms, end) in [0, 5_000].into_iter().flat_map(|due| ENDS.map(|end| (due, end))) {
            for calls in [1, 5] {
                let mut stage = stage(shell);
                // The clock stands still meanwhile; one batch, or a call for each.
                let all = [
                    make("first", due_ms),
                    cancel("t"),
                    make("second", due_ms),
                    cancel("t"),
                    make("third", due_ms),
                ];
                for some in all.chunks(all.len() / calls) {
                    stage.take(&Step::Apply("shop", some.to_vec()));
                }
                end(&mut stage);
                stage.clock.advance(Millis::from_ms(due_ms));
                stage.take(&Step::Tick);
                let firings = claim(stage.store(), "shop", 9).expect("claimed");
                let got: Vec<_> =
                    firings.iter().map(|firing| firing.spec.payload.clone()).collect();
                assert_eq!(got, [Some(payload("third", 100))], "{shell:?}, due {due_ms}");
                let settled = settle(stage.store(), "shop", &firings[0].token, SettleVerdict::Ack);
                assert_eq!(settled, Ok(SettleOutcome::Ok));
                stage.clock.advance(Millis::from_secs(60));
                assert_eq!(claim(stage.store(), "shop", 9), Ok(Vec::new()));
                let shown = Snapshot::of(stage.store());
                let totals = &shown.namespaces["shop"].1;
                let counts = (totals.scheduled, totals.cancelled, totals.fired, totals.delivered);
                assert_eq!(counts, (3, 2, 1, 1), "{shell:?}, due {due_ms}");
            }
        }
    }
}

#[test]
fn p8_t26_an_old_token_does_not_affect_the_recreated_timer() {
    for verdict in [SettleVerdict::Ack, SettleVerdict::Release] {
        let mut stage = stage(Shell::Inline);
        stage.take(&Step::Apply("shop", vec![make("first", 0)]));
        let first = claim(stage.store(), "shop", 9).expect("claimed").remove(0);
        let settled = settle(stage.store(), "shop", &first.token, SettleVerdict::Ack);
        assert_eq!(settled, Ok(SettleOutcome::Ok));
        let again = put_timer("t", 0, payload("second", 100), IfExists::Replace);
        stage.take(&Step::Apply("shop", vec![again]));
        let before = Snapshot::of(stage.store());
        // A repeated or refused reply, it is about the first.
        settle(stage.store(), "shop", &first.token, verdict.clone()).expect("answered");
        assert_eq!(Snapshot::of(stage.store()), before);
        let second = claim(stage.store(), "shop", 9).expect("claimed").remove(0);
        assert_eq!((&second.spec.payload, second.attempt), (&Some(payload("second", 100)), 1));
        settle(stage.store(), "shop", &first.token, verdict).expect("answered");
        let settled = settle(stage.store(), "shop", &second.token, SettleVerdict::Ack);
        assert_eq!(settled, Ok(SettleOutcome::Ok), "its own token does");
    }
}
