//! Many races at once: rounds of timers on one store, with five callers each.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use duly_core::{Code, Millis, RetryPolicy, Settings, State, env::Clock};
use duly_store::{
    Firing, Operation, Outcome, Refusal, SettleOutcome, SettleVerdict, Stats, Store, Timers,
    conformance::ManualClock,
};
use duly_store_embedded::disk::SimDisk;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::checker::{Answered, Event, Fault, Verdict, check};
use crate::{
    harness::Shell,
    stage::open,
    steps::{
        SHARD, Step, Tokens, apply, cancel, claim, dead_letter_verdict, fire, get, name, perform,
        reschedule, retry_in, schedule, settle, wait,
    },
    twins::busy,
    workload::settings,
};

/// Timers of a round.
pub(super) const TIMERS: usize = 48;

/// A time that is ahead of the clock for the whole round.
const FAR_MS: u64 = 30_000;

/// The shortest lease.
const LEASE_MS: u64 = 1_000;

const RETRY_MS: u64 = 300;

/// A wrong reply, made now and then between the store and its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrongReply {
    /// A cancel is acknowledged and not done.
    CancelLies,
    /// A cancel is done, and its reply says that there is no such timer.
    CancelUntold,
    /// A change is acknowledged and not done.
    ChangeLies,
    /// The verdict on a lost lease is reported as accepted.
    StaleTaken,
    /// An `ack` is reported as accepted, but hands the firing back.
    AckForgotten,
    /// A firing is handed to two consumers.
    TwiceGranted,
    /// The clock of the store is ahead of the callers' clock.
    FiresEarly,
}

/// The result of many races.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) races: u64,
    pub(super) delivered: u64,
    pub(super) cancelled: u64,
    pub(super) dead: u64,
    pub(super) moved: u64,
    pub(super) refused_in_flight: u64,
    pub(super) stale_refused: u64,
    /// Faults, each with its timer.
    pub(super) faults: Vec<(Fault, String)>,
}

/// A firing that a caller holds or has held.
#[derive(Debug, Clone)]
struct HeldFiring {
    timer: usize,
    firing: Firing,
}

/// The numbers of a call's start and of its reply.
#[derive(Debug, Clone, Copy)]
struct CallSpan {
    made: u64,
    answered: u64,
    before_ms: u64,
    after_ms: u64,
}

impl CallSpan {
    const fn with(self, event: Event) -> Answered {
        let Self { made, answered, before_ms, after_ms } = self;
        Answered { made, answered, before_ms, after_ms, event }
    }
}

struct Round<'a> {
    store: &'a dyn Store,
    clock: &'a ManualClock,
    plant: Option<WrongReply>,
    numbers: AtomicU64,
    /// Makes every due time different.
    times: AtomicU64,
    number: u64,
    lives: Vec<Mutex<Vec<Answered>>>,
    held: Mutex<Vec<HeldFiring>>,
}

/// Runs `races` races, those of each seed on a store of its own.
pub(super) fn run(seed: u64, races: u64, plant: Option<WrongReply>) -> Tally {
    let clock = ManualClock::default();
    let disk = Arc::new(SimDisk::new(seed));
    let store = open(Shell::Threads, disk, &clock, busy(seed)).expect("a new store opens");
    let settings = Settings {
        retry: RetryPolicy::Delays(vec![Millis::from_ms(RETRY_MS); 40]),
        lease: Millis::from_ms(LEASE_MS),
        retention: Millis::from_secs(30 * 86_400),
        ..settings()
    };
    let put = Step::Put("shop", Box::new(settings));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy store answers");
    let mut tally = Tally::default();
    for number in 0..races.div_ceil(TIMERS as u64) {
        let round = Round {
            store: &store,
            clock: &clock,
            plant,
            numbers: AtomicU64::new(0),
            times: AtomicU64::new(0),
            number,
            lives: (0..TIMERS).map(|_| Mutex::default()).collect(),
            held: Mutex::default(),
        };
        round.race(seed);
        round.check(seed, &mut tally);
    }
    let stats: Stats = wait(store.stats(SHARD, name("shop")))
        .expect("a healthy store answers")
        .expect("the namespace is there");
    if plant.is_none() {
        let counted = [stats.totals.delivered, stats.totals.cancelled, stats.totals.dead];
        let told = [tally.delivered, tally.cancelled, tally.dead];
        assert_eq!(counted, told, "seed {seed}: the totals are what was answered");
        let left = [stats.scheduled, stats.due, stats.in_flight, stats.retrying];
        assert_eq!(left, [0; 4], "seed {seed}: nothing is left");
    }
    tally
}

