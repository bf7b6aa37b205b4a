//! Days pass while no store is open. Every timer that came due is delivered after the start, once, in
//! the order of due times, and nothing else is (T17).

use std::{collections::BTreeMap, sync::Arc};

use duly_core::{Millis, env::Clock};
use duly_store::{SettleOutcome, SettleVerdict, conformance::ManualClock};
use duly_store_embedded::{EmbeddedStore, Options, disk::SimDisk};

use crate::{
    harness::Shell,
    snapshot::Snapshot,
    stage::open,
    steps::{Step, Tokens, apply, cancel, claim, perform, reschedule, schedule, settle},
    twins::{Loss, small},
    workload::forgetful,
};

const DAY_MS: u64 = 86_400_000;
const TIMERS: u64 = 400;
/// Number of due times, a prime, ten minutes apart: four weeks.
const SLOTS: u64 = 4_001;
const SLOT_MS: u64 = 600_000;

/// Timers by their due time.
type Pending = BTreeMap<u64, String>;

/// Options with three timers in the near horizon, and two overdue timers of a lane in memory. The index
/// alone knows all others, and their records are in segments and sorted runs.
fn options(seed: u64) -> Options {
    let sizes = Options { checkpoint_bytes: 64 << 10, young_bytes: 1, ..small(seed) };
    Options { near_max: 3, overdue_max: 2, ..sizes }
}

fn opened(disk: &SimDisk, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    open(Shell::Inline, Arc::new(disk.clone()), clock, options(seed)).expect("it opens")
}

fn due_ms(number: u64) -> u64 {
    number * 7_919 % SLOTS * SLOT_MS + SLOT_MS
}

/// Makes timers over four weeks, in no order; some are rescheduled and some cancelled.
fn filled(store: &EmbeddedStore) -> Pending {
    perform(store, &Step::Put("shop", Box::new(forgetful())), &mut Tokens::new()).expect("taken");
    let mut pending = Pending::new();
    for number in 0..TIMERS {
        let id = format!("t{number}");
        let mut operations = vec![schedule(&id, due_ms(number), 700)];
        match number % 10 {
            3 => operations.push(cancel(&id)),
            7 => {
                let later_ms = due_ms(number) + DAY_MS + 1;
                operations.push(reschedule(&id, later_ms));
                pending.insert(later_ms, id);
            }
            _ => drop(pending.insert(due_ms(number), id)),
        }
        apply(store, "shop", operations).expect("taken");
    }
    pending
}

/// Claims a few timers at a time until there are no more. Returns the ids in the order of the claims.
fn fired(store: &EmbeddedStore, clock: &ManualClock) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let firings = claim(store, "shop", 7).expect("claimed");
        if firings.is_empty() {
            return ids;
        }
        for firing in firings {
            assert!(firing.due_at <= clock.now(), "{} came early", firing.id);
            let settled = settle(store, "shop", &firing.token, SettleVerdict::Ack);
            assert_eq!(settled, Ok(SettleOutcome::Ok), "{}", firing.id);
            ids.push(firing.id.to_string());
        }
    }
}

fn after(disk: &SimDisk, loss: Loss) -> SimDisk {
    match loss {
        Loss::Power => disk.crash(),
        Loss::Process => disk.kill(),
    }
}

/// Removes and returns the timers that are due by then.
fn overdue(pending: &mut Pending, by_ms: u64) -> Vec<String> {
    let later = pending.split_off(&(by_ms + 1));
    std::mem::replace(pending, later).into_values().collect()
}

#[test]
fn p3_t17_timers_due_in_downtime_fire_once_and_in_order() {
    for loss in [Loss::Process, Loss::Power] {
        let (mut disk, clock) = (SimDisk::new(1), ManualClock::default());
        let store = opened(&disk, &clock, 1);
        let mut pending = filled(&store);
        assert!(disk.names().iter().any(|name| name.starts_with("runs/")), "some are in runs");
        let mut passed_ms = 0;
        let mut store = Some(store);
        // Nothing is due yet; then days in which timers come due; at the end far beyond all of them.
        for (opening, days) in (2..).zip([0, 1, 9, 3, 60]) {
            disk = after(&disk, loss);
            drop(store.take());
            clock.advance(Millis::from_ms(days * DAY_MS));
            passed_ms += days * DAY_MS;
            let now = opened(&disk, &clock, opening);
            let expected = overdue(&mut pending, passed_ms);
            let what = format!("{loss:?}, {days} days");
            let enough = match days {
                0 => expected.is_empty(),
                _ => expected.len() > 5,
            };
            assert!(enough, "{what}: {}", expected.len());
            assert_eq!(fired(&now, &clock), expected, "{what}: all of it, in order");
            let mut left: Vec<String> = pending.values().cloned().collect();
            left.sort_unstable();
            let shown = Snapshot::of(&now);
            assert_eq!(shown.pending("shop"), left, "{what}: what is not due waits");
            assert_eq!(shown.timers.len(), left.len(), "{what}: and nothing else is there");
            store = Some(now);
        }
        assert!(pending.is_empty());
    }
}
