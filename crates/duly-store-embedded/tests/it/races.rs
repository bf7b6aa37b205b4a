//! Callers compete for the same few timers, with threads: exactly one of them wins (T3, T26).
//!
//! Every call takes a number at its start and one at its reply. A reply binds every call that starts
//! after it. Nothing here depends on the scheduling of the threads.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use duly_core::{Millis, State, schedule::IfExists};
use duly_store::{Firing, Outcome, SettleOutcome, SettleVerdict, Store, conformance::ManualClock};
use duly_store_embedded::disk::SimDisk;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::open,
    steps::{Step, Tokens, apply, cancel, claim, payload, perform, put_timer, reschedule, settle},
    twins::small,
    workload::settings,
};

const IDS: usize = 5;
const CALLS: u64 = 250;
/// Number of calls after which all callers wait for each other.
const TOGETHER: u64 = 5;
/// A time far beyond the end of the clock.
const FAR_MS: u64 = 1_000_000_000;

/// The kind of a completed call.
#[derive(Debug, Clone)]
enum Event {
    Made,
    Cancelled,
    PutOff,
    Claimed(Box<Firing>),
    Settled(String, SettleVerdict, SettleOutcome),
}

/// A completed call: its numbers, the timer, and its kind.
#[derive(Debug, Clone)]
struct Answered {
    made_at: u64,
    answered_at: u64,
    id: String,
    event: Event,
}

/// The shared record of a race.
struct Race<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    numbers: AtomicU64,
    history: Mutex<Vec<Answered>>,
    barrier: Barrier,
}

impl Race<'_> {
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, made_at: u64, id: &str, event: Event) {
        let answered_at = self.number();
        let id = id.to_owned();
        self.history.lock().push(Answered { made_at, answered_at, id, event });
    }

    fn one(&self, operation: duly_store::Operation) -> Outcome {
        let outcomes = apply(self.store, "shop", vec![operation]);
        outcomes.expect("a healthy store answers").remove(0)
    }

    fn make(&self, id: &str, call: u64) {
        let made_at = self.number();
        let payload = payload(&format!("{call}"), 8);
        let made = self.one(put_timer(id, 0, payload, IfExists::Replace));
        if let Outcome::Created(_) | Outcome::Replaced(_) = made {
            self.note(made_at, id, Event::Made);
        }
    }

    fn cancel(&self, id: &str) {
        let made_at = self.number();
        if let Outcome::Cancelled { already: false, .. } = self.one(cancel(id)) {
            self.note(made_at, id, Event::Cancelled);
        }
    }

    fn change(&self, random: &mut StdRng, call: u64) {
        let id = format!("t{}", random.random_range(0..IDS));
        match random.random_range(0..5) {
            0 | 1 => self.make(&id, call),
            2 | 3 => self.cancel(&id),
            _ => {
                let made_at = self.number();
                if let Outcome::Changed(_) = self.one(reschedule(&id, FAR_MS)) {
                    self.note(made_at, &id, Event::PutOff);
                }
            }
        }
    }

    fn claim(&self, most: usize) -> Vec<Firing> {
        let made_at = self.number();
        let firings = claim(self.store, "shop", most).expect("a healthy store answers");
        for firing in &firings {
            self.note(made_at, firing.id.as_str(), Event::Claimed(Box::new(firing.clone())));
        }
        firings
    }

    fn settle(&self, firing: &Firing, verdict: SettleVerdict) {
        let made_at = self.number();
        let outcome = settle(self.store, "shop", &firing.token, verdict.clone());
        let outcome = outcome.expect("a healthy store answers");
        let settled = Event::Settled(firing.token.to_string(), verdict, outcome);
        self.note(made_at, firing.id.as_str(), settled);
    }

    fn deliver(&self, random: &mut StdRng, kept: &mut Vec<Firing>) {
        kept.extend(self.claim(2));
        if kept.is_empty() {
            return;
        }
        // Tokens are used late and more than once.
        let firing = kept[random.random_range(0..kept.len())].clone();
        let verdict = match random.random_range(0..4) {
            0 => SettleVerdict::Release,
            _ => SettleVerdict::Ack,
        };
        self.settle(&firing, verdict);
        if random.random_ratio(1, 3) {
            kept.clear();
        }
        if random.random_ratio(1, 20) {
            self.clock.advance(Millis::from_secs(31));
        }
    }
}

