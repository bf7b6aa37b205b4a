//! Canaries: stores that are broken on purpose. The suite must fail for each of them, in the expected case.
//!
//! Each [`Fault`] breaks one promise of a store that is otherwise the reference store.

use std::sync::Arc;

use duly_core::{Millis, Timestamp, env::Clock};
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;

use super::{
    Harness, ManualClock, NAMESPACES_MAX, Report, Restart, block_on,
    model::{Disturbance, compare_with_memory},
    run_all,
};
use crate::{Store, memory::MemoryStore};

mod faulty_store;

use faulty_store::FaultyStore;

/// The fault of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// No fault.
    None,
    /// Grants a claim one millisecond before the due time.
    FiresEarly,
    /// Returns `cancelled` and does nothing.
    FalseCancel,
    /// Returns `changed` and keeps the old time.
    FalseChange,
    /// Accepts the verdict of a token whose lease is lost.
    StaleSettle,
    /// Gives each attempt another delivery id.
    DeliveryIdPerAttempt,
    /// Fires a replaced timer in addition to the new one.
    Resurrects,
    /// Loses a firing whose attempt failed.
    LosesRetries,
    /// Grants from a lane that was not named.
    OtherLanes,
    /// Delivers payloads without their last byte.
    CutsPayloads,
    /// Is empty after a restart.
    LosesData,
}

#[derive(Debug)]
struct BrokenHarness {
    clock: ManualClock,
    fault: Fault,
    store: Mutex<Arc<FaultyStore>>,
}

impl BrokenHarness {
    fn new(fault: Fault) -> Self {
        let clock = ManualClock::default();
        let store = Mutex::new(Arc::new(open(&clock, fault)));
        Self { clock, fault, store }
    }
}

fn open(clock: &ManualClock, fault: Fault) -> FaultyStore {
    let inner = MemoryStore::new(Arc::new(clock.clone()), 3).with_namespaces_max(NAMESPACES_MAX);
    FaultyStore::new(inner, clock.clone(), fault)
}

impl Harness for BrokenHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&*self.store.lock()) as Arc<dyn Store>
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, ()> {
        self.clock.advance(by);
        futures::future::ready(()).boxed()
    }

    fn step_wall(&self, by_ms: i64) -> Option<()> {
        self.clock.step_wall(by_ms);
        Some(())
    }

    fn restart(&self, _how: Restart) -> BoxFuture<'_, Option<()>> {
        if self.fault == Fault::LosesData {
            *self.store.lock() = Arc::new(open(&self.clock, self.fault));
        } else {
            self.store.lock().reopen();
        }
        futures::future::ready(Some(())).boxed()
    }
}

fn check(fault: Fault, caught_by: &[&str]) {
    let report: Report = run_all(|| BrokenHarness::new(fault));
    let failed = report.failed_names();
    for name in caught_by {
        assert!(failed.contains(name), "{fault:?} was not caught by {name}, only by {failed:?}");
    }
    assert_eq!(failed.is_empty(), caught_by.is_empty(), "{fault:?}: {:?}", report.failed);
}

#[test]
fn a_store_without_a_fault_passes() {
    check(Fault::None, &[]);
}

#[test]
fn p2_an_early_fire_is_caught() {
    check(Fault::FiresEarly, &["p2_t1_never_early_by_a_millisecond"]);
}

#[test]
fn p4_canary_false_cancel_is_detected() {
    check(Fault::FalseCancel, &["p4_cancel_before_claim_wins", "p4_a_due_timer_can_be_cancelled"]);
}

#[test]
fn p5_canary_false_change_is_detected() {
    check(Fault::FalseChange, &["p5_a_later_time_is_the_only_time"]);
}

#[test]
fn p8_an_accepted_stale_settle_is_caught() {
    check(Fault::StaleSettle, &["p8_a_stale_token_changes_nothing"]);
}

#[test]
fn p7_a_changed_delivery_id_is_caught() {
    check(Fault::DeliveryIdPerAttempt, &["p7_one_delivery_id_over_all_attempts"]);
}

#[test]
fn t4_a_resurrected_timer_is_caught() {
    let case = "p6_replace_counts_the_revision_and_is_another_incarnation";
    check(Fault::Resurrects, &[case]);
}

#[test]
fn p3_a_lost_firing_is_caught() {
    check(Fault::LosesRetries, &["p2_a_retry_is_never_early_either"]);
}

#[test]
fn p9_a_claim_from_another_lane_is_caught() {
    check(Fault::OtherLanes, &["p9_only_named_lanes_are_touched"]);
}

#[test]
fn p11_a_cut_payload_is_caught() {
    check(Fault::CutsPayloads, &["p11_t7_payloads_of_every_form_and_size"]);
}

#[test]
fn p1_canary_lost_data_is_detected() {
    check(Fault::LosesData, &["p1_timers_in_every_state_are_there_after_a_kill"]);
}

#[test]
fn the_model_driver_finds_them_as_well() {
    let faults = [
        Fault::FiresEarly,
        Fault::FalseCancel,
        Fault::FalseChange,
        Fault::StaleSettle,
        Fault::DeliveryIdPerAttempt,
        Fault::Resurrects,
        Fault::LosesRetries,
        Fault::OtherLanes,
        Fault::CutsPayloads,
        Fault::LosesData,
    ];
    for fault in faults {
        let found = (0..20).find_map(|seed| {
            let subject = BrokenHarness::new(fault);
            block_on(compare_with_memory(&subject, seed, 300, Disturbance::Restarts)).err()
        });
        assert!(found.is_some(), "{fault:?} was not found");
    }
}
