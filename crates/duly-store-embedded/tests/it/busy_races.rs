//! Callers that compete while checkpoints, rewrites and removals run beside them, with threads. Then a
//! crash: every acknowledged change is there, and all counts are exact (T28).

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use duly_core::{Millis, Settings, State, schedule::IfExists};
use duly_store::{Limit, Outcome, Refusal, SettleOutcome, SettleVerdict, conformance::ManualClock};
use duly_store_embedded::disk::SimDisk;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::open,
    steps::{
        Step, Tokens, apply, cancel, claim, dead_letter_verdict, get, payload, perform, put_timer,
        reschedule, settle,
    },
    twins::{Loss, busy},
    workload::settings,
};

const CALLERS: u64 = 4;
const CALLS: u64 = 300;
const FAR_MS: u64 = 31_536_000_000;

/// The replies that all callers together received.
#[derive(Debug, Default)]
struct ReplyCounts {
    scheduled: AtomicU64,
    cancelled: AtomicU64,
    rescheduled: AtomicU64,
    fired: AtomicU64,
    delivered: AtomicU64,
    dead: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Returns `true` if a schedule was refused because the rewriter is behind, as on a slow machine. Then
/// nothing has changed.
fn is_behind(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Exhausted { limit: Limit::Disk, reason, .. })
        if reason.contains("wait to be rewritten"))
}

/// The last state of each of a caller's own timers.
type Own = BTreeMap<String, State>;

/// Makes calls about the caller's own timers, so that the caller knows the end of each, and claims any
/// timers.
fn call(store: &dyn duly_store::Store, caller: u64, seed: u64, told: &ReplyCounts) -> Own {
    let mut random = StdRng::seed_from_u64(seed * 100 + caller);
    let mut own = Own::new();
    let mut kept = Vec::new();
    for call in 0..CALLS {
        // These timers are far in the future, so no caller claims them.
        let id = format!("c{caller} {}", random.random_range(0..12));
        let one = |operation| apply(store, "shop", vec![operation]).expect("answered").remove(0);
        match random.random_range(0..10) {
            0..4 => {
                let bytes = [10, 300, 3_000, 9_000][random.random_range(0..4)];
                let payload = payload(&format!("{caller} {call}"), bytes);
                let made = one(put_timer(&id, FAR_MS, payload, IfExists::Replace));
                if is_behind(&made) {
                    continue;
                }
                assert!(matches!(made, Outcome::Created(_) | Outcome::Replaced(_)), "{made:?}");
                add(&told.scheduled);
                own.insert(id, State::Scheduled);
            }
            4 | 5 => {
                if let Outcome::Cancelled { already: false, .. } = one(cancel(&id)) {
                    add(&told.cancelled);
                    own.insert(id, State::Cancelled);
                }
            }
            6 => {
                if let Outcome::Changed(_) = one(reschedule(&id, FAR_MS + call)) {
                    add(&told.rescheduled);
                }
            }
            7 => {
                let id = format!("now {seed} {caller} {call}");
                let made = one(put_timer(&id, 0, payload(&id, 500), IfExists::Fail));
                if is_behind(&made) {
                    continue;
                }
                assert!(matches!(made, Outcome::Created(_)), "{made:?}");
                add(&told.scheduled);
            }
            _ => {
                let firings = claim(store, "shop", 2).expect("answered");
                firings.iter().for_each(|_| add(&told.fired));
                kept.extend(firings);
                if let Some(firing) = kept.pop() {
                    let (verdict, count) = match random.random_range(0..3) {
                        0 => (dead_letter_verdict(), &told.dead),
                        _ => (SettleVerdict::Ack, &told.delivered),
                    };
                    let settled = settle(store, "shop", &firing.token, verdict);
                    assert_eq!(settled, Ok(SettleOutcome::Ok), "{}", firing.id);
                    add(count);
                }
            }
        }
    }
    own
}

fn race(seed: u64, loss: Loss) {
    let (clock, mut disk) = (ManualClock::default(), SimDisk::new(seed));
    let told = ReplyCounts::default();
    let mut own: Own = Own::new();
    for opening in 0..3 {
        let on = std::sync::Arc::new(disk.clone());
        let store = open(Shell::Threads, on, &clock, busy(10 * seed + opening));
        let store = store.unwrap_or_else(|error| panic!("seed {seed}, {loss:?}: {error}"));
        let what = format!("seed {seed}, opening {opening}, {loss:?}");
        if opening == 0 {
            let put = Step::Put("shop", Box::new(settings()));
            perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
        }
        check(&store, &told, &own, &what);
        thread::scope(|scope| {
            let (store, told) = (&store, &told);
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| scope.spawn(move || call(store, caller, 10 * seed + opening, told)))
                .collect();
            for caller in callers {
                own.extend(caller.join().expect("a caller does not panic"));
            }
        });
        // A power loss may lose claims until the next reply that waits for the disk. This call is
        // accepted even while timers are refused. Waiting for the rewriter by moving the clock would
        // outlast the tombstones.
        let weight = 2 + u32::try_from(opening).expect("a few openings");
        let fence = Step::Put("shop", Box::new(Settings { weight, ..settings() }));
        perform(&store, &fence, &mut Tokens::new()).expect("a healthy store answers");
        check(&store, &told, &own, &what);
        // The engine and its background threads continue while the machine goes down.
        disk = match loss {
            Loss::Power => disk.crash(),
            Loss::Process => disk.kill(),
        };
        drop(store);
        clock.advance(Millis::from_ms(1));
    }
}

fn check(store: &duly_store_embedded::EmbeddedStore, told: &ReplyCounts, own: &Own, what: &str) {
    let shown = Snapshot::of(store);
    let (_, totals) = &shown.namespaces["shop"];
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert_eq!(totals.scheduled, count(&told.scheduled), "{what}: scheduled");
    assert_eq!(totals.cancelled, count(&told.cancelled), "{what}: cancelled");
    assert_eq!(totals.rescheduled, count(&told.rescheduled), "{what}: rescheduled");
    assert_eq!(totals.fired, count(&told.fired), "{what}: fired");
    assert_eq!(totals.delivered, count(&told.delivered), "{what}: delivered");
    assert_eq!(totals.dead, count(&told.dead), "{what}: dead");
    for (id, state) in own {
        let found = get(store, "shop", id).map(|view| view.state);
        assert_eq!(found, Some(*state), "{what}: {id}");
    }
}

fn races(loss: Loss) {
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 2) {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1)];
        let _repeat = Repeat::new("busy_races", &one).with_threads();
        race(seed, loss);
    }
}

#[test]
fn p1_p4_t28_busy_callers_lose_nothing_to_kill_9() {
    races(Loss::Process);
}

#[test]
fn p1_p4_t28_busy_callers_lose_nothing_to_a_power_loss() {
    races(Loss::Power);
}
