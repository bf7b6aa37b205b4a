//! Random operations on a disk with bad places: counts are exact after each step, no timer fires twice,
//! and the rest fires when the disk recovers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum RandomStep {
    Schedule {
        after_ms: u64,
        expires: bool,
    },
    /// The bad bytes: those of some timers, by a mask.
    Spoil(u64),
    Claim(usize),
    Fail(usize),
    Cancel(usize),
    Fire(usize),
    Advance(u64),
    Back(u64),
}

fn step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        6 => (0_u64..20_000, any::<bool>())
            .prop_map(|(after_ms, expires)| RandomStep::Schedule { after_ms, expires }),
        2 => any::<u64>().prop_map(RandomStep::Spoil),
        3 => (1_usize..20).prop_map(RandomStep::Claim),
        2 => (1_usize..5).prop_map(RandomStep::Fail),
        1 => any::<usize>().prop_map(RandomStep::Cancel),
        1 => any::<usize>().prop_map(RandomStep::Fire),
        3 => (1_u64..40_000).prop_map(RandomStep::Advance),
        1 => (1_u64..30_000).prop_map(RandomStep::Back),
    ]
}

fn take(bench: &mut Bench, keys: &mut Vec<Key>, done: &mut BTreeSet<String>, step: &RandomStep) {
    let name = |nth: usize| id(&format!("t{nth}"));
    match *step {
        RandomStep::Schedule { after_ms, expires } => {
            let due = When::After(Millis::from_ms(after_ms));
            let mut schedule = Schedule::new(name(keys.len()), due);
            schedule.spec.expire_after = expires.then_some(Millis::from_ms(3 * after_ms + 1));
            keys.push(bench.schedule(schedule));
        }
        RandomStep::Spoil(mask) => {
            let is_bad = |nth: &usize| mask >> (nth % 64) & 1 == 1;
            let bad: Vec<Key> = (0..keys.len()).filter(is_bad).map(|nth| keys[nth]).collect();
            bench.spoil(&bad);
        }
        RandomStep::Claim(most) => {
            for firing in bench.claim(most).firings {
                bench.give(&firing, SettleVerdict::Ack);
                assert!(done.insert(firing.id.to_string()), "{} fired twice", firing.id);
            }
        }
        RandomStep::Fail(most) => {
            for firing in bench.claim(most).firings {
                let wait = Wait::Exactly(Millis::from_secs(7));
                let (outcome, reason) = (AttemptOutcome::TimedOut, "late".to_owned());
                // The record may be unreadable by now.
                let verdict = SettleVerdict::Retry { wait, outcome, reason };
                let settlement =
                    Settlement { token: firing.token.clone(), namespace: None, verdict };
                drop(bench.engine.settle(&settlement));
                bench.settle();
            }
        }
        RandomStep::Cancel(nth) if !keys.is_empty() => {
            let id = name(nth % keys.len());
            let operation = Operation::Cancel { id: id.clone(), if_revision: None };
            if let Outcome::Cancelled { already: false, .. } = bench.apply(operation) {
                assert!(done.insert(id.to_string()), "{id} was cancelled after it fired");
            }
        }
        RandomStep::Fire(nth) if !keys.is_empty() => {
            bench.apply(Operation::Fire { id: name(nth % keys.len()) });
        }
        RandomStep::Advance(by_ms) => bench.advance(Millis::from_ms(by_ms)),
        RandomStep::Back(by_ms) => {
            bench.clock.step_wall(-i64::try_from(by_ms).expect("it is small"));
            bench.settle();
        }
        RandomStep::Cancel(_) | RandomStep::Fire(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn p1_counts_stay_exact_and_everything_fires_once(
        steps in prop::collection::vec(step(), 1..120),
        most in prop::option::of(0_usize..4),
    ) {
        let (mut bench, mut keys, mut done) = (Bench::new(), Vec::new(), BTreeSet::new());
        bench.steps = most;
        for step in &steps {
            take(&mut bench, &mut keys, &mut done, step);
            bench.check();
        }
        bench.disk.spoil([]);
        bench.steps = None;
        // Leases end, clocks catch up, retries come.
        for _ in 0..20 {
            bench.advance(Millis::from_secs(60));
            for id in bench.deliver() {
                prop_assert!(done.insert(id.clone()), "{} fired twice", id);
            }
            bench.check();
        }
        let health = bench.engine.health();
        prop_assert_eq!(done.len() as u64 + health.dead, keys.len() as u64);
        prop_assert_eq!(health.pending, 0);
    }
}
