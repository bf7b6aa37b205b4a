//! Byte for byte: the store returns exactly what it was given (P11).

use bytes::Bytes;
use duly_core::{
    Destination, Millis, Payload, Schedule, Settings, State, Timer, TimerSpec,
    destination::{HttpDestination, Method},
    headers::Headers,
    payload::{Form, PAYLOAD_BYTES_DEFAULT},
    schedule::{Change, Patch, SlotKey},
};

use super::{
    CaseResult, Harness, Restart,
    scene::{Scene, cancel_op, dead, id, ms, secs, timer},
};
use crate::{Operation, SettleVerdict, query::ListState};

pub(super) async fn p11_t7_payloads_of_every_form_and_size(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let largest = vec![0xA5; usize::try_from(PAYLOAD_BYTES_DEFAULT).expect("256 KiB fit")];
    let payloads = [
        (Form::Binary, every_byte),
        (Form::Binary, Vec::new()),
        (Form::Binary, largest),
        (Form::Text, "grüße \u{0} \r\n 時計 \u{1F550}".as_bytes().to_vec()),
        (Form::Text, Vec::new()),
        (Form::Json, b"{ \"b\":1.0,\t\"a\" : 1e400, \"a\":null }".to_vec()),
        (Form::Json, b"12345678901234567890123".to_vec()),
    ];
    for (i, (form, bytes)) in payloads.into_iter().enumerate() {
        let payload = Payload { form, bytes: Bytes::from(bytes) };
        let id = format!("t{i}");
        let mut asked = timer(&id, scene.at(Millis::ZERO));
        asked.spec.payload = Some(payload.clone());
        scene.create(asked).await;
        let read = scene.view(&id).await;
        let read = read.timer().and_then(|timer| timer.spec.payload.clone());
        assert_eq!(read.as_ref(), Some(&payload), "{id} when read");
        let firing = scene.claim_one().await;
        assert_eq!(firing.spec.payload.as_ref(), Some(&payload), "{id} when fired");
        scene.settled(&firing, dead()).await;
        let read = scene.view(&id).await;
        let read = read.timer().and_then(|timer| timer.spec.payload.clone());
        assert_eq!(read, Some(payload), "{id} as a dead letter");
    }
    scene.create_in("none", Millis::ZERO).await;
    assert_eq!(scene.claim_one().await.spec.payload, None, "none is not the empty one");
    CaseResult::Whole
}

