//! Cancel, reschedule, fire, claim, settle and the end of a lease race for the same timers, with
//! threads. Each race ends with exactly one outcome, and all callers were told the same (T3).
//!
//! `DULY_RACES` sets the number of races (default 20 000; a million takes minutes in a release build),
//! and `DULY_CRASH_SEED` the first seed. The checker is pure. The canaries put wrong replies between the
//! store and the callers, one kind each, and the checker must name them.

mod checker;
mod heat;

use crate::seeds::{Repeat, number};
use checker::Fault;
use heat::{Tally, WrongReply};

/// Races on one store.
const HEAT: u64 = 4_800;

#[test]
fn t3_of_many_races_each_ends_with_exactly_one_outcome() {
    let races = number("DULY_RACES", 20_000);
    let first = number("DULY_CRASH_SEED", 1);
    let mut all = Tally::default();
    for seed in first.. {
        let left = races.saturating_sub(all.races);
        if left == 0 {
            break;
        }
        let one = [("DULY_CRASH_SEED", seed), ("DULY_RACES", left.min(HEAT))];
        let _repeat = Repeat::new("outcomes", &one).with_threads();
        let tally = heat::run(seed, left.min(HEAT), None);
        assert!(tally.faults.is_empty(), "{:?}: {}", tally.faults[0].0, tally.faults[0].1);
        all.races += tally.races;
        all.delivered += tally.delivered;
        all.cancelled += tally.cancelled;
        all.dead += tally.dead;
        all.moved += tally.moved;
        all.refused_in_flight += tally.refused_in_flight;
        all.stale_refused += tally.stale_refused;
    }
    println!("{all:?}");
    assert_eq!(all.races, all.delivered + all.cancelled + all.dead, "{all:?}");
    let seen = [all.delivered, all.cancelled, all.dead, all.moved, all.refused_in_flight];
    assert!(seen.iter().all(|n| *n > 0) && all.stale_refused > 0, "all of it was raced: {all:?}");
}

/// Makes wrong replies, and checks that the checker names at least one of these faults.
fn canary(plant: WrongReply, expected: &[Fault]) {
    let tally = heat::run(77, 960, Some(plant));
    let found = |fault: &Fault| tally.faults.iter().any(|(found, _)| found == fault);
    assert!(expected.iter().all(found), "{plant:?}: not found: {expected:?} in {:?}", {
        let mut kinds: Vec<Fault> = tally.faults.iter().map(|(fault, _)| *fault).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    });
}

#[test]
fn canary_a_cancel_is_acknowledged_but_not_done() {
    canary(WrongReply::CancelLies, &[Fault::ClaimedAfterEnd, Fault::Outcomes(2)]);
}

#[test]
fn canary_a_cancel_is_done_but_not_reported() {
    canary(WrongReply::CancelUntold, &[Fault::Outcomes(0)]);
}

#[test]
fn canary_a_change_that_is_not_done() {
    canary(WrongReply::ChangeLies, &[Fault::OldTime]);
}

#[test]
fn canary_a_stale_verdict_that_is_taken() {
    canary(WrongReply::StaleTaken, &[Fault::StaleSettle, Fault::Outcomes(2)]);
}

#[test]
fn canary_an_ack_that_is_forgotten() {
    canary(WrongReply::AckForgotten, &[Fault::ClaimedAfterEnd, Fault::Outcomes(2)]);
}

#[test]
fn canary_a_firing_goes_to_two_consumers() {
    canary(WrongReply::TwiceGranted, &[Fault::LeasedTwice]);
}

#[test]
fn canary_a_firing_before_its_time() {
    canary(WrongReply::FiresEarly, &[Fault::Early]);
}
