//! Random steps and random faults: crashes within any operation, failed syncs, kills, power losses,
//! steps of the wall clock. The store is always compared with its healthy twin.

use std::collections::BTreeSet;

use duly_core::{Millis, schedule::IfExists};
use duly_store::{Operation, SettleVerdict, namespaces::Activity};
use duly_store_embedded::disk::Fault;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    seeds::{Repeat, number},
    steps::{
        Step, cancel, dead_letter_verdict, fire, payload, purge, put_timer, redrive, repay,
        reschedule, retry_in,
    },
    twins::{Loss, Stepped, Twins},
    workload::{forgetful, settings},
};

const NAMESPACES: [&str; 2] = ["shop", "brief"];
const IDS: u32 = 12;

/// The source of random steps, and its clock in milliseconds since the start.
struct Course {
    random: StdRng,
    now_ms: u64,
    made: u64,
}

impl Course {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())]
    }

    fn id(&mut self) -> String {
        format!("t{}", self.random.random_range(0..IDS))
    }

    fn time(&mut self) -> u64 {
        self.now_ms + self.pick(&[0, 0, 1, 500, 3_000, 40_000, 3_000_000])
    }

    fn schedule(&mut self, id: &str) -> Operation {
        self.made += 1;
        let bytes = self.pick(&[0, 20, 300, 5_000, 12_000]);
        let payload = payload(&format!("p{}", self.made), bytes);
        let if_exists = self.pick(&[IfExists::Fail, IfExists::Keep, IfExists::Replace]);
        put_timer(id, self.time(), payload, if_exists)
    }

    fn operation(&mut self, id: String) -> Operation {
        match self.random.random_range(0..12) {
            0..4 => self.schedule(&id),
            4..7 => cancel(&id),
            7 => reschedule(&id, self.time()),
            8 => repay(&id, payload(&format!("again {}", self.made), 2_000)),
            9 => fire(&id),
            10 => redrive(&id, self.pick(&[0, 1_000])),
            _ => purge(&id),
        }
    }

    fn verdict(&mut self) -> SettleVerdict {
        match self.random.random_range(0..8) {
            0..3 => SettleVerdict::Ack,
            3 => retry_in(0),
            4 => retry_in(2_000),
            5 => dead_letter_verdict(),
            6 => SettleVerdict::Extend { lease: Millis::from_secs(60) },
            _ => SettleVerdict::Release,
        }
    }

    fn step(&mut self) -> Step {
        let namespace = self.pick(&NAMESPACES);
        match self.random.random_range(0..40) {
            0..20 => {
                // Each id once: after a crash it has its old state or the requested one.
                let count = self.pick(&[1, 1, 2, 5, 9]);
                let ids: BTreeSet<String> = (0..count).map(|_| self.id()).collect();
                Step::Apply(namespace, ids.into_iter().map(|id| self.operation(id)).collect())
            }
            20..27 => Step::Claim(namespace, self.pick(&[1, 2, 10])),
            27..35 => Step::Settle(namespace, self.id(), self.verdict()),
            35 => Step::Activity(namespace, Activity::Paused),
            36 => Step::Activity(namespace, Activity::Running),
            37 => Step::Delete("brief"),
            _ => match namespace {
                "shop" => Step::Put(namespace, Box::new(settings())),
                _ => Step::Put(namespace, Box::new(forgetful())),
            },
        }
    }

    /// Moves the clocks, mostly forward.
    fn pass_time(&mut self, twins: &Twins) {
        let by_ms = self.pick(&[1, 100, 1_000, 5_000, 31_000, 120_000]);
        if self.random.random_ratio(1, 6) {
            let step_ms = self.random.random_range(-20_000..20_000);
            twins.clock.step_wall(step_ms);
        } else {
            twins.clock.advance(Millis::from_ms(by_ms));
            self.now_ms += by_ms;
        }
    }

    fn plan(&mut self, twins: &Twins) {
        let ahead = self.random.random_range(1..40);
        let fault = match self.random.random_range(0..3) {
            0 => Fault::ErrorAtSync(1 + ahead / 2),
            _ => Fault::CrashAtOp(ahead),
        };
        twins.subject.disk.plan(fault);
    }
}

fn simulate(seed: u64, steps: u64) -> Result<u64, String> {
    let mut course = Course { random: StdRng::seed_from_u64(seed), now_ms: 0, made: 0 };
    let mut twins = Twins::new(seed);
    let mut restarts = 0;
    for namespace in NAMESPACES {
        let made = twins.step(&Step::Put(namespace, Box::new(settings())));
        assert!(matches!(made, Stepped::Done(_)), "{made:?}");
    }
    for place in 0..steps {
        let loss = course.pick(&[Loss::Power, Loss::Process]);
        let step = match course.random.random_range(0..100) {
            0..5 => {
                course.plan(&twins);
                continue;
            }
            5..7 => {
                twins
                    .restart(loss, None, |left, _| left)
                    .map_err(|wrong| format!("step {place}, {loss:?}: {wrong}"))?;
                restarts += 1;
                continue;
            }
            7..20 => {
                course.pass_time(&twins);
                Step::Tick
            }
            _ => course.step(),
        };
        let error = match twins.step(&step) {
            Stepped::Done(_) => continue,
            Stepped::Parted => break,
            Stepped::Failed(error) => error,
        };
        restarts += 1;
        // A file system that cannot write its directories shuts down: only what reached the disk is
        // found next.
        let is_shut_down = error.to_string().contains("cannot sync directory");
        let loss = if is_shut_down { Loss::Power } else { loss };
        twins
            .restart(loss, Some(&step), |left, _| left)
            .map_err(|wrong| format!("step {place}, {loss:?} within {step:.400?}: {wrong}"))?;
    }
    Ok(restarts)
}

#[test]
fn p1_p2_p4_p5_p8_hold_over_random_steps_and_misfortunes() {
    let first = number("DULY_CRASH_SEED", 1);
    let mut restarts = 0;
    for seed in first..first + number("DULY_CRASH_SEEDS", 40) {
        let steps = number("DULY_CRASH_STEPS", 300);
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1), ("DULY_CRASH_STEPS", steps)];
        let _repeat = Repeat::new("simulation", &one);
        restarts += simulate(seed, steps).expect("nothing is wrong");
    }
    assert!(restarts > 0, "something went wrong somewhere");
}