pub(super) async fn p11_headers_in_order_and_everything_that_travels(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let every_char: String = (0x21..=0x7e_u8).map(char::from).collect();
    let pairs = [
        ("z-last", every_char.clone()),
        ("a-first", format!("{every_char} {every_char}")),
        ("m", String::new()),
        ("content-type", "text/x; charset=\"utf-8\"".to_owned()),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
    let headers = Headers::new(pairs).expect("headers that are allowed");
    let mut http = HttpDestination::new("https://one.example:8443/a%20b?c=d&e").expect("a URL");
    (http.method, http.timeout) = (Method::Patch, ms(12_345));
    http.headers = Headers::new([("x-key".to_owned(), "k".to_owned())]).expect("a header");
    let destination = Destination::Http(http);
    let mut asked = timer("a", scene.at(Millis::ZERO));
    asked.spec.headers = headers;
    asked.spec.destination = Some(destination.clone());
    asked.spec.slot_key = Some(SlotKey::new("customer/é 7".to_owned()).expect("a key"));
    asked.spec.trace_parent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    scene.create(asked.clone()).await;
    let claimed = scene.claim_as(scene.request(vec![destination.lane_key()])).await;
    let firing = &claimed.firings[0];
    assert_eq!(*firing.spec, asked.spec);
    assert_eq!(*firing.destination(), destination);
    CaseResult::Whole
}

pub(super) async fn p11_every_field_stays_in_every_state(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let spec = TimerSpec::every_field();
    let asked = Schedule { spec: spec.clone(), ..timer("a", scene.at(Millis::ZERO)) };
    scene.create(asked).await;
    let stored = async |id: &str, state| {
        let view = scene.view(id).await;
        assert_eq!(view.state, state);
        view.timer().expect("a whole timer").clone()
    };
    assert_eq!(stored("a", State::Due).await.spec, spec);
    let lane = spec.destination.as_ref().expect("it has one").lane_key();
    let claimed = scene.claim_as(scene.request(vec![lane])).await;
    let firing = &claimed.firings[0];
    assert_eq!(*firing.spec, spec);
    assert_eq!(stored("a", State::InFlight).await.spec, spec);
    scene.settled(firing, dead()).await;
    assert_eq!(stored("a", State::Dead).await.spec, spec);
    // Timers of another store, in every field of a record.
    let dead_letter =
        Timer { id: id("dead"), next_attempt_at: None, last_settled: None, ..Timer::every_field() };
    let retrying =
        Timer { id: id("retrying"), dead_letter: None, last_settled: None, ..Timer::every_field() };
    for (timer, state) in [(dead_letter, State::Dead), (retrying, State::Retrying)] {
        scene.apply(Operation::Import { timer: Box::new(timer.clone()) }).await;
        assert_eq!(stored(timer.id.as_str(), state).await, timer);
        scene.restart(Restart::Kill).await;
        assert_eq!(stored(timer.id.as_str(), state).await, timer);
    }
    scene.apply(cancel_op("retrying")).await;
    let view = scene.view("retrying").await;
    let every = Timer::every_field();
    assert_eq!((view.state, view.attempts()), (State::Cancelled, every.attempts));
    assert_eq!((view.due_at(), view.maybe_delivered()), (every.due_at, true));
    scene.put(Settings::every_field()).await;
    let namespace = scene.store().get_namespace(scene.namespace.clone()).await;
    let settings = namespace.expect("it replies").expect("it is there").settings;
    assert_eq!(*settings, Settings::every_field());
    CaseResult::Whole
}

pub(super) async fn p11_t5_every_id_that_is_allowed_works(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let longest = "é".repeat(128);
    let texts = [
        "a",
        "A",
        "_",
        "__",
        "a_b",
        "a:b",
        "a/b",
        "/",
        "..a",
        "...",
        "%00",
        "a b",
        " ",
        "*",
        "?",
        "é",
        "e\u{301}",
        "時計",
        "\u{1F550}",
        "'; --",
        "{a}",
        "\\",
        "a,b",
        longest.as_str(),
    ];
    for (i, text) in texts.iter().enumerate() {
        scene.create_in(text, ms(i as u64)).await;
    }
    assert_eq!(scene.stats().await.pending(), texts.len() as u64, "all are different");
    for text in texts {
        assert_eq!(scene.view(text).await.id().as_str(), text);
    }
    let mut listed = scene.list_request(ListState::Pending);
    listed.limit = 5;
    assert_eq!(scene.list_ids(listed).await, texts, "also when a page ends there");
    scene.advance(secs(1)).await;
    let firings = scene.claim().await;
    assert_eq!(super::scene::ids(&firings), texts);
    for (i, firing) in firings.iter().enumerate() {
        let verdict = if i % 2 == 0 { SettleVerdict::Ack } else { dead() };
        scene.settled(firing, verdict).await;
    }
    for (i, text) in texts.into_iter().enumerate() {
        let expected = if i % 2 == 0 { State::Finished } else { State::Dead };
        assert_eq!(scene.state(text).await, Some(expected), "{text:?}");
    }
    CaseResult::Whole
}

pub(super) async fn p11_changed_payload_is_delivered(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let payload = |byte: u8, bytes: usize| Payload {
        form: Form::Binary,
        bytes: Bytes::from(vec![byte; bytes]),
    };
    let mut asked = timer("a", scene.at(secs(1)));
    asked.spec.payload = Some(payload(1, 10));
    scene.create(asked).await;
    scene.create_in("b", secs(1)).await;
    for (byte, bytes) in [(2, 50_000), (3, 1), (4, 0), (5, 4_096)] {
        let patch = Patch { payload: Change::Set(payload(byte, bytes)), ..Patch::default() };
        scene.patch("a", patch).await;
        let read = scene.view("a").await;
        let read = read.timer().and_then(|timer| timer.spec.payload.clone());
        assert_eq!(read, Some(payload(byte, bytes)));
    }
    scene.apply(cancel_op("b")).await;
    scene.advance(secs(1)).await;
    assert_eq!(scene.claim_one().await.spec.payload, Some(payload(5, 4_096)));
    CaseResult::Whole
}
