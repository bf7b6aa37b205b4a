use bytes::Bytes;
use duly_core::TimerView;
use duly_core::{
    Destination, Incarnation, Millis, NamespaceName, Payload, RetryPolicy, Schedule, Settings,
    State, Timer, TimerId, Timestamp,
    destination::{HttpDestination, Method},
    headers::Headers,
    payload::Form,
    request_hash::RequestHash,
    retry::Exponential,
    schedule::{IfExists, SlotKey, Tags, When},
    timer::{
        Attempt, AttemptOutcome, DeadLetter, DeadLetterReason, HISTORY_MAX, SettledToken, Verdict,
    },
};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{Index, select},
};
use prost::Message as _;
use serde_json::{Value, json};

use super::{ATTEMPTS_MAX, MovedTimer};
use crate::{
    MessageFormat, headers::CredentialsForm, json, payload::PayloadFields, timer::CallEffect,
};

fn time() -> impl Strategy<Value = Timestamp> {
    let edges = prop_oneof![Just(0), Just(Timestamp::MAX.unix_ms()), 0..=Timestamp::MAX.unix_ms()];
    edges.prop_map(Timestamp::saturating_from_unix_ms)
}

fn made(form: Form, bytes: Vec<u8>) -> Payload {
    Payload { form, bytes: Bytes::from(bytes) }
}

fn payload() -> impl Strategy<Value = Payload> {
    // Texts that a parse and a write would change.
    let jsons = [
        "null",
        "{ \"a\":1.0e2,\t\"a\": 1 }",
        "[\n  1,\r\n  2\n]",
        "\"\\u00e9 \\/ é\u{2028}\"",
        "123456789012345678901234567890",
        "{\n}",
    ];
    prop_oneof![
        select(jsons.map(|text| text.as_bytes().to_vec()).to_vec())
            .prop_map(|text| made(Form::Json, text)),
        any::<String>().prop_map(|text| made(Form::Text, text.into_bytes())),
        vec(any::<u8>(), 0..50).prop_map(|bytes| made(Form::Binary, bytes)),
    ]
}

fn headers() -> impl Strategy<Value = Headers> {
    let names = ["authorization", "x-api-key", "cookie", "content-type", "x-a"];
    let values = vec("[!-~]([ -~]{0,9}[!-~])?", names.len());
    (values, 0..=names.len()).prop_map(move |(values, count)| {
        let pairs = names.iter().map(|name| (*name).to_owned()).zip(values).take(count);
        Headers::new(pairs).expect("such headers are allowed")
    })
}

fn destination() -> impl Strategy<Value = Destination> {
    let methods = select(vec![Method::Post, Method::Put, Method::Patch]);
    let http = ("[a-z0-9/?=&%é ]{0,20}", methods, headers(), 100..=600_000_u64);
    let http = http.prop_filter_map("no URL", |(rest, method, headers, timeout_ms)| {
        let url = format!("https://user-service.example:8443/{rest}");
        let mut http = HttpDestination::new(&url).ok()?;
        (http.method, http.headers) = (method, headers);
        http.timeout = Millis::from_ms(timeout_ms);
        Some(Destination::Http(http))
    });
    // A schedule refuses it: a response with it must not overwrite the credential.
    let http = http.prop_filter("a redacted credential", |destination| match destination {
        Destination::Http(http) => http.headers.iter().all(|(_, value)| value != "***"),
        Destination::Pull => true,
    });
    prop_oneof![Just(Destination::Pull), http]
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let wait = || (0..=2_592_000_000_u64).prop_map(Millis::from_ms);
    // Numbers of at most fifteen digits, which the parser reads exactly.
    let share = |from: u32, to: u32| (from..=to).prop_map(|n| f64::from(n) / 1_000.0);
    let exponential = (1..=1_000_u32, wait(), wait(), share(1_000, 100_000), share(0, 1_000));
    let exponential = exponential.prop_map(|(max_attempts, a, b, multiplier, jitter)| {
        let (min_backoff, max_backoff) = (a.min(b), a.max(b));
        let policy = Exponential { max_attempts, min_backoff, max_backoff, multiplier, jitter };
        RetryPolicy::Exponential(policy)
    });
    prop_oneof![exponential, vec(wait(), 1..6).prop_map(RetryPolicy::Delays)]
        .prop_filter("a policy that is refused", |policy| policy.clone().check().is_ok())
}

