//! A large number of namespaces: the cost of a deletion does not grow with their number, nor that of the
//! call with the content. The counters of all others stay, over crashes too.
//!
//! `DULY_MANY_NAMESPACES` sets the number; 100,000 is what a store is built for.

use std::collections::BTreeMap;

use duly_store::{Stats, namespaces::DeleteMode};

use super::*;

/// Timers of each.
const TIMERS: u32 = 10;
/// Timers of the largest one.
const LARGE: u32 = 2_000;
/// One of every `FIRING` has timers that fire.
const FIRING: u32 = 200;

struct Many {
    engine: Engine,
    disk: SimDisk,
    clock: ManualClock,
    count: u32,
}

/// The cost of a piece of work, in units that do not depend on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    frames: u64,
    journal_bytes: u64,
    disk_operations: u64,
    steps: u32,
    background: usize,
}

fn options() -> Options {
    // Some checkpoints on the way; none for one more record.
    let checkpoint_bytes = 8 << 20;
    Options {
        segment_bytes: 1 << 20,
        checkpoint_bytes,
        young_bytes: 1 << 40,
        namespaces_max: u64::MAX,
        ..small()
    }
}

fn namespace(number: u32) -> NamespaceName {
    NamespaceName::new(&format!("n{number:06}")).unwrap()
}

fn large() -> NamespaceName {
    NamespaceName::new("large").unwrap()
}

impl Many {
    fn new(count: u32) -> Self {
        let (engine, disk, clock) = opened(options());
        let mut many = Self { engine, disk, clock, count };
        many.make(large(), LARGE);
        for number in 0..count {
            many.make(namespace(number), TIMERS);
            if number % FIRING == 0 {
                many.fire(number);
            }
        }
        many.rest();
        many
    }

    fn apply(&mut self, namespace: &NamespaceName, operation: Operation) {
        let command = Command { namespace: namespace.clone(), operation, answer: Answer::Brief };
        let outcome = self.engine.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
    }

    fn schedule(&mut self, namespace: &NamespaceName, text: &str, after: Millis) {
        let schedule = Box::new(Schedule::new(id(text), When::After(after)));
        self.apply(namespace, Operation::Schedule { schedule, if_exists: IfExists::Fail });
    }

    /// Makes a namespace in which one of ten timers is cancelled and another rescheduled.
    fn make(&mut self, name: NamespaceName, timers: u32) {
        self.engine.put_namespace(&name, Put::IfAbsent(Box::default())).unwrap();
        for number in 0..timers {
            let text = format!("t{number}");
            self.schedule(&name, &text, Millis::from_secs(86_400));
            let id = id(&text);
            match number % 10 {
                3 => self.apply(&name, Operation::Cancel { id, if_revision: None }),
                7 => {
                    let when = Some(When::After(Millis::from_secs(99_999)));
                    let patch = Box::new(Patch { when, ..Patch::default() });
                    self.apply(&name, Operation::Reschedule { id, patch, if_revision: None });
                }
                _ => {}
            }
        }
        if self.engine.uncommitted_bytes() > 100_000 {
            self.step();
        }
    }

    /// Acknowledges one timer, dead-letters one, retries one, leases one.
    fn fire(&mut self, number: u32) {
        let name = namespace(number);
        let texts = ["acked", "dead", "retried", "leased"];
        texts.iter().for_each(|text| self.schedule(&name, text, Millis::ZERO));
        // Timers that are durable in one step can be claimed in the next.
        self.step();
        self.engine.begin_step();
        let request = ClaimRequest {
            lanes: vec![LaneClaim {
                lane: Lane { namespace: name, key: LaneKey::Pull },
                first_max: 10,
                retry_max: 0,
            }],
            total_max: 10,
            bytes_max: u64::MAX,
            owner: Owner::Consumer { lease: Some(Millis::from_secs(3_600)) },
        };
        let firings = self.engine.claim(&request).unwrap().firings;
        assert_eq!(firings.len(), texts.len());
        for firing in firings {
            let (outcome, reason) = (AttemptOutcome::Failed, "503".to_owned());
            let wait = Wait::Exactly(Millis::from_secs(3_600));
            let verdict = match firing.id.as_str() {
                "acked" => SettleVerdict::Ack,
                "dead" => SettleVerdict::Dead { reason },
                "retried" => SettleVerdict::Retry { wait, outcome, reason },
                _ => continue,
            };
            let settlement = Settlement { token: firing.token, namespace: None, verdict };
            self.engine.settle(&settlement).unwrap();
        }
    }

