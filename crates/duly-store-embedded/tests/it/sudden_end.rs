//! Threads, pipelined commits, and an end at any moment: every acknowledged change is there.
//!
//! Here frames are written while earlier ones are being synced, so a power loss can lose any combination
//! of the latest. kill -9 must lose nothing that was acknowledged, claims and leases included. A power
//! loss may lose claims, and only those.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use duly_core::State;
use duly_store::{Outcome, SettleOutcome, SettleVerdict, Store, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore,
    disk::{Fault, SimDisk},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::open,
    steps::{Step, Tokens, apply, cancel, claim, perform, reschedule, schedule, settle},
    twins::{Loss, small},
    workload::settings,
};

/// The last reply about a caller's own timer, and the change that has no reply yet. A timer that is
/// being made is entered as due without a reply: it may not exist.
#[derive(Debug, Clone, PartialEq)]
struct LastReply {
    state: State,
    attempts: u32,
    /// `true`: another change may have been carried out.
    unanswered: bool,
}

type Ledger = BTreeMap<String, LastReply>;

const CALLERS: u64 = 3;

fn start(disk: &SimDisk, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    open(Shell::Threads, Arc::new(disk.clone()), clock, small(seed))
        .unwrap_or_else(|error| panic!("what is left is opened: {error}"))
}

