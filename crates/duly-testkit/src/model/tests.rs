use super::{Bug, run};
use crate::checker::{Count, check};

const SEEDS: std::ops::Range<u64> = 0..6;

/// Runs every seed with the bug. The checker must find the bug, and over all runs nothing but the
/// bug and its consequences.
#[track_caller]
fn canary(bug: Bug, expected: Count, also: &[Count]) {
    let mut found = 0;
    for seed in SEEDS {
        let verdict = check(&run(seed, Some(bug)));
        found += verdict.count(expected);
        for count in verdict.counts.keys() {
            assert!(
                *count == expected || also.contains(count),
                "seed {seed}: {bug:?} was also taken for {count:?}:\n{verdict}"
            );
        }
    }
    assert!(found > 0, "{bug:?} was not found");
}

#[test]
fn the_checker_finds_nothing_without_a_bug() {
    let mut recovered = 0;
    let mut duplicates = 0;
    for seed in 0..12 {
        let history = run(seed, None);
        let verdict = check(&history);
        assert!(verdict.is_clean(), "seed {seed}:\n{verdict}");
        assert!(verdict.delivered > 200, "seed {seed}: a dull life\n{verdict}");
        recovered += verdict.recovered;
        duplicates += verdict.duplicates_explained;
    }
    assert!(recovered > 0 && duplicates > 0);
}

#[test]
fn canary_early_fire() {
    canary(Bug::EarlyFire, Count::Early, &[]);
}

#[test]
fn canary_lost() {
    canary(Bug::Lost, Count::Lost, &[]);
}

#[test]
fn canary_resurrected() {
    canary(Bug::Resurrected, Count::Resurrected, &[Count::DuplicateUnexplained]);
}

#[test]
fn canary_old_time() {
    canary(Bug::OldTime, Count::OldTime, &[Count::Early, Count::Unexpected, Count::Stuck]);
}

#[test]
fn canary_changed_delivery_id() {
    canary(Bug::ChangedDeliveryId, Count::DeliveryIdChanged, &[]);
}

#[test]
fn canary_stale_settle() {
    canary(Bug::StaleSettle, Count::StaleSettleAccepted, &[Count::Resurrected, Count::Lost]);
}

#[test]
fn canary_claim_after_cancel() {
    canary(Bug::ClaimAfterCancel, Count::ClaimAfterCancel, &[Count::Resurrected]);
}

#[test]
fn canary_short_lease() {
    canary(Bug::ShortLease, Count::DuplicateUnexplained, &[]);
}

#[test]
fn canary_forgotten_change() {
    canary(Bug::ForgottenChange, Count::Undone, &[Count::OldTime, Count::Unexpected, Count::Stuck]);
}

#[test]
fn canary_wrong_payload() {
    canary(Bug::WrongPayload, Count::Unexpected, &[Count::Lost]);
}

#[test]
fn canary_stuck() {
    canary(Bug::Stuck, Count::Stuck, &[]);
}

#[test]
fn canary_cancel_undone() {
    canary(Bug::CancelUndone, Count::Resurrected, &[Count::ClaimAfterCancel]);
}
