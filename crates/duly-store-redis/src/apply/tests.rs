//! Tests the scripts that execute an operation or a settlement on their own against the core, on the
//! same input.
//!
//! A test reads an id and lets the core decide. Then it makes the call and reads the id again: outcome
//! and state must be what the core decided.

use std::time::Duration;

use duly_core::{
    Destination, Incarnation, Millis, Payload, Schedule, Settings, TimerId,
    destination::HttpDestination,
    namespace::LEASE_MAX,
    operate::{Context, Effect, Known, Now, Usage, operate},
    payload::Form,
    schedule::IfExists,
    settle,
};
use duly_decide::Case;
use duly_redis_testkit::server::Server;
use duly_store::{
    Answer, ClaimRequest, LaneClaim, Namespaces, Owner, SettleOutcome, SettleVerdict, Settlement,
    TimerView, Timers, Token,
    namespaces::{DeleteMode, Put, Secrets},
    query::Body,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Options, RedisStore, deployment::ReadRequest, tests::direct_scripts::name, token::Ticket,
};

const SHARD: ShardId = ShardId(0);
const SEEDS: u64 = 12;
const STEPS: usize = 120;
/// Length of the leases; none ends within the test.
const LEASE: Millis = Millis::from_secs(600);
/// Differences of times that a script reads after the core.
const SLACK_MS: u64 = 10_000;

struct World {
    store: RedisStore,
    settings: Settings,
    start: Timestamp,
    random: StdRng,
    leased: Vec<(TimerId, Token)>,
    /// Operations and settlements that a script executed.
    by_script: u32,
}

fn id(number: u32) -> TimerId {
    TimerId::new(&format!("t{number}")).expect("an id")
}

/// Converts a view into a form independent of when and in which order it was made: times become whole
/// hours since the test began.
fn shown(view: &TimerView, start: Timestamp) -> String {
    let mut view = view.clone();
    let round = |at: Timestamp| {
        let half_an_hour = Millis::from_secs(1_800);
        let since = at.saturating_add(half_an_hour).saturating_since(start);
        Timestamp::saturating_from_unix_ms(since.ms() / 3_600_000)
    };
    match &mut view.body {
        Body::Whole(timer) => {
            timer.incarnation = Incarnation(0);
            timer.created_at = round(timer.created_at);
            timer.updated_at = round(timer.updated_at);
            timer.due_at = round(timer.due_at);
        }
        Body::Tombstone(tombstone) => {
            tombstone.ended_at = round(tombstone.ended_at);
        }
    }
    format!("{:?} {:?}", view.state, view.body)
}

fn outcome_text(outcome: &Outcome, start: Timestamp) -> String {
    match outcome {
        Outcome::Created(view) => format!("created {}", shown(view, start)),
        Outcome::Existing(view) => format!("existing {}", shown(view, start)),
        Outcome::Replaced(view) => format!("replaced {}", shown(view, start)),
        other => format!("{other:?}"),
    }
}

impl World {
    async fn new(store: RedisStore, seed: u64) -> Self {
        let _none = store.delete_namespace(name(), DeleteMode::Force).await;
        let mut random = StdRng::seed_from_u64(seed);
        let mut settings = Settings { lease: LEASE, ..Settings::default() };
        let limits = &mut settings.limits;
        limits.max_pending = random.random_bool(0.5).then_some(3);
        limits.max_payload_bytes = if random.random_bool(0.3) { 5_000 } else { 100_000 };
        limits.max_delay = random.random_bool(0.3).then_some(Millis::from_secs(1_800));
        let put = Put::Replace { settings: Box::new(settings.clone()), secrets: Secrets::Set };
        store.put_namespace(name(), put).await.expect("it is made");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now_ms = u64::try_from(now.expect("after 1970").as_millis()).expect("a time");
        let start = Timestamp::saturating_from_unix_ms(now_ms);
        Self { store, settings, start, random, leased: Vec::new(), by_script: 0 }
    }

    async fn case(&self, id: &TimerId) -> Case {
        let name = name();
        let case = self.store.deployment.row(SHARD, ReadRequest::new(&name, id)).await;
        case.expect("it is read").expect("the namespace is there").case
    }

