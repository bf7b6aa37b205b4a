//! The contents of a golden directory: every kind of record, every field of a timer, every state, and
//! enough segments that the first ones are rewritten into sorted runs of each kind.

use std::{fs, path::Path};

use duly_core::{
    Destination, Incarnation, Millis, NamespaceName, Payload, RetryPolicy, Schedule, Settings,
    Timer, TimerId, TimerSpec, Timestamp,
    destination::{HttpDestination, LaneKey, Method},
    headers::Headers,
    limits::Limits,
    namespace::SigningSecret,
    payload::Form,
    retry::Exponential,
    schedule::{Change, IfExists, Patch, SlotKey, Tags, When},
    shard::ShardId,
    timer::{AttemptOutcome, DeadLetterReason, Wait},
};
use duly_store::{
    ClaimRequest, Command, Firing, Lane, LaneClaim, MemberId, Namespaces, Operation, Outcome,
    Owner, SettleOutcome, SettleVerdict, Settlement, Timers,
    command::{Answer, DeadLetterId},
    conformance::ManualClock,
    namespaces::{Activity, DeleteMode, Put, Secrets},
};
use duly_store_embedded::EmbeddedStore;

use super::listing::now;

/// Movement of the clock while the script runs.
pub(super) const LASTS: Millis = Millis::from_secs(10);

const SHARD: ShardId = ShardId(0);

/// Writes everything; the store is new, and its files are in `dir`.
pub(super) fn run(store: &EmbeddedStore, clock: &ManualClock, dir: &Path) {
    let script = Script { store, namespace: name("shop") };
    script.put(shop());
    script.pending();
    script.ended();
    script.attempted();
    script.dead();
    script.imported();
    script.more_segments();
    script.other_namespaces();
    script.evicted();
    script.lost(dir);
    clock.advance(LASTS);
    // Time is noticed at the next call: a timer expires, while lease ends are still ahead.
    let stats = now(store.stats(SHARD, name("shop"))).expect("it is there");
    assert!(stats.dead >= 3 && stats.in_flight == 4 && stats.retained == 4, "{stats:?}");
}

struct Script<'a> {
    store: &'a EmbeddedStore,
    namespace: NamespaceName,
}

fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).expect("an allowed name")
}

fn id(text: &str) -> TimerId {
    TimerId::new(text).expect("an allowed id")
}

fn payload(form: Form, text: &str) -> Option<Payload> {
    Some(Payload { form, bytes: text.to_owned().into() })
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Headers::new(pairs).expect("allowed headers")
}

fn http(url: &str) -> HttpDestination {
    HttpDestination::new(url).expect("an allowed URL")
}

/// A timer that is due in an hour, for pull.
fn later(text: &str) -> Schedule {
    let mut schedule = Schedule::new(id(text), When::After(Millis::from_secs(3_600)));
    schedule.spec.destination = Some(Destination::Pull);
    schedule
}

/// Gives a schedule more than an id and a time.
fn with(mut schedule: Schedule, give: impl FnOnce(&mut TimerSpec)) -> Schedule {
    give(&mut schedule.spec);
    schedule
}

/// A timer that is due at once, for pull.
fn due(text: &str) -> Schedule {
    Schedule { when: When::After(Millis::ZERO), ..later(text) }
}

fn shop() -> Settings {
    let mut receiver = http("https://shop.example/hook?a=b");
    receiver.headers = headers(&[("x-shop", "1"), ("authorization", "Bearer abc")]);
    receiver.timeout = Millis::from_secs(5);
    let secret = |text: &str| SigningSecret::new(text).expect("an allowed secret");
    Settings {
        fallback: None,
        destination: Destination::Http(receiver),
        retry: RetryPolicy::Delays(vec![Millis::from_secs(3_600), Millis::from_secs(7_200)]),
        lease: Millis::from_secs(40),
        retention: Millis::from_secs(3_000 * 86_400),
        weight: 3,
        signing_secrets: vec![
            secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"),
            secret("whsec_FxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"),
        ],
        limits: Limits {
            schedule_per_second: Some(5_000),
            deliver_per_second: None,
            max_in_flight: 7,
            max_pending: Some(1_000_000),
            max_payload_bytes: 100_000,
            max_delay: Some(Millis::from_secs(86_400 * 365)),
            max_dead: 500,
            max_retained: 600,
        },
    }
}