/// Takes random steps on timers of its own until the store is gone; `done` counts them.
fn call(store: &dyn Store, namespace: &str, ledger: &mut Ledger, seed: u64, done: &AtomicU64) {
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..10_000 {
        let id = format!("{seed}-{number}");
        let bytes = [10, 600, 3_000][random.random_range(0..3)];
        let told = |state, attempts| LastReply { state, attempts, unanswered: false };
        ledger.insert(id.clone(), LastReply { unanswered: true, ..told(State::Due, 0) });
        let made = apply(store, namespace, vec![schedule(&id, 0, bytes)]);
        match made.as_deref() {
            Ok([Outcome::Created(_)]) => ledger.insert(id.clone(), told(State::Due, 0)),
            _ => return,
        };
        done.fetch_add(1, Ordering::Relaxed);
        let ok = match random.random_range(0..4) {
            0 => {
                mark(ledger, &id);
                let cancelled = apply(store, namespace, vec![cancel(&id)]);
                let ok = matches!(cancelled.as_deref(), Ok([Outcome::Cancelled { .. }]));
                ok.then(|| ledger.insert(id, told(State::Cancelled, 0))).is_some()
            }
            1 => {
                mark(ledger, &id);
                let moved = apply(store, namespace, vec![reschedule(&id, 9_000)]);
                let ok = matches!(moved.as_deref(), Ok([Outcome::Changed(_)]));
                ok.then(|| ledger.insert(id, told(State::Scheduled, 0))).is_some()
            }
            _ => lease_some(store, namespace, ledger, &mut random),
        };
        if !ok {
            return;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn mark(ledger: &mut Ledger, id: &str) {
    ledger.get_mut(id).expect("it was made").unanswered = true;
}

/// Claims, and acknowledges about half. A claim without a reply may concern any due timer.
fn lease_some(
    store: &dyn Store,
    namespace: &str,
    ledger: &mut Ledger,
    random: &mut StdRng,
) -> bool {
    let Ok(firings) = claim(store, namespace, 4) else {
        ledger.values_mut().for_each(|told| told.unanswered |= told.state == State::Due);
        return false;
    };
    for firing in &firings {
        let told = ledger.get_mut(firing.id.as_str()).expect("a caller has its own namespace");
        *told = LastReply { state: State::InFlight, attempts: firing.attempt, unanswered: false };
    }
    for firing in firings {
        let told = ledger.get_mut(firing.id.as_str()).expect("a caller has its own namespace");
        if random.random() {
            told.unanswered = true;
            match settle(store, namespace, &firing.token, SettleVerdict::Ack) {
                Ok(SettleOutcome::Ok) => {
                    *told = LastReply { state: State::Finished, attempts: 1, unanswered: false };
                }
                _ => return false,
            }
        }
    }
    true
}

fn check(found: &Snapshot, namespace: &str, ledger: &Ledger, loss: Loss) -> Result<(), String> {
    for (id, told) in ledger {
        let key = (namespace.to_owned(), id.clone(), 0, 0);
        let Some(view) = found.timers.get(&key) else {
            if told.unanswered && told.state == State::Due {
                continue;
            }
            return Err(format!("{namespace}/{id} is lost; its caller was told {told:?}"));
        };
        let claim_forgotten = loss == Loss::Power && told.state == State::InFlight;
        let is_told = view.state == told.state && view.attempts() == told.attempts;
        let is_free = told.unanswered || (claim_forgotten && view.state == State::Due);
        if !is_told && !is_free {
            let shown = (view.state, view.attempts());
            return Err(format!("{namespace}/{id} is {shown:?}; its caller was told {told:?}"));
        }
        let resurrected = told.state == State::Cancelled && view.state != State::Cancelled;
        if resurrected || (told.state == State::Finished && view.state != State::Finished) {
            return Err(format!("{namespace}/{id} came back as {:?}", view.state));
        }
    }
    Ok(())
}

const NAMESPACES: [&str; CALLERS as usize] = ["caller-0", "caller-1", "caller-2"];

fn rounds(seed: u64, loss: Loss) -> Result<(), String> {
    let clock = ManualClock::default();
    let mut disk = SimDisk::new(seed);
    let mut random = StdRng::seed_from_u64(seed);
    let mut ledgers = vec![Ledger::new(); NAMESPACES.len()];
    for round in 0..4 {
        let store = start(&disk, &clock, 100 * seed + round);
        for namespace in NAMESPACES {
            let put = Step::Put(namespace, Box::new(settings()));
            perform(&store, &put, &mut Tokens::new()).map_err(|error| error.to_string())?;
        }
        // The seed picks the number of the operation; the threads decide which operation that is.
        disk.plan(Fault::CrashAtOp(random.random_range(1..150)));
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for (caller, ledger) in ledgers.iter_mut().enumerate() {
                let (store, done) = (&store, &done);
                let seed = seed * 1_000 + round * 10 + caller as u64;
                scope.spawn(move || call(store, NAMESPACES[caller], ledger, seed, done));
            }
        });
        assert!(disk.is_down(), "the callers stop because the disk did");
        disk = match loss {
            Loss::Power => disk.crash(),
            Loss::Process => disk.kill(),
        };
        drop(store);
        let store = start(&disk, &clock, 100 * seed + 50 + round);
        let found = Snapshot::of(&store);
        for (namespace, ledger) in NAMESPACES.into_iter().zip(&mut ledgers) {
            check(&found, namespace, ledger, loss)?;
            // The restart shows the outcome of changes without a reply.
            ledger.retain(|id, told| {
                let view = found.timers.get(&(namespace.to_owned(), id.clone(), 0, 0));
                view.is_some_and(|view| {
                    let (state, attempts) = (view.state, view.attempts());
                    *told = LastReply { state, attempts, unanswered: false };
                    true
                })
            });
        }
        store.close();
        drop(store);
        disk = disk.kill();
    }
    Ok(())
}

fn over_seeds(loss: Loss) {
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 20) {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1)];
        let _repeat = Repeat::new("sudden_end", &one).with_threads();
        rounds(seed, loss).unwrap_or_else(|wrong| panic!("seed {seed}, {loss:?}: {wrong}"));
    }
}

#[test]
fn p1_p4_t8_kill_9_under_load_loses_no_acknowledged_change() {
    over_seeds(Loss::Process);
}

#[test]
fn p1_p4_t8_a_power_loss_under_load_loses_only_claims() {
    over_seeds(Loss::Power);
}