fn asked() -> impl Strategy<Value = Schedule> {
    let id = "\\PC{1,20}".prop_map(|id| id.trim().to_owned());
    let id = id.prop_filter_map("no id", |id| TimerId::new(&id).ok());
    let labels = (vec("\\PC{1,9}", 0..4), option::of("\\PC{1,9}"));
    let rest = (option::of(destination()), option::of(retry()), option::of(1_000..=u64::MAX));
    let trace = option::of("0[0-9]-[1-9a-f]{32}-[1-9a-f]{16}-0[01]");
    (id, time(), option::of(payload()), headers(), labels, rest, trace).prop_map(
        |(id, due_at, payload, headers, (tags, slot_key), (destination, retry, after), trace)| {
            let mut schedule = Schedule::new(id, When::At(due_at));
            schedule.spec.payload = payload;
            schedule.spec.headers = headers;
            schedule.spec.tags = Tags::new(tags).expect("such tags are allowed");
            schedule.spec.slot_key =
                slot_key.map(|key| SlotKey::new(key).expect("such a key is allowed"));
            (schedule.spec.destination, schedule.spec.retry) = (destination, retry);
            schedule.spec.expire_after = after.map(Millis::from_ms);
            schedule.spec.trace_parent = trace;
            schedule
        },
    )
}

/// A timer without an attempt, one between attempts, or a dead letter.
fn timer() -> impl Strategy<Value = Timer> {
    let numbers = (any::<u64>(), any::<u128>(), 1..=u32::MAX, any::<u32>(), any::<bool>());
    let attempt = (any::<Index>(), time(), select(&AttemptOutcome::ALL[..]), "\\PC{0,30}");
    let happened = (0..=ATTEMPTS_MAX, any::<Index>(), vec(attempt, 0..=HISTORY_MAX), time());
    let times = (time(), time(), option::of(time()));
    let dead_letter = option::of((time(), select(&DeadLetterReason::ALL[..])));
    (asked(), numbers, happened, times, dead_letter).prop_map(
        |(schedule, numbers, (attempts, budget_from, history, next), times, dead_letter)| {
            let (incarnation, hash, revision, occurrence, is_unsure) = numbers;
            let within = |index: Index, count: u32| {
                u32::try_from(index.index(count as usize)).expect("below a u32")
            };
            let mut timer = Timer::new(schedule, times.0, Incarnation(incarnation))
                .expect("a time that is allowed");
            timer.updated_at = times.1;
            timer.request_hash = RequestHash(hash);
            (timer.revision, timer.occurrence) = (revision, occurrence);
            timer.attempts = attempts;
            timer.budget_from = within(budget_from, attempts + 1);
            timer.fired_at = times.2;
            timer.maybe_delivered = is_unsure;
            let history = history.into_iter().filter(|_| attempts > 0);
            timer.history = history
                .map(|(number, at, outcome, reason)| {
                    Attempt::new(within(number, attempts) + 1, at, outcome, &reason)
                })
                .collect();
            timer.dead_letter = dead_letter.map(|(at, reason)| DeadLetter { at, reason });
            timer.next_attempt_at = (dead_letter.is_none() && attempts > 0).then_some(next);
            timer.last_settled = Some(SettledToken { nonce: 7, verdict: Verdict::Retry });
            timer
        },
    )
}

fn view(timer: Timer, state: State) -> TimerView {
    TimerView::whole(NamespaceName::new("n").expect("a name"), state, timer)
}