    /// Runs one step. Returns the number of pieces of work that it handed over.
    fn step(&mut self) -> usize {
        self.engine.begin_step();
        self.commit();
        let work = self.engine.take_work();
        let count = work.len();
        work.into_iter().for_each(|work| work()(&mut self.engine));
        count
    }

    fn commit(&mut self) {
        if let Some(mark) = self.engine.commit().unwrap() {
            mark.file.sync_data().unwrap();
            self.engine.synced(mark.lsn, mark.position);
        }
    }

    /// Runs steps until nothing is left to do. Returns their number, and the pieces of work.
    fn rest(&mut self) -> (u32, usize) {
        let (mut steps, mut background) = (1, self.step());
        while self.engine.is_busy() {
            background += self.step();
            steps += 1;
        }
        (steps, background)
    }

    /// Deletes a namespace. Returns the cost of the call, and of everything that follows.
    fn delete(&mut self, name: &NamespaceName) -> [Cost; 2] {
        while self.rest().1 > 0 {}
        let now = |many: &Self| {
            let frames = many.engine.lsns().0;
            (frames, many.engine.journal.bytes_written, many.disk.ops())
        };
        let cost = |before: (u64, u64, u64), after: (u64, u64, u64), (steps, background)| Cost {
            frames: after.0 - before.0,
            journal_bytes: after.1 - before.1,
            disk_operations: after.2 - before.2,
            steps,
            background,
        };
        let before = now(self);
        self.engine.delete_namespace(name, DeleteMode::Force).unwrap();
        self.commit();
        let called = now(self);
        let rest = self.rest();
        [cost(before, called, (0, 0)), cost(called, now(self), rest)]
    }

    /// Returns the counters of all namespaces.
    fn counters(&self) -> BTreeMap<NamespaceName, Stats> {
        let all = self.engine.namespaces.iter().map(|(number, namespace)| {
            let stats = self.engine.counts_of(number).expect("it is there");
            (namespace.record.name.clone(), stats)
        });
        all.collect()
    }

    /// The store after a power loss.
    fn crashed(self) -> Self {
        let Self { engine, disk, clock, count } = self;
        let disk = disk.crash();
        drop(engine);
        let engine = open(&disk, options(), &clock);
        let mut many = Self { engine, disk, clock, count };
        many.rest();
        many
    }
}

/// Returns the first namespace whose counters differ, if there is one.
fn difference(
    one: &BTreeMap<NamespaceName, Stats>,
    other: &BTreeMap<NamespaceName, Stats>,
) -> String {
    let names = one.keys().chain(other.keys());
    let differ = names.filter(|name| one.get(*name) != other.get(*name)).take(3);
    differ.map(|name| format!("{name}: {:?}, {:?}\n", one.get(name), other.get(name))).collect()
}

fn count() -> u32 {
    let given = std::env::var("DULY_MANY_NAMESPACES").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(20_000)
}