fn race(seed: u64) -> (Vec<Answered>, Snapshot) {
    let clock = ManualClock::default();
    let disk = Arc::new(SimDisk::new(seed));
    let store = open(Shell::Threads, disk, &clock, small(seed)).expect("a new store opens");
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
    let race = Race {
        store: &store,
        clock: &clock,
        numbers: AtomicU64::new(0),
        history: Mutex::new(Vec::new()),
        barrier: Barrier::new(4),
    };
    thread::scope(|scope| {
        for caller in 0..4 {
            let race = &race;
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed * 10 + caller);
                let mut kept = Vec::new();
                let mut wrong = None;
                for call in 0..CALLS {
                    // The callers wait for each other even if one of them fails.
                    if call % TOGETHER == 0 {
                        race.barrier.wait();
                    }
                    let called = AssertUnwindSafe(|| match caller {
                        0 | 1 => race.change(&mut random, caller * CALLS + call),
                        _ => race.deliver(&mut random, &mut kept),
                    });
                    wrong = wrong.or_else(|| panic::catch_unwind(called).err());
                }
                if let Some(wrong) = wrong {
                    panic::resume_unwind(wrong);
                }
            });
        }
    });
    // The history has one of each, even if the threads made none.
    race.make("last", 0);
    race.cancel("last");
    race.make("last", 1);
    for firing in race.claim(100) {
        race.settle(&firing, SettleVerdict::Ack);
    }
    let shown = Snapshot::of(&store);
    (race.history.into_inner(), shown)
}

/// Returns the races of all seeds: each with its history, and the way to repeat it while it is checked.
fn races() -> impl Iterator<Item = (Repeat, u64, Vec<Answered>, Snapshot)> {
    let first = number("DULY_CRASH_SEED", 1);
    (first..first + number("DULY_CRASH_SEEDS", 4)).map(|seed| {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1)];
        let repeat = Repeat::new("races", &one).with_threads();
        let (history, shown) = race(seed);
        (repeat, seed, history, shown)
    })
}

/// Returns `true` if a call that lets a timer fire again may have come between two replies.
fn is_revived(history: &[Answered], id: &str, from: &Answered, until: u64) -> bool {
    history.iter().any(|other| {
        other.id == id
            && matches!(other.event, Event::Made)
            && other.answered_at > from.made_at
            && other.made_at < until
    })
}

#[test]
fn p4_p5_t3_no_claim_follows_a_confirmed_cancel_or_delay() {
    for (_repeat, seed, history, _) in races() {
        let ends = history.iter().filter(|a| matches!(a.event, Event::Cancelled | Event::PutOff));
        let mut checked = 0;
        for end in ends {
            for claimed in &history {
                let Event::Claimed(firing) = &claimed.event else {
                    continue;
                };
                if claimed.id != end.id || claimed.made_at < end.answered_at {
                    continue;
                }
                checked += 1;
                let revived = is_revived(&history, &end.id, end, claimed.answered_at);
                assert!(revived, "seed {seed}: {end:?} is followed by the claim of {firing:?}");
            }
        }
        assert!(checked > 0, "seed {seed}: some claims came after some cancels");
    }
}

#[test]
fn p8_leases_are_settled_once_and_firings_acked_once() {
    for (_repeat, seed, history, _) in races() {
        let mut settled = BTreeSet::new();
        let mut acknowledged = BTreeSet::new();
        let mut leases = BTreeMap::new();
        for answered in &history {
            if let Event::Claimed(firing) = &answered.event {
                let twice = leases.insert(firing.token.to_string(), firing.delivery_id);
                assert_eq!(twice, None, "seed {seed}: a token names one lease");
            }
        }
        for answered in &history {
            let Event::Settled(token, verdict, SettleOutcome::Ok) = &answered.event else {
                continue;
            };
            assert!(settled.insert(token), "seed {seed}: {token} was settled twice");
            if *verdict == SettleVerdict::Ack {
                let first = acknowledged.insert(leases[token]);
                assert!(first, "seed {seed}: {} was acknowledged twice", answered.id);
            }
        }
        assert!(!acknowledged.is_empty(), "seed {seed}: something was acknowledged");
    }
}

#[test]
fn p3_t28_every_timer_has_one_end_and_the_counts_say_so() {
    for (_repeat, seed, history, shown) in races() {
        let count = |wanted: fn(&Event) -> bool| {
            history.iter().filter(|answered| wanted(&answered.event)).count() as u64
        };
        let (_, totals) = &shown.namespaces["shop"];
        assert_eq!(totals.scheduled, count(|event| matches!(event, Event::Made)), "{seed}");
        assert_eq!(totals.cancelled, count(|event| matches!(event, Event::Cancelled)), "{seed}");
        assert_eq!(totals.rescheduled, count(|event| matches!(event, Event::PutOff)), "{seed}");
        assert_eq!(totals.fired, count(|event| matches!(event, Event::Claimed(_))), "{seed}");
        let is_ack = |event: &Event| {
            matches!(event, Event::Settled(_, SettleVerdict::Ack, SettleOutcome::Ok))
        };
        assert_eq!(totals.delivered, count(is_ack), "{seed}");
        let live = shown.timers.values().filter(|view| view.state.is_pending()).count();
        assert!(live <= IDS, "seed {seed}: one live timer for each id");
        let dead = shown.timers.values().filter(|view| view.state == State::Dead).count() as u64;
        assert_eq!(dead, totals.dead, "seed {seed}: dead letters stay until somebody acts");
    }
}
