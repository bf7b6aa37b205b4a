//! Changed settings of a namespace, on the embedded store: the attempts that start in the second before
//! the change, and in the second after it. No call tells the node of the change.

use duly_core::{
    Destination, Millis, NamespaceName, RetryPolicy, Settings, Timestamp,
    destination::HttpDestination, env::Clock, namespace::Fallback,
};
use duly_store::{Namespaces, namespaces::Activity as Run};

use super::*;

/// The namespace's fallback.
const C: &str = "https://second.example";
/// Time of one step.
const STEP: Millis = ms(20);
/// Steps of a tenth of a second: a slot has ten such attempts per second.
const TENTH: u32 = 5;
/// Timers that are due from the beginning.
const TIMERS: usize = 400;

/// Least and most attempts that start in a second: at A, at B, at the fallback, and those of all that
/// are retries.
type Begun = [(usize, usize); 4];

const NONE: (usize, usize) = (0, 0);
const ANY: (usize, usize) = (0, TIMERS);
/// With one slot, and with six.
const ONE_SLOT: Begun = [(8, 11), NONE, NONE, NONE];
const SIX_SLOTS: Begun = [(50, 66), NONE, NONE, NONE];
const NOTHING: Begun = [NONE; 4];

/// A setting, and its effect on the attempts.
struct Case {
    name: &'static str,
    old: fn(&mut Settings),
    change: Change,
    workers_max: usize,
    /// Number of steps of one attempt.
    takes: u32,
    ends: fn(&world::Call) -> Delivery,
    before: Begun,
    after: Begun,
}

#[derive(Clone, Copy)]
enum Change {
    Set(fn(&mut Settings)),
    Pause,
    /// Resumes a namespace that was paused before.
    Resume,
    /// Resumes it half a second later.
    ResumeLater,
}

fn case(
    name: &'static str,
    old: fn(&mut Settings),
    change: Change,
    before: Begun,
    after: Begun,
) -> Case {
    let ends = |_: &world::Call| Delivery::Confirmed;
    Case { name, old, change, workers_max: 1_024, takes: TENTH, ends, before, after }
}

fn http(url: &str) -> HttpDestination {
    HttpDestination::new(url).unwrap()
}

fn slots(settings: &mut Settings, max: u32) {
    settings.limits.max_in_flight = max;
}

fn with_fallback(settings: &mut Settings) {
    slots(settings, 5);
    let (destination, after_attempts, after_open) = (Destination::Http(http(C)), 1_000, ms(0));
    settings.fallback = Some(Fallback { destination, after_attempts, after_open });
}

fn not_at_its_own(call: &world::Call) -> Delivery {
    if call.envelope.destination.origin() == C {
        return Delivery::Confirmed;
    }
    failed(AttemptOutcome::NotConnected)
}

fn cases() -> Vec<Case> {
    use Change::{Pause, Resume, ResumeLater, Set};
    let six: fn(&mut Settings) = |settings| slots(settings, 6);
    vec![
        case("more slots", |s| slots(s, 1), Set(six), ONE_SLOT, SIX_SLOTS),
        case("fewer slots", six, Set(|s| slots(s, 1)), SIX_SLOTS, ONE_SLOT),
        case(
            "a rate",
            six,
            Set(|s| s.limits.deliver_per_second = Some(10)),
            SIX_SLOTS,
            [(9, 12), NONE, NONE, NONE],
        ),
        case(
            "no rate",
            |s| (s.limits.max_in_flight, s.limits.deliver_per_second) = (6, Some(10)),
            Set(|s| s.limits.deliver_per_second = None),
            [(9, 12), NONE, NONE, NONE],
            SIX_SLOTS,
        ),
        Case {
            workers_max: 8,
            ..case(
                "a weight",
                |s| slots(s, 8),
                Set(|s| s.weight = 7),
                [(25, 45), NONE, NONE, NONE],
                [(50, 75), NONE, NONE, NONE],
            )
        },
        case(
            "a destination",
            six,
            Set(|s| s.destination = Destination::Http(http(B))),
            SIX_SLOTS,
            [NONE, (50, 66), NONE, NONE],
        ),
        case("a pause", six, Pause, SIX_SLOTS, NOTHING),
        case("its end", six, Resume, NOTHING, SIX_SLOTS),
        case("its end at a time", six, ResumeLater, NOTHING, [(20, 36), NONE, NONE, NONE]),
        Case {
            takes: 1,
            ends: not_at_its_own,
            ..case(
                "a fallback",
                |s| slots(s, 5),
                Set(with_fallback),
                [(10, 16), NONE, NONE, NONE],
                [(0, 3), NONE, (100, TIMERS), ANY],
            )
        },
        Case {
            takes: 1,
            ends: not_at_its_own,
            ..case(
                "no fallback",
                with_fallback,
                Set(|s| s.fallback = None),
                [(10, 16), NONE, (50, TIMERS), ANY],
                [(0, 3), NONE, NONE, ANY],
            )
        },
        Case {
            ends: |_| Delivery::Rejected { reason: "HTTP 410".to_owned() },
            ..case(
                "room for dead letters",
                |s| (s.limits.max_in_flight, s.limits.max_dead) = (1, 1),
                Set(|s| s.limits.max_dead = 4),
                [(1, 1), NONE, NONE, NONE],
                [(3, 3), NONE, NONE, NONE],
            )
        },
        Case {
            takes: 4 * TENTH,
            ends: |_| failed(AttemptOutcome::Failed),
            ..case(
                "a retry policy",
                |s| {
                    slots(s, 1);
                    s.retry = RetryPolicy::Delays(vec![ms(3_600_000)]);
                },
                Set(|s| s.retry = RetryPolicy::Delays(vec![ms(100)])),
                [(3, 3), NONE, NONE, NONE],
                [(2, 3), NONE, NONE, (1, 1)],
            )
        },
    ]
}