#[test]
fn p1_t28_deletion_cost_is_independent_of_namespace_count() {
    let (mut few, mut many) = (Many::new(10), Many::new(count()));
    let before = many.counters();
    assert_eq!(before.len() as u32, many.count + 2, "with the large and the empty one");
    let sums = many.engine.namespaces.sums.pending;
    assert_eq!(
        sums,
        before.values().map(|it| it.scheduled + it.in_flight + it.retrying).sum::<u64>()
    );

    // The cost is the same for many namespaces or few; that of the call also for one with much more
    // content.
    let deleted = many.delete(&namespace(5));
    assert_eq!(deleted, few.delete(&namespace(5)), "of {} namespaces, and of 10", many.count);
    let [call, _] = deleted;
    assert_eq!(
        (call.frames, call.disk_operations),
        (1, 2),
        "a frame, written and synced: {call:?}"
    );
    let [large_call, after] = many.delete(&large());
    assert_eq!(large_call, call, "of {LARGE} timers, and of {TIMERS}");
    assert!(after.steps <= 64 && after.disk_operations == 0, "it is counted out: {after:?}");

    let mut expected = before;
    for gone in [namespace(5), large()] {
        assert!(expected.remove(&gone).is_some(), "it was there");
    }
    assert_eq!(difference(&many.counters(), &expected), "", "others lost something");
    let mut many = many.crashed();
    assert_eq!(difference(&many.counters(), &expected), "", "after a power loss");

    // Purged: created again under its name, it is empty, and nothing of the old one comes back.
    let purged = namespace(0);
    assert!(expected[&purged].in_flight + expected[&purged].dead > 0, "there is something to go");
    many.delete(&purged);
    many.engine.put_namespace(&purged, Put::IfAbsent(Box::default())).unwrap();
    many.commit();
    let number = many.engine.namespaces.number_of(&purged).unwrap();
    expected.insert(purged, many.engine.counts_of(number).unwrap());
    let many = many.crashed();
    assert_eq!(difference(&many.counters(), &expected), "", "after another");
    assert_eq!(many.engine.broken_invariants(), []);
}

/// Regression: 480 bytes were counted for a namespace with 15 KB of settings.
#[test]
fn p10_settings_of_namespaces_count_as_memory_of_the_index() {
    use duly_core::{Destination, Settings, destination::HttpDestination, headers::Headers};
    let (mut engine, _disk, _clock) =
        opened(Options { index_memory_max_bytes: 1 << 20, ..small() });
    let headers = || Headers::new([("x-large".to_owned(), "x".repeat(7_000))]).unwrap();
    let receiver = || {
        let mut receiver = HttpDestination::new("https://receiver.test/").unwrap();
        receiver.headers = headers();
        receiver
    };
    let large = || {
        let destination = Destination::Http(receiver());
        let fallback = Some(duly_core::namespace::Fallback {
            destination: destination.clone(),
            after_attempts: 1,
            after_open: Millis::ZERO,
        });
        Box::new(Settings { destination, fallback, ..Settings::default() })
    };
    let bytes = |engine: &Engine| engine.namespaces.sums.index_bytes;
    let before = bytes(&engine);
    let replace =
        |settings| Put::Replace { settings, secrets: duly_store::namespaces::Secrets::Set };
    engine.put_namespace(&namespace(0), Put::IfAbsent(Box::default())).unwrap();
    let small_bytes = bytes(&engine) - before;
    assert!(small_bytes > 1_500, "{small_bytes}");
    engine.put_namespace(&namespace(0), replace(large())).unwrap();
    assert!(bytes(&engine) - before > small_bytes + 14_000, "{}", bytes(&engine) - before);
    // Only as many fit as the memory allows, and the existing ones cannot grow past it either.
    engine.put_namespace(&namespace(1), Put::IfAbsent(Box::default())).unwrap();
    let mut count = 2;
    let refused = loop {
        engine.space.checked_ms = None;
        engine.check_space();
        match engine.put_namespace(&namespace(count), replace(large())) {
            Ok(_) => count += 1,
            Err(refused) => break refused,
        }
    };
    assert!(refused.to_string().contains("store.index_memory_max"), "{refused}");
    assert!((30..80).contains(&count), "{count}");
    engine.put_namespace(&namespace(1), replace(large())).unwrap_err();
    engine.put_namespace(&namespace(1), replace(Box::default())).unwrap();
    engine.delete_namespace(&namespace(0), DeleteMode::IfEmpty).unwrap();
    assert!(bytes(&engine) < 1 << 20);
}
