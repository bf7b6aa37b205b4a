//! ENOSPC: new timers are refused and nothing else changes. With free space new timers are accepted
//! again (P10, T12).

use duly_core::{Millis, error_code::Code};
use duly_store::{Outcome, Refusal, SettleOutcome, SettleVerdict};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    snapshot::Snapshot,
    stage::Stage,
    steps::{Step, apply, cancel, claim, schedule, settle},
    workload::{LARGE_BYTES, settings},
};

const SHELLS: [Shell; 2] = [Shell::Inline, Shell::Threads];

/// Returns `true` if this outcome is the refusal of a full disk.
fn is_full(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(refusal @ Refusal::Exhausted { reason, retry_after, .. }) => {
            assert_eq!(refusal.code(), Code::ResourceExhausted);
            assert!(retry_after.is_some(), "waiting helps");
            assert!(reason.contains("the disk is full"), "{reason}");
            assert!(reason.contains("free space"), "it says what to do: {reason}");
            true
        }
        _ => false,
    }
}

/// Makes a store whose disk is full, with as many timers as were accepted; one of them is leased.
fn filled(shell: Shell) -> (Stage, Vec<String>) {
    let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(5)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Apply("shop", vec![schedule("leased", 0, 10)]));
    stage.take(&Step::Claim("shop", 1));
    // Threads make a spare ahead; while that is impossible, nothing else can be written either.
    stage.disk.sim.set_free_bytes(0);
    let ids: Vec<String> = (0..40).map(|i| format!("t{i:02}")).collect();
    let operations = ids.iter().map(|id| schedule(id, 0, LARGE_BYTES)).collect();
    let outcomes = apply(stage.store(), "shop", operations).expect("the call is answered");
    let is_taken = |outcome: &Outcome| matches!(outcome, Outcome::Created(_));
    let taken = outcomes.iter().filter(|outcome| is_taken(outcome)).count();
    assert!((5..40).contains(&taken), "{shell:?}: {taken} were taken");
    assert!(outcomes[..taken].iter().all(is_taken), "{shell:?}: the first ones were taken");
    assert!(outcomes[taken..].iter().all(is_full), "{shell:?}: the others were refused");
    (stage, ids[..taken].to_vec())
}

#[test]
fn p10_t12_a_full_disk_refuses_new_timers_and_loses_none() {
    for shell in SHELLS {
        let (stage, taken) = filled(shell);
        let shown = Snapshot::of(stage.store());
        let mut pending = taken.clone();
        pending.insert(0, "leased".to_owned());
        assert_eq!(shown.pending("shop"), pending, "{shell:?}");
        let again = apply(stage.store(), "shop", vec![schedule("more", 0, 10)]);
        let again = again.expect("the call is answered");
        assert!(is_full(&again[0]), "{shell:?}: {again:?}");
        assert_eq!(Snapshot::of(stage.store()), shown, "{shell:?}: a refusal changes nothing");
    }
}

#[test]
fn p3_p10_timers_scheduled_before_a_full_disk_fire_on_time() {
    for shell in SHELLS {
        let (stage, taken) = filled(shell);
        // Nothing was written since: the accepted timers must become claimable without a write.
        let fired = claim(stage.store(), "shop", 3).expect("leases fit in what is left");
        let fired: Vec<String> = fired.iter().map(|firing| firing.id.to_string()).collect();
        assert_eq!(fired.len(), 3, "{shell:?}");
        assert!(fired.iter().all(|id| taken.contains(id)), "{shell:?}: {fired:?}");
    }
}

#[test]
fn p10_cancel_and_settle_go_on_while_the_disk_is_full() {
    for shell in SHELLS {
        let (stage, taken) = filled(shell);
        let token = &stage.tokens[&("shop", "leased".to_owned())];
        let settled = settle(stage.store(), "shop", token, SettleVerdict::Ack);
        assert_eq!(settled, Ok(SettleOutcome::Ok), "{shell:?}");
        let outcomes = apply(stage.store(), "shop", vec![cancel(&taken[0]), cancel(&taken[1])]);
        for outcome in outcomes.expect("the call is answered") {
            assert!(matches!(outcome, Outcome::Cancelled { .. }), "{shell:?}: {outcome:?}");
        }
    }
}

