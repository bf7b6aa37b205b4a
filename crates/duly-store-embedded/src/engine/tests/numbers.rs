//! Numbers of namespaces that are reused: never while a record on disk refers to one.
//!
//! `DULY_NAMESPACE_CYCLES` sets how many namespaces are created and deleted, `DULY_NAMESPACE_NUMBERS` how
//! many numbers there are for them. `cargo xtask torture` runs it with 65,535 numbers.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::Settings;
use duly_store::namespaces::{DeleteMode, Secrets};

use super::*;
use crate::{journal::recovery, numbered::SORTED_RUNS, sorted_runs};

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Retention in the namespace whose timers come and go. All cycles take less than the time that timers
/// may have.
const RETENTION: Millis = Millis::from_secs(1);

struct Life {
    engine: Engine,
    disk: SimDisk,
    clock: ManualClock,
    numbers: u32,
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).unwrap()
}

impl Life {
    fn new(numbers: u32) -> Self {
        let options = Options {
            namespace_numbers: numbers,
            checkpoint_bytes: 24 << 10,
            young_bytes: 1,
            ..small()
        };
        let (mut engine, disk, clock) = opened(options);
        let settings = Box::new(Settings { retention: RETENTION, ..Settings::default() });
        engine.put_namespace(&shop(), Put::Replace { settings, secrets: Secrets::Set }).unwrap();
        let mut life = Self { engine, disk, clock, numbers };
        life.rest();
        life
    }

    fn rest(&mut self) {
        loop {
            self.engine.begin_step();
            if let Some(mark) = self.engine.commit().unwrap() {
                mark.file.sync_data().unwrap();
                self.engine.synced(mark.lsn, mark.position);
            }
            let work = self.engine.take_work();
            if work.is_empty() && !self.engine.is_busy() {
                return;
            }
            work.into_iter().for_each(|work| work()(&mut self.engine));
        }
    }

    fn reopen(&mut self) {
        self.rest();
        let options = self.engine.options.clone();
        self.disk = self.disk.kill();
        self.engine = open(&self.disk, options, &self.clock);
        self.rest();
    }

    fn schedule(&mut self, namespace: &NamespaceName, text: &str, after: Millis) {
        let schedule = Box::new(Schedule::new(id(text), When::After(after)));
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let command = Command { namespace: namespace.clone(), operation, answer: Answer::Brief };
        let outcome = self.engine.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
    }

    /// Returns the numbers that a record on disk names.
    fn named_on_disk(&self) -> BTreeSet<u32> {
        let (disk, manifest) = (&self.disk, &self.engine.manifest);
        let mut named = BTreeSet::new();
        for sequence in recovery::all_sequences(disk).unwrap() {
            let mut note = |_, decoded: crate::format::record::Decoded| {
                named.insert(decoded.namespace);
            };
            let read = recovery::read_segment(disk, manifest, sequence, &mut note).unwrap();
            assert!(read.is_none_or(|alone| alone.damage.is_empty()));
        }
        for run in SORTED_RUNS.list(disk).unwrap() {
            let run = sorted_runs::open(disk, run, manifest).unwrap();
            sorted_runs::walk(&run, &mut |_, decoded| {
                named.insert(decoded.namespace);
            })
            .unwrap();
        }
        named
    }

    /// Creates a namespace. Waits until the journal is rewritten if no number is free.
    fn make(&mut self, namespace: &NamespaceName) -> u32 {
        for round in 0.. {
            // With a large number of numbers that takes too long.
            let named = if self.numbers < 1_000 { self.named_on_disk() } else { BTreeSet::new() };
            match self.engine.put_namespace(namespace, Put::IfAbsent(Box::default())) {
                Ok(_) => {
                    let number = self.engine.namespaces.number_of(namespace).unwrap();
                    assert!(
                        !named.contains(&number),
                        "{number} is given although a record names it"
                    );
                    return number;
                }
                Err(error) => assert!(error.to_string().contains("numbers"), "{error}"),
            }
            assert!(round < 400, "no number becomes free");
            self.write_a_little();
        }
        unreachable!("the loop ends by a number or by an assertion")
    }

    /// Creates and ends timers in a namespace that stays.
    fn write_a_little(&mut self) {
        for round in 0..20 {
            let text = format!("filler{round}");
            self.schedule(&shop(), &text, Millis::from_secs(86_400));
            let operation = Operation::Cancel { id: id(&text), if_revision: None };
            let command = Command { namespace: shop(), operation, answer: Answer::Brief };
            self.engine.apply(command);
        }
        self.clock.advance(RETENTION);
        self.rest();
    }
}

#[test]
fn p4_a_number_is_used_again_only_when_no_record_refers_to_it() {
    let cycles = setting("DULY_NAMESPACE_CYCLES", 600);
    let numbers = setting("DULY_NAMESPACE_NUMBERS", 40);
    let mut life = Life::new(numbers);
    let stays = name("stays");
    life.make(&stays);
    life.schedule(&stays, "t", Millis::from_secs(3_000 * 86_400));
    let mut held: Vec<NamespaceName> = Vec::new();
    let mut given: BTreeMap<u32, u32> = BTreeMap::new();
    for cycle in 0..cycles {
        let namespace = name(&format!("n{cycle}"));
        let number = life.make(&namespace);
        *given.entry(number).or_default() += 1;
        // It has nothing of the namespace that had the number before.
        let made = life.engine.namespaces.get(number).unwrap();
        assert_eq!((made.pending(), made.dead(), made.tombstones.len()), (0, 0, 0));
        for (text, after) in [("t", 1_000), ("u", 86_400_000), ("v", 90 * 86_400_000)] {
            life.schedule(&namespace, text, Millis::from_ms(after + u64::from(cycle)));
        }
        held.push(namespace);
        // Some live for a while, so that their records are copied into runs.
        while held.len() > (cycle % 5) as usize {
            let gone = held.remove(0);
            life.engine.delete_namespace(&gone, DeleteMode::Force).unwrap();
        }
        if cycle % 7 == 0 {
            life.write_a_little();
        }
        if cycle % 101 == 100 {
            life.reopen();
        }
        let pending: u64 = life.engine.namespaces.sums.pending;
        assert_eq!(pending, 1 + 3 * held.len() as u64, "cycle {cycle}");
    }
    assert!(given.len() < numbers as usize && given.values().any(|times| *times > 1), "{given:?}");
    life.reopen();
    let stats = life.engine.namespaces.get(life.engine.namespaces.number_of(&stays).unwrap());
    assert_eq!(stats.unwrap().pending(), 1, "what stayed is there");
}