fn text(view: &TimerView) -> Vec<u8> {
    let out = MovedTimer::new(view).expect("a whole timer");
    serde_json::to_vec(&out).expect("it is JSON")
}

fn taken(text: &[u8]) -> Timer {
    json::parse::<MovedTimer>(text).and_then(MovedTimer::check).expect("it is taken")
}

proptest! {
    #[test]
    fn p7_p11_a_timer_comes_in_as_it_went_out_on_one_line(timer in timer()) {
        let line = text(&view(timer.clone(), State::Scheduled));
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let came = taken(&line);
        prop_assert_eq!(came.delivery_id("n"), timer.delivery_id("n"));
        prop_assert_eq!(came, Timer { last_settled: None, ..timer });
    }

    #[test]
    fn damaged_lines_are_refused_or_say_something_else(
        timer in timer(), at in any::<Index>(), byte in any::<u8>()
    ) {
        let mut line = text(&view(timer, State::Scheduled));
        let at = at.index(line.len());
        line[at] = byte;
        if let Ok(came) = json::parse::<MovedTimer>(&line).and_then(MovedTimer::check) {
            // Every accepted timer can be exported again.
            prop_assert_eq!(taken(&text(&view(came.clone(), State::Scheduled))), came);
        }
    }
}

#[test]
fn p11_every_field_comes_in_as_it_went_out_in_each_form() {
    let every = Timer { last_settled: None, ..Timer::every_field() };
    let live = Timer { dead_letter: None, ..every.clone() };
    let dead_letter = Timer { next_attempt_at: None, ..every.clone() };
    for (timer, state) in [(live, State::Retrying), (dead_letter, State::Dead)] {
        assert_eq!(taken(&text(&view(timer.clone(), state))), timer);
    }
    let mut schedule = Schedule::new(every.id, When::At(every.due_at));
    schedule.spec = duly_core::TimerSpec { trace_parent: None, ..every.spec };
    let read = through_both(&message(&schedule));
    let checked = read.check(MessageFormat::Protobuf, || unreachable!("it has an id"));
    assert_eq!(checked, Ok((schedule, IfExists::Keep)));
    let sent = crate::NamespaceSettings::exported(&Settings::every_field());
    let defaults = Settings {
        signing_secrets: Settings::every_field().signing_secrets,
        ..Settings::default()
    };
    let read = through_both(&sent).over(defaults.clone(), &defaults, &[]);
    assert_eq!(read, Ok(Settings::every_field()));
}

fn plain() -> Timer {
    let at = |ms| Timestamp::from_unix_ms(ms).expect("a time");
    let schedule = Schedule::new(TimerId::new("a").expect("an id"), When::At(at(5_000)));
    Timer::new(schedule, at(1_000), Incarnation(9)).expect("a timer")
}

#[test]
fn p3_leased_firings_move_with_an_unknown_outcome() {
    let mut view = view(plain(), State::InFlight);
    let at = |ms| Timestamp::from_unix_ms(ms).expect("a time");
    view.leased_until = Some(at(36_000));
    view.attempt_under_way = Some(3);
    view.claimed_at = Some(at(6_000));
    let came = taken(&text(&view));
    assert_eq!((came.attempts, came.maybe_delivered), (3, true));
    assert_eq!((came.next_attempt_at, came.fired_at), (Some(at(36_000)), Some(at(6_000))));
    assert_eq!(came.delivery_id("n"), plain().delivery_id("n"));
}