    async fn usage(&self) -> Usage {
        let stats = self.store.stats(SHARD, name()).await.expect("counts").expect("it is there");
        Usage { pending: stats.pending(), dead: stats.dead, schedule_in: Duration::ZERO }
    }

    fn context<'a>(&self, case: &'a Case, usage: Usage) -> Context<'a> {
        let (namespace, settings) = (&case.namespace, &*case.settings);
        assert_eq!(settings.limits, self.settings.limits);
        let now = Now { wall: case.now, steady: case.now };
        Context { namespace, settings, usage, now, random: 0 }
    }

    fn schedule(&mut self) -> Operation {
        let random = &mut self.random;
        let when = match random.random_range(0..4) {
            0 => When::After(Millis::ZERO),
            1 => When::After(Millis::from_secs(3_600)),
            2 => When::At(Timestamp::saturating_from_unix_ms(1)),
            _ => When::At(Timestamp::saturating_from_unix_ms(7_000_000_000_000)),
        };
        let mut schedule = Schedule::new(id(random.random_range(0..5)), when);
        let bytes = [0, 10, 4_096, 4_097, 6_000][random.random_range(0..5)];
        schedule.spec.payload =
            (bytes > 0).then(|| Payload { form: Form::Text, bytes: "x".repeat(bytes).into() });
        schedule.spec.destination = match random.random_range(0..3) {
            0 => None,
            1 => Some(Destination::Pull),
            _ => {
                let url = format!("http://h{}.example/", random.random_range(0..3));
                Some(Destination::Http(HttpDestination::new(&url).expect("a URL")))
            }
        };
        schedule.spec.expire_after =
            random.random_bool(0.2).then_some(Millis::from_secs(200 * 366 * 86_400));
        let if_exists = [IfExists::Fail, IfExists::Keep, IfExists::Replace, IfExists::Restart];
        let if_exists = if_exists[random.random_range(0..4)];
        Operation::Schedule { schedule: Box::new(schedule), if_exists }
    }

    async fn apply(&mut self, operation: Operation) {
        let timer = operation.id().expect("it names an id").clone();
        let before = self.case(&timer).await;
        let usage = self.usage().await;
        let known = Known { timer: before.view(), letter: None };
        let decided = operate(operation.clone(), known, &self.context(&before, usage));
        let command =
            Command { namespace: name(), operation: operation.clone(), answer: Answer::Whole };
        let outcome = self.store.deployment.apply(SHARD, vec![command]).await.remove(0);
        let after = self.case(&timer).await;
        let (expected, effect) = match decided {
            Ok(decision) => {
                let effect = decision.effect.clone();
                (Outcome::of(decision, &name(), before.now), effect)
            }
            Err(refusal) => (Outcome::Refused(refusal), None),
        };
        let what = format!("{operation:?} on {:?} with {usage:?}", before.view());
        let start = self.start;
        assert_eq!(outcome_text(&outcome, start), outcome_text(&expected, start), "{what}");
        self.by_script +=
            u32::from(matches!(outcome, Outcome::Created(_) | Outcome::Cancelled { .. }));
        match effect {
            Some(effect @ Effect::Put(..)) => {
                let view = effect.into_view(&name(), before.now).expect("a live timer");
                let stored = after.view().expect("it is there");
                assert_eq!(shown(&stored, start), shown(&view, start), "{what}");
                assert!(after.tombstone.is_none() && after.live.is_some(), "{what}");
            }
            Some(Effect::End(tombstone)) => self.check_end(&after, &tombstone, &what),
            Some(Effect::Stop(_)) => {
                let (was, is) = (before.live.expect("it is there"), after.live.expect("it stays"));
                assert!(is.record.stopped && !was.record.stopped, "{what}");
                assert_eq!((is.lease, is.record.timer), (was.lease, was.record.timer), "{what}");
            }
            Some(other) => panic!("{what}: {other:?}"),
            None => {
                assert_eq!(after.live, before.live, "{what}");
                assert_eq!(after.tombstone, before.tombstone, "{what}");
            }
        }
    }

    fn check_end(&self, after: &Case, expected: &duly_core::Tombstone, what: &str) {
        assert!(after.live.is_none(), "{what}");
        let stored = after.tombstone.as_ref().expect("a tombstone");
        let late_ms = stored.ended_at.saturating_since(expected.ended_at).ms();
        assert!(late_ms < SLACK_MS, "{what}: {late_ms} ms");
        let expected = duly_core::Tombstone { ended_at: stored.ended_at, ..expected.clone() };
        assert_eq!(*stored, expected, "{what}");
    }

    async fn claim(&mut self) {
        let ready = self.store.ready(SHARD, None, 100).await.expect("lanes");
        let of = |lane| LaneClaim { lane, first_max: 2, retry_max: 2 };
        let lanes = ready.lanes.into_iter().map(|ready| of(ready.lane));
        let owner = Owner::Consumer { lease: None };
        let lanes = lanes.collect();
        let request = ClaimRequest { lanes, total_max: 2, bytes_max: 1 << 20, owner };
        let claimed = self.store.claim(SHARD, request).await.expect("firings");
        self.leased.extend(claimed.firings.into_iter().map(|firing| (firing.id, firing.token)));
    }

    async fn settle(&mut self) {
        if self.leased.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.leased.len());
        let (timer, token) = self.leased[place].clone();
        let extends = self.random.random_bool(0.4);
        let verdict = match extends {
            true => {
                let secs = [30, 900, 100_000][self.random.random_range(0..3)];
                SettleVerdict::Extend { lease: Millis::from_secs(secs).min(LEASE_MAX) }
            }
            false => {
                self.leased.remove(place);
                SettleVerdict::Ack
            }
        };
        let before = self.case(&timer).await;
        let live = before.live.as_ref().expect("it is leased");
        let held = live.held(before.now).expect("it is leased");
        let ticket = Ticket::read(&token, SHARD, self.store.deployment.seed).expect("a token");
        assert_eq!(held.nonce, ticket.nonce);
        let own = Box::new(live.record.timer.clone());
        let context = self.context(&before, Usage::default());
        let (effect, expected) = settle::settle(own, &held, &verdict, &context);
        let settlement = Settlement { token, namespace: None, verdict: verdict.clone() };
        let outcome = self.store.settle(SHARD, vec![settlement]).await.expect("it is taken");
        assert_eq!(outcome, [expected], "{verdict:?}");
        assert_eq!(expected, SettleOutcome::Ok);
        self.by_script += 1;
        let after = self.case(&timer).await;
        let what = format!("{verdict:?} on {:?}", before.view());
        match effect {
            Some(Effect::End(tombstone)) => self.check_end(&after, &tombstone, &what),
            Some(Effect::Extend(left)) => {
                let lease = after.live.as_ref().and_then(|live| live.lease).expect("it is leased");
                let until = lease.until().expect("a consumer's ends").unix_ms();
                let expected = before.now.saturating_add(left).unix_ms();
                assert!(until.abs_diff(expected) < SLACK_MS, "{what}: {until} {expected}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_do_what_the_core_decides() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = 1;
    let mut store = RedisStore::open(&options).await.expect("it opens");
    let mut by_script = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(store, seed).await;
        for _ in 0..STEPS {
            match world.random.random_range(0..10) {
                0..5 => {
                    let operation = world.schedule();
                    world.apply(operation).await;
                }
                5 => {
                    let id = id(world.random.random_range(0..5));
                    world.apply(Operation::Cancel { id, if_revision: None }).await;
                }
                6 => {
                    let id = id(world.random.random_range(0..5));
                    let stop = Operation::CancelOrStop { id, if_revision: None, seen: None };
                    world.apply(stop).await;
                }
                7 => world.claim().await,
                _ => world.settle().await,
            }
        }
        by_script += world.by_script;
        store = world.store;
    }
    assert!(by_script > 300, "{by_script} of {} went the quick way", SEEDS * STEPS as u64);
}
