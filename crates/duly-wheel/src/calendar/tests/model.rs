//! Random histories, checked call by call against a sorted map. The cases are the same in every
//! execution.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::super::Calendar;
use super::super::node::SMALL_ENTRIES;
use super::{DAY_MS, NOW_MS};

const CASES: u32 = 3_000;

#[derive(Clone, Debug)]
enum Step {
    Insert {
        ahead_ms: i64,
    },
    /// Enough entries to make a bucket spread.
    InsertMany {
        ahead_ms: i64,
        apart_ms: u64,
    },
    Pop {
        limit: usize,
    },
    Prepare {
        budget: usize,
    },
    MoveClock {
        by_ms: i64,
    },
}

#[derive(Default)]
struct Model {
    values: BTreeMap<u64, Vec<u32>>,
    len: usize,
}

impl Model {
    fn insert(&mut self, due_ms: u64, value: u32) {
        self.values.entry(due_ms).or_default().push(value);
        self.len += 1;
    }

    fn next_due(&self) -> Option<u64> {
        self.values.keys().next().copied()
    }

    /// Removes an entry that the calendar popped; it must be one of the earliest.
    fn remove_first(&mut self, due_ms: u64, value: u32) {
        assert_eq!(self.next_due(), Some(due_ms), "popped out of order");
        let mut first = self.values.first_entry().expect("there is a next due");
        let values = first.get_mut();
        let at = values.iter().rposition(|&known| known == value);
        values.swap_remove(at.expect("popped what was never inserted, or twice"));
        if values.is_empty() {
            first.remove();
        }
        self.len -= 1;
    }

    fn has_due(&self, now_ms: u64) -> bool {
        self.next_due().is_some_and(|due_ms| due_ms <= now_ms)
    }
}

struct Pair {
    calendar: Calendar<u32>,
    model: Model,
    now_ms: u64,
    inserted: u32,
}

impl Pair {
    fn insert(&mut self, due_ms: u64) {
        self.calendar.insert(due_ms, self.inserted);
        self.model.insert(due_ms, self.inserted);
        self.inserted += 1;
    }

    fn pop(&mut self, limit: usize) {
        let mut out = Vec::new();
        let more = self.calendar.pop_due(self.now_ms, limit, &mut out);
        assert!(out.len() <= limit);
        for &(due_ms, value) in &out {
            assert!(due_ms <= self.now_ms, "popped early");
            self.model.remove_first(due_ms, value);
        }
        assert_eq!(more, self.model.has_due(self.now_ms));
        assert!(out.len() == limit || !more, "stopped short of the limit");
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Insert { ahead_ms } => self.insert(self.now_ms.saturating_add_signed(ahead_ms)),
            Step::InsertMany { ahead_ms, apart_ms } => {
                let start_ms = self.now_ms.saturating_add_signed(ahead_ms);
                for i in 0..2 * SMALL_ENTRIES as u64 + 100 {
                    self.insert(start_ms.saturating_add(i * apart_ms));
                }
            }
            Step::Pop { limit } => self.pop(limit),
            Step::Prepare { budget } => {
                self.calendar.prepare(self.now_ms, budget);
            }
            Step::MoveClock { by_ms } => self.now_ms = self.now_ms.saturating_add_signed(by_ms),
        }
        assert_eq!(self.calendar.len(), self.model.len);
        assert_eq!(self.calendar.is_empty(), self.model.len == 0);
        assert_eq!(self.calendar.next_due(), self.model.next_due());
    }
}

/// Distances from a millisecond to centuries, in both directions, denser around the boundaries of the
/// levels.
fn distance_ms() -> impl Strategy<Value = i64> {
    let day_ms = DAY_MS as i64;
    prop_oneof![
        4 => -5..5_i64,
        4 => -300..2_000_i64,
        3 => -100_000..100_000_i64,
        2 => -day_ms..day_ms,
        2 => -60 * day_ms..60 * day_ms,
        1 => -36_500 * day_ms..73_000 * day_ms,
        2 => (0..5_u32, -2..3_i64).prop_map(|(level, near)| (1_i64 << (8 * level)) + near),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let apart_ms = prop_oneof![0..3_u64, 0..300_u64, 0..100_000_u64, 0..DAY_MS];
    let limit = prop_oneof![0..4_usize, 0..300_usize, Just(10_000_usize)];
    prop_oneof![
        8 => distance_ms().prop_map(|ahead_ms| Step::Insert { ahead_ms }),
        1 => (distance_ms(), apart_ms)
            .prop_map(|(ahead_ms, apart_ms)| Step::InsertMany { ahead_ms, apart_ms }),
        6 => limit.prop_map(|limit| Step::Pop { limit }),
        3 => (0..1_500_usize).prop_map(|budget| Step::Prepare { budget }),
        4 => distance_ms().prop_map(|by_ms| Step::MoveClock { by_ms }),
    ]
}

fn start_ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(NOW_MS),
        2 => (400..430_u64).prop_map(|era| era << 32),
        1 => Just(0),
        1 => Just(u64::MAX),
        2 => any::<u64>(),
    ]
}

#[test]
fn any_history_equals_a_sorted_map() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let histories = (start_ms(), prop::collection::vec(step(), 1..60));
    runner
        .run(&histories, |(start_ms, steps)| {
            let mut pair = Pair {
                calendar: Calendar::new(),
                model: Model::default(),
                now_ms: start_ms,
                inserted: 0,
            };
            for step in &steps {
                pair.step(step);
            }
            pair.now_ms = u64::MAX;
            while !pair.calendar.is_empty() {
                pair.pop(700);
            }
            assert_eq!((pair.model.len, pair.calendar.heap_bytes()), (0, 0));
            Ok(())
        })
        .unwrap();
}