#[test]
fn reserved_headers_of_old_exports_are_removed() {
    let mut body: Value =
        serde_json::from_slice(&text(&view(plain(), State::Scheduled))).expect("JSON");
    let once = json!({"X-Forwarded-For": "127.0.0.1", "forwarded": "for=x", "x-own": "a"});
    body["headers"] = once.clone();
    body["destination"] = json!({"http": {"url": "http://a/", "headers": once}});
    let came = taken(body.to_string().as_bytes());
    assert_eq!(came.spec.headers.iter().collect::<Vec<_>>(), [("x-own", "a")]);
    let Some(duly_core::Destination::Http(http)) = came.spec.destination else {
        panic!("a webhook")
    };
    assert_eq!(http.headers.iter().collect::<Vec<_>>(), [("x-own", "a")]);
}

#[test]
fn contradicting_fields_are_refused() {
    let good: Value =
        serde_json::from_slice(&text(&view(plain(), State::Scheduled))).expect("JSON");
    let refused = |change: Value| {
        let mut body = good.clone();
        let fields = body.as_object_mut().expect("an object");
        fields.extend(change.as_object().expect("an object").clone());
        let body = body.to_string();
        let came = json::parse::<MovedTimer>(body.as_bytes()).and_then(MovedTimer::check);
        came.expect_err(&body).field
    };
    let attempt =
        json!({"attempt": 1, "at": "1970-01-01T00:00:00Z", "outcome": "failed", "reason": "no"});
    for (change, field) in [
        (json!({"id": ""}), "id"),
        (json!({"expire_after": "0s"}), "expire_after"),
        (json!({"incarnation": "9"}), "incarnation"),
        (json!({"incarnation": "+000000000000009"}), "incarnation"),
        (json!({"request_hash": "x".repeat(32)}), "request_hash"),
        (json!({"revision": 0}), "revision"),
        (json!({"attempts": -1}), "attempts"),
        (json!({"attempts": ATTEMPTS_MAX + 1}), "attempts"),
        (json!({"attempts": 1}), "next_attempt_at"),
        (
            json!({"attempts": 1, "next_attempt_at": "1970-01-01T00:00:00.009Z", "budget_from": 2}),
            "budget_from",
        ),
        (
            json!({"next_attempt_at": "1970-01-01T00:00:00.009Z", "dead_letter": {"at": "1970-01-01T00:00:00.008Z", "reason": "expired"}}),
            "next_attempt_at",
        ),
        (
            json!({"dead_letter": {"at": "1970-01-01T00:00:00.008Z", "reason": "tired"}}),
            "dead_letter.reason",
        ),
        (json!({"dead_letter": {"at": "never", "reason": "expired"}}), "dead_letter.at"),
        (json!({"history": [attempt]}), "history[0].attempt"),
        (
            json!({"attempts": 99, "next_attempt_at": "1970-01-01T00:00:00.009Z", "history": vec![&attempt; 17]}),
            "history",
        ),
        (
            json!({"attempts": 1, "next_attempt_at": "1970-01-01T00:00:00.009Z",
                "history": [{"attempt": 1, "at": "1970-01-01T00:00:00Z", "outcome": "failed", "reason": "x".repeat(1_025)}]}),
            "history[0].reason",
        ),
        (json!({"trace_parent": "00-1-2-3"}), "trace_parent"),
        (json!({"payload": 1, "payload_json": "1"}), "payload_json"),
        (json!({"payload_json": "{"}), "payload_json"),
        (json!({"updated_at": "2300-01-01T00:00:00Z"}), "updated_at"),
        (json!({"headers": {"host": "x"}}), "headers.host"),
        (json!({"delay": "1h"}), "delay"),
    ] {
        assert_eq!(refused(change.clone()), field, "{change}");
    }
    // A timer that was made before such ids were refused moves.
    let mut body = good.clone();
    body["id"] = json!(" a ");
    let moved = json::parse::<MovedTimer>(body.to_string().as_bytes()).and_then(MovedTimer::check);
    assert_eq!(moved.map(|timer| timer.id.as_str().to_owned()), Ok(" a ".to_owned()));
}

