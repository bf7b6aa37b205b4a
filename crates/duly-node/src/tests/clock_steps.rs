//! The wall clock is set forward and back while timers fire, on the embedded store (T24).
//!
//! 1. No firing is delivered early by the current wall clock.
//! 2. No retry is made before its wait is over by the boot clock.
//! 3. No lease ends early or late because of a step.
//! 4. At the end every firing has been confirmed once.
//!
//! `DULY_CLOCK_SEEDS` sets the number of runs, `DULY_CLOCK_SEED` the first seed. A run that fails prints
//! the command that repeats it alone. `cargo xtask torture` runs more.

use std::collections::BTreeMap;

use duly_core::{Millis, env::Clock};
use duly_store::{SettleOutcome, SettleVerdict, Settlement, Timers, conformance::rounds};

use super::*;

/// Timers and steps of one run.
const TIMERS: u64 = 40;
const STEPS: u64 = 60;

/// Shortest wait of a retry by the settings of these tests.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Returns the number in an environment variable, or a default.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints the command that repeats a run that panics.
struct Repeat {
    seed: u64,
}

impl Repeat {
    fn command(&self) -> String {
        let Self { seed } = self;
        format!(
            "DULY_CLOCK_SEED={seed} DULY_CLOCK_SEEDS=1 cargo test -p duly-node --lib clock_steps"
        )
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with: {}", self.command());
        }
    }
}

/// A random number generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// Returns up to two hours in either direction, mostly less.
    fn step_ms(&mut self) -> i64 {
        let bound = [1_000, 60_000, 7_200_000][usize::try_from(self.below(3)).unwrap()];
        let by_ms = i64::try_from(self.below(bound)).unwrap();
        if self.below(2) == 0 { by_ms } else { -by_ms }
    }
}

async fn world(seed: u64) -> World {
    world::embedded(seed, |_| {}).await
}

/// The known state of a timer.
#[derive(Default)]
struct Life {
    attempts: u32,
    /// Boot time at which its last attempt failed.
    failed_at: Option<Duration>,
    confirmed: bool,
}

struct Course {
    world: World,
    dice: Dice,
    lives: BTreeMap<String, Life>,
    seed: u64,
}

impl Course {
    /// Checks a delivery and answers it.
    async fn deliver(&mut self, all_confirm: bool) {
        self.world.quiet().await;
        while let Some(call) = self.world.try_call() {
            let (id, seed) = (call.envelope.id.to_string(), self.seed);
            let wall_ms = u64::try_from(self.world.clock.wall().as_millis()).unwrap();
            let due_ms = call.envelope.due_at.unix_ms();
            assert!(due_ms <= wall_ms, "seed {seed}: {id} came {} ms early", due_ms - wall_ms);
            let boot = self.world.clock.boot();
            let life = self.lives.get_mut(&id).expect("it was scheduled");
            assert!(!life.confirmed, "seed {seed}: {id} came again");
            assert_eq!(call.envelope.attempt, life.attempts + 1, "seed {seed}: {id}");
            life.attempts += 1;
            if let Some(failed_at) = life.failed_at {
                assert!(boot >= failed_at + RETRY_WAIT, "seed {seed}: {id} was retried too soon");
            }
            if all_confirm || life.attempts == 2 || self.dice.below(3) > 0 {
                life.confirmed = true;
                call.answer(Delivery::Confirmed);
            } else {
                life.failed_at = Some(boot);
                call.answer(failed(AttemptOutcome::Failed));
            }
            self.world.quiet().await;
        }
    }

    async fn run(seed: u64) -> u64 {
        let mut course =
            Self { world: world(seed).await, dice: Dice(seed), lives: BTreeMap::new(), seed };
        for i in 0..TIMERS {
            let delay = ms(course.dice.below(120_000));
            course.world.schedule(&format!("t{i}"), delay, A).await;
            course.lives.insert(format!("t{i}"), Life::default());
        }
        let mut steps = 0;
        for _ in 0..STEPS {
            match course.dice.below(3) {
                0 => {
                    let by_ms = course.dice.step_ms();
                    course.world.step(by_ms).await;
                    steps += 1;
                }
                _ => {
                    let by = ms(course.dice.below(3_000));
                    course.world.advance(by).await;
                }
            }
            course.deliver(false).await;
        }
        // For any setting of the clock, all firings come with time.
        course.world.step(10 * 3_600_000).await;
        for _ in 0..50 {
            course.deliver(true).await;
            course.world.advance(ms(1_000)).await;
        }
        for (id, life) in &course.lives {
            assert!(life.confirmed, "seed {seed}: {id} is lost after {} attempts", life.attempts);
            assert_eq!(course.world.state(id).await, State::Finished, "seed {seed}: {id}");
        }
        steps
    }
}

#[tokio::test(start_paused = true)]
async fn t24_clock_steps_lose_no_timer_and_fire_none_early() {
    let first = number("DULY_CLOCK_SEED", 1);
    let mut steps = 0;
    for seed in first..first + number("DULY_CLOCK_SEEDS", rounds(6)) {
        let _repeat = Repeat { seed };
        steps += Course::run(seed).await;
    }
    println!("clock steps: {steps}");
    assert!(steps > 0);
}

async fn settle(world: &World, token: &duly_store::Token) -> SettleOutcome {
    let namespace = Some(world.namespace.clone());
    let settlement = Settlement { token: token.clone(), namespace, verdict: SettleVerdict::Ack };
    let shard = duly_core::shard::ShardId(0);
    world.flaky.settle(shard, vec![settlement]).await.unwrap()[0]
}

#[tokio::test(start_paused = true)]
async fn t24_clock_steps_do_not_change_the_lease_time() {
    for step_ms in [3_600_000, -3_600_000, 40_000, -40_000] {
        let world = world(1).await;
        let lease = || async {
            let request = pull::request(&world, 1, Duration::ZERO);
            let leased = world.handle.lease(request).await.unwrap();
            let token = leased.firings.first().map(|firing| firing.token.clone());
            leased.delivered();
            token
        };
        world.schedule_pull("t", Millis::ZERO).await;
        let first = lease().await.expect("it is due");
        world.step(step_ms).await;
        // The 30 s are not over by the boot clock.
        world.advance(ms(29_000)).await;
        assert_eq!(lease().await, None, "{step_ms}: no other consumer gets it");
        world.advance(ms(1_000)).await;
        assert_eq!(settle(&world, &first).await, SettleOutcome::LeaseLost, "{step_ms}");
        // A failed firing waits by its policy, and not for the return of a wrong clock time. A step back
        // puts the due time in the future again, and then the firing is not claimed before that.
        world.advance(ms(1_000)).await;
        if step_ms < 0 {
            assert_eq!(lease().await, None, "{step_ms}: it is not due by the wall clock");
            world.step(-step_ms).await;
        }
        let second = lease().await.unwrap_or_else(|| panic!("{step_ms}: it is due again"));
        world.step(step_ms).await;
        world.advance(ms(29_000)).await;
        assert_eq!(settle(&world, &second).await, SettleOutcome::Ok, "{step_ms}");
        assert_eq!(world.state("t").await, State::Finished);
    }
}