fn everything() -> Schedule {
    let mut receiver = http("http://127.0.0.1:8080/a%20path/ü");
    receiver.method = Method::Put;
    receiver.headers = headers(&[("x-own", "2")]);
    receiver.timeout = Millis::from_ms(1_500);
    Schedule {
        spec: TimerSpec {
            payload: payload(Form::Json, "{ \"kept\" : \"as it is\",\"n\":1.0 }"),
            headers: headers(&[("content-type", "application/json; v=2"), ("x-two", "b c")]),
            tags: Tags::new(vec!["red".into(), "größe:42".into()]).expect("allowed tags"),
            slot_key: Some(SlotKey::new("customer/77".into()).expect("an allowed key")),
            destination: Some(Destination::Http(receiver)),
            retry: Some(RetryPolicy::Exponential(Exponential {
                max_attempts: 9,
                min_backoff: Millis::from_ms(250),
                max_backoff: Millis::from_secs(900),
                multiplier: 1.75,
                jitter: 0.125,
            })),
            expire_after: Some(Millis::from_secs(86_400)),
            trace_parent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        },
        ..later("everything")
    }
}

impl Script<'_> {
    fn put(&self, settings: Settings) {
        let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
        now(self.store.put_namespace(self.namespace.clone(), put));
    }

    fn apply(&self, operation: Operation) {
        let namespace = self.namespace.clone();
        let command = Command { namespace, operation, answer: Answer::Whole };
        let outcome = now(self.store.apply(SHARD, vec![command])).remove(0);
        assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
    }

    fn schedule(&self, schedule: Schedule) {
        self.apply(Operation::Schedule {
            schedule: Box::new(schedule),
            if_exists: IfExists::Replace,
        });
    }

    fn cancel(&self, text: &str) {
        self.apply(Operation::Cancel { id: id(text), if_revision: None });
    }

    /// Claims the one timer that is due.
    fn claim(&self, text: &str, owner: Owner) -> Firing {
        self.schedule(due(text));
        let mut firings = self.claims_as(owner);
        assert_eq!(firings.len(), 1, "only {text} is due");
        firings.remove(0)
    }

    fn claims(&self) -> Vec<Firing> {
        self.claims_as(Owner::Consumer { lease: None })
    }

    fn claims_as(&self, owner: Owner) -> Vec<Firing> {
        let lane = Lane { namespace: self.namespace.clone(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: 10, retry_max: 10 }],
            total_max: 10,
            bytes_max: 1 << 20,
            owner,
        };
        now(self.store.claim(SHARD, request)).firings
    }

    fn settle(&self, text: &str, verdict: SettleVerdict) {
        let firing = self.claim(text, Owner::Consumer { lease: None });
        let settlement = Settlement { token: firing.token, namespace: None, verdict };
        let outcome = now(self.store.settle(SHARD, vec![settlement])).remove(0);
        assert!(matches!(outcome, SettleOutcome::Ok | SettleOutcome::Dead), "{outcome:?}");
    }

    fn pending(&self) {
        self.schedule(later("plain"));
        self.schedule(everything());
        self.schedule(with(later("empty payload"), |it| it.payload = payload(Form::Text, "")));
        self.schedule(later("ünï/co%de: ☃"));
        let at = duly_core::Timestamp::saturating_from_unix_ms(1_930_000_000_001);
        self.schedule(Schedule::new(id("to the namespace's receiver"), When::At(at)));
        self.schedule(later("replaced"));
        let binary = payload(Form::Binary, "\u{0}\u{1}");
        self.schedule(with(later("replaced"), |it| it.payload = binary));
        self.schedule(later("moved"));
        let patch = Patch {
            when: Some(When::After(Millis::from_secs(7_200))),
            tags: Change::Set(Tags::new(vec!["moved".into()]).expect("allowed tags")),
            ..Patch::default()
        };
        let if_revision = Some(1);
        self.apply(Operation::Reschedule { id: id("moved"), patch: Box::new(patch), if_revision });
    }

    fn ended(&self) {
        self.schedule(later("cancelled"));
        self.cancel("cancelled");
        self.settle("done", SettleVerdict::Ack);
    }

    fn attempted(&self) {
        let retry = |outcome| SettleVerdict::Retry {
            wait: Wait::Policy,
            outcome,
            reason: "status 503".into(),
        };
        self.settle("failed once", retry(AttemptOutcome::Failed));
        self.settle("timed out", retry(AttemptOutcome::TimedOut));
        let half_a_day = Some(Millis::from_secs(12 * 3_600));
        let firing = self.claim("leased", Owner::Consumer { lease: half_a_day });
        let extend = SettleVerdict::Extend { lease: Millis::from_secs(11 * 3_600) };
        let settlement = Settlement { token: firing.token, namespace: None, verdict: extend };
        now(self.store.settle(SHARD, vec![settlement]));
        self.claim("pushed by a node that is gone", Owner::Node(MemberId(99)));
        self.claim("stopped", Owner::Consumer { lease: half_a_day });
        self.claim("stopped at a node that is gone", Owner::Node(MemberId(99)));
        for text in ["stopped", "stopped at a node that is gone"] {
            self.apply(Operation::CancelOrStop { id: id(text), if_revision: None, seen: None });
        }
    }

    fn dead(&self) {
        let dead = || SettleVerdict::Dead { reason: "status 410".into() };
        self.settle("dead", dead());
        self.settle("dead and purged", dead());
        self.apply(Operation::Purge { letter: DeadLetterId::Timer(id("dead and purged")) });
        self.settle("dead and redriven", dead());
        let delay = Millis::from_secs(600);
        let letter = DeadLetterId::Timer(id("dead and redriven"));
        self.apply(Operation::Redrive { letter, delay });
        self.settle("dead and scheduled again", dead());
        self.schedule(later("dead and scheduled again"));
        self.settle("dead twice", dead());
        self.schedule(later("dead twice"));
        self.settle("dead twice", dead());
        let in_two_seconds =
            Schedule { when: When::After(Millis::from_secs(2)), ..later("expired") };
        self.schedule(with(in_two_seconds, |it| it.expire_after = Some(Millis::from_secs(1))));
    }

    /// Imports timers in the form of another store.
    fn imported(&self) {
        let at = Timestamp::saturating_from_unix_ms(1_800_000_000_000);
        let schedule = Schedule { when: When::At(at), ..later("imported") };
        let mut timer =
            Timer::new(schedule, at, Incarnation(0x1234_5678)).expect("a time that is allowed");
        timer.occurrence = 1;
        self.apply(Operation::Import { timer: Box::new(timer.clone()) });
        timer.occurrence = 0;
        timer.mark_dead_letter(at, DeadLetterReason::AttemptsSpent);
        self.apply(Operation::Import { timer: Box::new(timer) });
    }

    fn more_segments(&self) {
        let large = || Payload { form: Form::Binary, bytes: vec![0xD0; 60_000].into() };
        self.schedule(with(later("large"), |it| it.payload = Some(large())));
        self.schedule(later("in the second segment"));
        for text in ["filler", "another filler"] {
            self.schedule(with(later(text), |it| it.payload = Some(large())));
            self.cancel(text);
        }
    }

    /// More timers end than are retained.
    fn evicted(&self) {
        let few = Script { store: self.store, namespace: name("few") };
        few.put(Settings {
            limits: Limits { max_retained: 1, ..Limits::default() },
            ..Settings::default()
        });
        for text in ["evicted", "retained"] {
            few.schedule(later(text));
            few.cancel(text);
        }
    }

    /// Makes a record unreadable when it is claimed. The bytes on the disk are repaired afterwards: a
    /// journal that stays damaged is refused.
    fn lost(&self, dir: &Path) {
        const ID: &str = "unreadable";
        let damaged = Script { store: self.store, namespace: name("damaged") };
        damaged.put(Settings::default());
        damaged.schedule(due(ID));
        let journal = fs::read_dir(dir.join("journal")).expect("listed");
        let mut segments: Vec<_> = journal.map(|entry| entry.expect("listed").path()).collect();
        segments.retain(|path| path.extension().is_some_and(|suffix| suffix == "log"));
        let active = segments.iter().max().expect("there is a journal");
        let whole = fs::read(active).expect("read");
        let at = whole.windows(ID.len()).rposition(|part| part == ID.as_bytes());
        let mut bad = whole.clone();
        bad[at.expect("it has just been written")] ^= 1;
        fs::write(active, bad).expect("written");
        let firings = damaged.claims();
        assert_eq!(firings, [], "it cannot be delivered");
        let mut after = fs::read(active).expect("read");
        after[at.expect("it was found")] ^= 1;
        fs::write(active, after).expect("written");
        let stats = now(self.store.stats(SHARD, name("damaged"))).expect("it is there");
        assert_eq!((stats.dead, stats.pending()), (1, 0), "{stats:?}");
    }

    fn other_namespaces(&self) {
        let quiet = Script { store: self.store, namespace: name("quiet") };
        quiet.put(Settings::default());
        quiet.schedule(later("plain"));
        quiet.settle("dead and purged", SettleVerdict::Dead { reason: "status 404".into() });
        quiet.apply(Operation::Purge { letter: DeadLetterId::Timer(id("dead and purged")) });
        quiet.settle("claimed and handed back", SettleVerdict::Release);
        now(self.store.set_activity(name("quiet"), Activity::Paused));
        let gone = Script { store: self.store, namespace: name("gone") };
        gone.put(Settings::default());
        gone.schedule(later("plain"));
        now(self.store.delete_namespace(name("gone"), DeleteMode::Force));
        for implicit in ["implicit-and-empty", "implicit-and-used"] {
            now(self.store.put_namespace(name(implicit), Put::IfAbsent(Box::default())));
        }
        let used = Script { store: self.store, namespace: name("implicit-and-used") };
        used.schedule(later("plain"));
    }
}