/// Returns the message of a schedule request.
fn message(of: &Schedule) -> crate::Schedule {
    let forms = PayloadFields::of(of.spec.payload.as_ref());
    let (due_at, delay) = match of.when {
        When::At(at) => (Some(at.into()), None),
        When::After(delay) => (None, Some(delay.into())),
    };
    let destination = of.spec.destination.as_ref();
    crate::Schedule {
        id: Some(of.id.as_str().to_owned()),
        due_at,
        delay,
        payload: forms.json,
        payload_text: forms.text,
        payload_base64: forms.base64,
        headers: crate::headers::shown(&of.spec.headers),
        tags: of.spec.tags.as_slice().to_vec(),
        slot_key: of.spec.slot_key.as_ref().map(|key| key.as_str().to_owned()),
        destination: destination.map(|it| crate::Destination::shown(it, CredentialsForm::Whole)),
        retry: of.spec.retry.as_ref().map(crate::Retry::from),
        expire_after: of.spec.expire_after.map(crate::Duration::from),
        if_exists: crate::IfExists::Keep.into(),
    }
}

fn json_of<T: serde::Serialize>(message: &T) -> String {
    serde_json::to_string(message).expect("it is JSON")
}

/// Passes a message through JSON, protobuf and JSON; its JSON stays the same.
fn through_both<T>(message: &T) -> T
where
    T: serde::Serialize + serde::de::DeserializeOwned + prost::Message + Default,
{
    let json = json_of(message);
    let read: T = json::parse(json.as_bytes()).expect("it is read");
    let decoded = T::decode(&*read.encode_to_vec()).expect("it is decoded");
    assert_eq!(json_of(&decoded), json, "JSON → protobuf → JSON");
    decoded
}

proptest! {
    #[test]
    fn a_schedule_is_the_same_in_json_and_protobuf(mut schedule in asked()) {
        schedule.spec.trace_parent = None;
        let sent = message(&schedule);
        let checked = |message: crate::Schedule, source| {
            let checked = message.check(source, || unreachable!("it has an id"));
            checked.map(|(schedule, if_exists)| (schedule, if_exists == IfExists::Keep))
        };
        let read: crate::Schedule = json::parse(json_of(&sent).as_bytes()).expect("it is read");
        prop_assert_eq!(checked(read, MessageFormat::Json), Ok((schedule.clone(), true)));
        let decoded = crate::Schedule::decode(&*sent.encode_to_vec()).expect("it is decoded");
        prop_assert_eq!(checked(decoded, MessageFormat::Protobuf), Ok((schedule.clone(), true)));
        prop_assert_eq!(checked(through_both(&sent), MessageFormat::Protobuf), Ok((schedule, true)));
    }

    #[test]
    fn a_timer_is_the_same_in_json_and_protobuf(timer in timer()) {
        let shown = crate::Timer::new(&view(timer, State::Scheduled), CallEffect::Unchanged(crate::Unchanged::SameRequest));
        through_both(&shown);
        prop_assert_eq!(crate::Timer::decode(&*shown.encode_to_vec()), Ok(shown));
    }

    #[test]
    fn settings_are_the_same_in_json_and_protobuf(
        destination in destination(), retry in retry(), numbers in vec(1..=100_u32, 6)
    ) {
        let mut settings = Settings { destination, retry, weight: numbers[0], ..Settings::default() };
        settings.retention = Millis::from_secs(numbers[1].into());
        let limits = &mut settings.limits;
        (limits.deliver_per_second, limits.max_in_flight) = (Some(numbers[2]), numbers[3]);
        (limits.max_pending, limits.max_dead) = (Some(numbers[4].into()), numbers[5].into());
        limits.max_delay = Some(Millis::from_ms(numbers[0].into()));
        let sent = crate::NamespaceSettings::exported(&settings);
        prop_assert_eq!(sent.clone().over(Settings::default(), &Settings::default(), &[]), Ok(settings.clone()));
        prop_assert_eq!(through_both(&sent).over(Settings::default(), &Settings::default(), &[]), Ok(settings));
    }
}