impl Round<'_> {
    fn id(&self, timer: usize) -> String {
        format!("r{}-{timer}", self.number)
    }

    fn timer(firing: &Firing) -> usize {
        let (_, timer) = firing.id.as_str().split_once('-').expect("ids are made by `id`");
        timer.parse().expect("ids are made by `id`")
    }

    /// Returns the milliseconds since the start of the tests' clock, in the unit of timers' times.
    fn now_ms(&self) -> u64 {
        self.clock.now().unix_ms() - ManualClock::START.unix_ms()
    }

    fn ask<T>(&self, call: impl FnOnce() -> T) -> (T, CallSpan) {
        let (made, before_ms) = (self.number(), self.clock.now().unix_ms());
        let answer = call();
        let (after_ms, answered) = (self.clock.now().unix_ms(), self.number());
        (answer, CallSpan { made, answered, before_ms, after_ms })
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    fn lies(&self, plant: WrongReply) -> bool {
        self.plant == Some(plant) && self.numbers.load(Ordering::Relaxed).is_multiple_of(3)
    }

    fn race(&self, seed: u64) {
        let all: Vec<usize> = (0..TIMERS).collect();
        let mut random = self.random(seed, 9);
        let now_ms = self.now_ms();
        let operations = all.iter().map(|timer| {
            let ahead_ms = match random.random_range(0..4) {
                0 | 1 => 0,
                2 => random.random_range(1..1_500),
                _ => FAR_MS + self.time(),
            };
            (*timer, schedule(&self.id(*timer), now_ms + ahead_ms, 16))
        });
        self.apply(operations.collect());
        let barrier = Barrier::new(5);
        thread::scope(|scope| {
            for role in 0..5 {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut random = self.random(seed, role);
                    barrier.wait();
                    match role {
                        0 => self.cancels(&mut random),
                        1 => self.moves(&mut random),
                        2 => self.time_passes(&mut random),
                        _ => self.delivers(&mut random),
                    }
                });
            }
        });
        self.drain();
    }

    fn random(&self, seed: u64, role: u64) -> StdRng {
        StdRng::seed_from_u64((seed << 32) ^ (self.number << 4) ^ role)
    }

    fn time(&self) -> u64 {
        self.times.fetch_add(1, Ordering::Relaxed)
    }

    fn apply(&self, wanted: Vec<(usize, Operation)>) {
        let (timers, operations): (Vec<usize>, Vec<Operation>) = wanted.into_iter().unzip();
        let is_cancel = matches!(operations.first(), Some(Operation::Cancel { .. }));
        let is_change = matches!(operations.first(), Some(Operation::Reschedule { .. }));
        let lie = is_cancel && self.lies(WrongReply::CancelLies)
            || is_change && self.lies(WrongReply::ChangeLies);
        let told: Vec<Operation> = match lie {
            // Asks about timers that do not exist, so that nothing is done.
            true => operations.iter().map(|_| cancel("nobody")).collect(),
            false => operations.clone(),
        };
        let (outcomes, asked) =
            self.ask(|| apply(self.store, "shop", told).expect("a healthy store answers"));
        for ((timer, operation), outcome) in timers.into_iter().zip(operations).zip(outcomes) {
            let event = match outcome {
                _ if lie => Some(wrong_event(&operation)),
                Outcome::Cancelled { .. } if self.lies(WrongReply::CancelUntold) => None,
                Outcome::Created(view) => Some(Event::Made { due_ms: view.due_at().unix_ms() }),
                Outcome::Changed(view) => Some(Event::Moved { due_ms: view.due_at().unix_ms() }),
                Outcome::Cancelled { already: false, .. } => Some(Event::Cancelled),
                Outcome::Refused(Refusal::State { code: Code::InFlight, .. }) if is_cancel => {
                    Some(Event::InFlight)
                }
                _ => None,
            };
            self.lives[timer].lock().extend(event.map(|event| asked.with(event)));
        }
    }

    /// Passes some of the timers, in any order, a few at a time.
    fn some(&self, random: &mut StdRng, of_ten: u32, mut with: impl FnMut(&mut StdRng, &[usize])) {
        let mut timers: Vec<usize> =
            (0..TIMERS).filter(|_| random.random_ratio(of_ten, 10)).collect();
        timers.shuffle(random);
        let mut rest = timers.as_slice();
        while !rest.is_empty() {
            let (few, others) = rest.split_at(random.random_range(1..=rest.len().min(6)));
            with(random, few);
            rest = others;
        }
    }

    fn cancels(&self, random: &mut StdRng) {
        self.some(random, 4, |_, few| {
            self.apply(few.iter().map(|timer| (*timer, cancel(&self.id(*timer)))).collect());
        });
    }

    fn moves(&self, random: &mut StdRng) {
        self.some(random, 6, |random, few| {
            let kind = random.random_range(0..3);
            let operations = few.iter().map(|timer| {
                let id = self.id(*timer);
                let operation = match kind {
                    0 => fire(&id),
                    1 => reschedule(&id, self.now_ms() + random.random_range(0..900)),
                    _ => reschedule(&id, self.now_ms() + FAR_MS + self.time()),
                };
                (*timer, operation)
            });
            self.apply(operations.collect());
        });
    }

    fn time_passes(&self, random: &mut StdRng) {
        for _ in 0..10 {
            for _ in 0..random.random_range(0..40) {
                thread::yield_now();
            }
            self.clock.advance(Millis::from_ms(random.random_range(1..600)));
        }
    }

    fn delivers(&self, random: &mut StdRng) {
        for _ in 0..8 {
            let granted = self.claim(random.random_range(1..16));
            let mut held = self.held.lock();
            held.extend(granted);
            let many = held.len().min(random.random_range(0..12));
            let mut taken = Vec::new();
            for _ in 0..many {
                let i = random.random_range(0..held.len());
                // Tokens are used late, more than once, and by two callers at once.
                taken.push(match random.random_ratio(2, 3) {
                    true => held.swap_remove(i),
                    false => held[i].clone(),
                });
                if held.is_empty() {
                    break;
                }
            }
            drop(held);
            for held in taken {
                let (said, verdict) = verdict(random);
                self.settle(&held, said, verdict);
            }
        }
    }

    fn claim(&self, most: usize) -> Vec<HeldFiring> {
        let ahead_ms = if self.lies(WrongReply::FiresEarly) { 700 } else { 0 };
        let (firings, asked) = self.ask(|| {
            self.clock.step_wall(ahead_ms);
            let firings = claim(self.store, "shop", most).expect("a healthy store answers");
            self.clock.step_wall(-ahead_ms);
            firings
        });
        let granted = firings.into_iter().map(|firing| {
            let timer = Self::timer(&firing);
            let event = Event::Claimed {
                token: firing.token.to_string(),
                due_ms: firing.due_at.unix_ms(),
                leased_until_ms: firing.leased_until.map_or(u64::MAX, |until| until.unix_ms()),
            };
            let again = self.lies(WrongReply::TwiceGranted).then(|| asked.with(event.clone()));
            let mut life = self.lives[timer].lock();
            life.push(asked.with(event));
            life.extend(again.map(|mut again| {
                (again.made, again.answered) = (self.number(), self.number());
                again
            }));
            HeldFiring { timer, firing }
        });
        granted.collect()
    }

    fn settle(&self, held: &HeldFiring, said: Verdict, verdict: SettleVerdict) {
        let forgets = said == Verdict::Ack && self.lies(WrongReply::AckForgotten);
        let verdict = if forgets { SettleVerdict::Release } else { verdict };
        let (mut outcome, asked) = self.ask(|| {
            settle(self.store, "shop", &held.firing.token, verdict)
                .expect("a healthy store answers")
        });
        if outcome == SettleOutcome::LeaseLost && self.lies(WrongReply::StaleTaken) {
            outcome = SettleOutcome::Ok;
        }
        let token = held.firing.token.to_string();
        let settled = asked.with(Event::Settled { token, said, outcome });
        self.lives[held.timer].lock().push(settled);
    }

    /// Makes no more wrong replies until every timer has ended.
    fn drain(&self) {
        self.clock.advance(Millis::from_ms(2 * FAR_MS));
        for _ in 0..1_000 {
            let granted = self.claim(TIMERS);
            for held in &granted {
                self.settle(held, Verdict::Ack, SettleVerdict::Ack);
            }
            if granted.is_empty() {
                if (0..TIMERS).all(|timer| self.end(timer).is_none_or(|end| !end.is_pending())) {
                    return;
                }
                self.clock.advance(Millis::from_ms(LEASE_MS));
            }
        }
        // The rest is checked.
    }

    fn end(&self, timer: usize) -> Option<State> {
        get(self.store, "shop", &self.id(timer)).map(|view| view.state)
    }

    fn check(&self, seed: u64, tally: &mut Tally) {
        for timer in 0..TIMERS {
            let life = self.lives[timer].lock();
            let end = self.end(timer);
            tally.races += 1;
            for answered in life.iter() {
                match answered.end() {
                    Some(State::Finished) => tally.delivered += 1,
                    Some(State::Cancelled) => tally.cancelled += 1,
                    Some(_) => tally.dead += 1,
                    None => {}
                }
                match &answered.event {
                    Event::Moved { .. } => tally.moved += 1,
                    Event::InFlight => tally.refused_in_flight += 1,
                    Event::Settled { outcome: SettleOutcome::LeaseLost, .. } => {
                        tally.stale_refused += 1;
                    }
                    _ => {}
                }
            }
            for fault in check(&life, end) {
                let id = self.id(timer);
                tally.faults.push((fault, format!("seed {seed}, {id}, {end:?}: {life:#?}")));
            }
        }
    }
}

/// Returns the wrong reply for an operation that was not done.
fn wrong_event(operation: &Operation) -> Event {
    match operation {
        Operation::Reschedule { patch, .. } => {
            let due_ms = match &patch.when {
                Some(duly_core::schedule::When::At(at)) => at.unix_ms(),
                _ => 0,
            };
            Event::Moved { due_ms }
        }
        _ => Event::Cancelled,
    }
}

fn verdict(random: &mut StdRng) -> (Verdict, SettleVerdict) {
    match random.random_range(0..10) {
        0..5 => (Verdict::Ack, SettleVerdict::Ack),
        5 => (Verdict::Dead, dead_letter_verdict()),
        6 | 7 => (Verdict::Retry { wait_ms: RETRY_MS }, retry_in(RETRY_MS)),
        8 => (Verdict::Release, SettleVerdict::Release),
        _ => {
            let lease = Millis::from_ms(2 * LEASE_MS);
            (Verdict::Extend { lease_ms: 2 * LEASE_MS }, SettleVerdict::Extend { lease })
        }
    }
}