#[test]
fn p10_room_brings_everything_back() {
    for shell in SHELLS {
        let (mut stage, taken) = filled(shell);
        stage.disk.sim.set_free_bytes(1 << 30);
        stage.clock.advance(Millis::from_secs(2));
        let made = apply(stage.store(), "shop", vec![schedule("more", 9_000, LARGE_BYTES)]);
        let made = made.expect("the call is answered");
        assert!(matches!(made[0], Outcome::Created(_)), "{shell:?}: {made:?}");
        let shown = Snapshot::of(stage.store());
        for _ in 0..2 {
            stage.restart_crashed();
            assert_eq!(Snapshot::of(stage.store()), shown, "{shell:?}");
        }
        let fired = claim(stage.store(), "shop", 100).expect("claims are granted");
        assert_eq!(fired.len(), taken.len(), "{shell:?}");
    }
}

#[test]
fn p10_a_restart_needs_neither_a_free_byte_nor_a_free_inode() {
    for shell in SHELLS {
        let (mut stage, taken) = filled(shell);
        let shown = Snapshot::of(stage.store());
        for is_power_lost in [true, false, true] {
            let left = if is_power_lost { stage.disk.sim.crash() } else { stage.disk.sim.kill() };
            left.set_free_bytes(0);
            left.set_free_inodes(0);
            stage.restart_on(left);
            assert_eq!(Snapshot::of(stage.store()), shown, "{shell:?}: nothing is lost");
        }
        let refused = apply(stage.store(), "shop", vec![schedule("more", 0, LARGE_BYTES)]);
        let refused = refused.expect("it is answered");
        let is_refused = matches!(refused[..], [Outcome::Refused(Refusal::Exhausted { .. })]);
        assert!(is_refused, "{shell:?}: new timers wait: {refused:?}");
        let outcomes = apply(stage.store(), "shop", vec![cancel(&taken[0])]);
        let outcomes = outcomes.expect("it is answered");
        assert!(matches!(outcomes[..], [Outcome::Cancelled { .. }]), "{shell:?}: {outcomes:?}");
        let fired = claim(stage.store(), "shop", 2).expect("timers fire");
        assert_eq!(fired.len(), 2, "{shell:?}");
        for firing in fired {
            let settled = settle(stage.store(), "shop", &firing.token, SettleVerdict::Ack);
            assert_eq!(settled, Ok(SettleOutcome::Ok), "{shell:?}");
        }
    }
}

#[test]
fn p10_every_write_of_a_roll_can_find_the_disk_full() {
    let creating = [(Operation::Create, "next.tmp"), (Operation::Write, "next.tmp")];
    let naming = [(Operation::Rename, ".log")];
    for (operation, name) in creating.into_iter().chain(naming) {
        for after in 0..2 {
            let mut stage = Stage::new(Shell::Inline, FaultyDisk::new(SimDisk::new(6)));
            stage.take(&Step::Put("shop", Box::new(settings())));
            let rule = Rule { operation, name, fault_kind: FaultKind::Full, after, times: 1 };
            stage.disk.fail(rule.clone());
            let mut taken = Vec::new();
            for i in 0..40 {
                let id = format!("t{i:02}");
                let step = vec![schedule(&id, 0, LARGE_BYTES)];
                let outcomes = apply(stage.store(), "shop", step).expect("it is answered");
                match &outcomes[0] {
                    Outcome::Created(_) => taken.push(id),
                    refused => {
                        assert!(is_full(refused), "{rule:?}: {refused:?}");
                        // Records that still fit are written behind the failed roll.
                        stage.take(&Step::Apply("shop", vec![cancel(&taken[0])]));
                        stage.clock.advance(Millis::from_secs(2));
                    }
                }
            }
            assert!(taken.len() >= 38, "{rule:?}: it was full once: {}", taken.len());
            let shown = Snapshot::of(stage.store());
            stage.restart_crashed();
            assert_eq!(Snapshot::of(stage.store()), shown, "{rule:?}");
        }
    }
}