/// A namespace, and a rival that has as many firings.
struct Course {
    world: World,
    takes: u32,
    ends: fn(&world::Call) -> Delivery,
    step: u32,
    /// Attempts, each with the step at which it ends.
    under_way: Vec<(u32, world::Call)>,
}

impl Course {
    async fn begin(case: &Case) -> (Self, Settings) {
        let mut world = world::embedded(7, |options| options.workers_max = case.workers_max).await;
        let shop = world.namespace.clone();
        let mut settings = world::settings();
        slots(&mut settings, 8);
        settings.destination = Destination::Http(http(B));
        world.namespace = NamespaceName::new("rival").unwrap();
        world.put(settings.clone()).await;
        world.schedule_many(TIMERS).await;
        settings.destination = Destination::Http(http(A));
        (case.old)(&mut settings);
        world.namespace = shop;
        world.put(settings.clone()).await;
        if matches!(case.change, Change::Resume | Change::ResumeLater) {
            world.flaky.set_activity(world.namespace.clone(), Run::Paused).await.unwrap();
        }
        world.schedule_many(TIMERS).await;
        let (takes, ends) = (case.takes, case.ends);
        (Self { world, takes, ends, step: 0, under_way: Vec::new() }, settings)
    }

    async fn change(&self, change: Change, mut settings: Settings) {
        let now_ms = u64::try_from(self.world.clock.wall().as_millis()).unwrap();
        let soon = Timestamp::from_unix_ms(now_ms + 500).unwrap();
        let activity = match change {
            Change::Set(set) => {
                set(&mut settings);
                return self.world.put(settings).await;
            }
            Change::Pause => Run::Paused,
            Change::Resume => Run::Running,
            Change::ResumeLater => Run::ResumeAt(soon),
        };
        self.world.flaky.set_activity(self.world.namespace.clone(), activity).await.unwrap();
    }

    /// Returns the attempts that start in one second.
    async fn second(&mut self) -> [usize; 4] {
        let mut started = [0; 4];
        self.check(&mut started).await;
        for _ in 0..1_000 / STEP.ms() {
            self.world.advance(STEP).await;
            self.step += 1;
            let ended = self.under_way.extract_if(.., |(at, _)| *at <= self.step);
            for (_, call) in ended.collect::<Vec<_>>() {
                let delivery = (self.ends)(&call);
                call.answer(delivery);
            }
            self.check(&mut started).await;
        }
        started
    }

    async fn check(&mut self, started: &mut [usize; 4]) {
        self.world.quiet().await;
        while let Some(call) = self.world.try_call() {
            if call.envelope.namespace == self.world.namespace {
                let origin = call.envelope.destination.origin();
                started[[A, B, C].iter().position(|it| *it == origin).unwrap()] += 1;
                started[3] += usize::from(call.envelope.attempt > 1);
            }
            self.under_way.push((self.step + self.takes, call));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changed_settings_hold_within_a_second() {
    let mut wrong = Vec::new();
    for case in cases() {
        let (mut course, settings) = Course::begin(&case).await;
        let before = course.second().await;
        course.change(case.change, settings).await;
        let after = course.second().await;
        for (when, started, expected) in
            [("before", before, case.before), ("after", after, case.after)]
        {
            let fits = |(count, (least, most)): (&usize, &(usize, usize))| {
                (*least..=*most).contains(count)
            };
            if !started.iter().zip(&expected).all(fits) {
                wrong.push(format!("{} {when}: {started:?} and not {expected:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
