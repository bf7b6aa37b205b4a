use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use duly_core::{
    DeliveryId, Incarnation, Millis, NamespaceName, Payload, TimerId, TimerSpec,
    destination::HttpDestination, headers::Headers, payload::Form,
};

use super::*;

fn envelope() -> Envelope {
    let mut destination = HttpDestination::new("https://receiver.example/hook").unwrap();
    destination.timeout = Millis::from_secs(5);
    Envelope {
        namespace: NamespaceName::new("orders").unwrap(),
        id: TimerId::new("order 42%").unwrap(),
        delivery_id: DeliveryId::of("orders", "order 42%", Incarnation(7), 0),
        attempt: 3,
        due_at: Timestamp::parse("2030-01-31T12:00:00.250Z").unwrap(),
        spec: Arc::new(TimerSpec {
            payload: Some(Payload { form: Form::Json, bytes: Bytes::from_static(b"{}") }),
            ..TimerSpec::default()
        }),
        destination,
        signing_secrets: Vec::new(),
        delivery_trace_parent: None,
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

fn spec(envelope: &mut Envelope) -> &mut TimerSpec {
    Arc::make_mut(&mut envelope.spec)
}

fn headers(pairs: &[(&str, &str)]) -> Headers {
    Headers::new(pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_unix_ms(1_900_000_000_999).unwrap()
}

fn lines(map: &HeaderMap) -> Vec<String> {
    map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

#[test]
fn s3_the_whole_set_in_its_order() {
    let mut envelope = envelope();
    envelope.destination.headers = headers(&[("authorization", "Bearer d"), ("x-both", "dest")]);
    spec(&mut envelope).headers = headers(&[("x-both", "timer"), ("x-own", "a b")]);
    spec(&mut envelope).trace_parent =
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    let id = envelope.delivery_id.to_string();
    let expected = format!(
        "authorization: Bearer d
x-both: timer
x-own: a b
content-type: application/json
ce-specversion: 1.0
ce-id: {id}
ce-source: /namespaces/orders
ce-type: duly.timer.fired
ce-time: 2030-01-31T12:00:00.250Z
ce-subject: order%2042%25
webhook-id: {id}
webhook-timestamp: 1900000000
duly-loop: duly
duly-attempt: 3
duly-due-at: 2030-01-31T12:00:00.250Z
traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
ce-traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    );
    assert_eq!(lines(&build(&envelope, now()).unwrap()).join("\n"), expected);
}

#[test]
fn content_type_defaults_to_the_payload_form() {
    let check = |form: Option<Form>, destination: &[_], timer: &[_], expected: Option<&str>| {
        let mut envelope = envelope();
        spec(&mut envelope).payload = form.map(|form| Payload { form, bytes: Bytes::new() });
        envelope.destination.headers = headers(destination);
        spec(&mut envelope).headers = headers(timer);
        let map = build(&envelope, now()).unwrap();
        let got = map.get(CONTENT_TYPE).map(|v| v.to_str().unwrap());
        assert_eq!(got, expected, "{form:?} {destination:?} {timer:?}");
        assert!(map.get_all(CONTENT_TYPE).iter().count() <= 1);
    };
    let own = [("content-type", "application/own")];
    let its = [("content-type", "application/its")];
    check(Some(Form::Json), &[], &[], Some("application/json"));
    check(Some(Form::Text), &[], &[], Some("text/plain; charset=utf-8"));
    check(Some(Form::Binary), &[], &[], Some("application/octet-stream"));
    check(None, &[], &[], None);
    check(Some(Form::Json), &[], &own, Some("application/own"));
    check(Some(Form::Json), &its, &[], Some("application/its"));
    check(Some(Form::Json), &its, &own, Some("application/own"));
}

#[test]
fn s3_dulys_headers_replace_others() {
    let mut envelope = envelope();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    spec(&mut envelope).headers = headers(&[("traceparent", "theirs")]);
    spec(&mut envelope).trace_parent = Some(trace.into());
    let map = build(&envelope, now()).unwrap();
    assert_eq!(map.get("traceparent").unwrap(), trace);
    assert_eq!(map["ce-traceparent"], trace);
    assert_eq!(map.get_all("traceparent").iter().count(), 1);

    let attempt = "00-1fa6dc92b9d63600d477a3232b5d33b5-7798c25d0c7c9daa-01";
    envelope.delivery_trace_parent = Some(attempt.into());
    let map = build(&envelope, now()).unwrap();
    assert_eq!(map["traceparent"], attempt);
    assert_eq!(map["ce-traceparent"], trace);
}

#[test]
fn s3_no_caller_says_for_whom_a_delivery_is_sent() {
    let mut envelope = envelope();
    let names = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "x-own"];
    // Timers that were stored before such names were refused.
    let stored = |names: &[&str]| {
        Headers::from_stored(
            names.iter().map(|&n| (n.to_owned(), "127.0.0.1".to_owned())).collect(),
        )
    };
    envelope.destination.headers = stored(&names[..2]);
    spec(&mut envelope).headers = stored(&names[2..]);
    let map = build(&envelope, now()).unwrap();
    let sent: Vec<_> = names.into_iter().filter(|name| map.contains_key(*name)).collect();
    assert_eq!(sent, ["x-own"]);
}

#[test]
fn a_line_break_can_start_no_header() {
    // Headers of timers and destinations are checked when they are made.
    for value in ["a\r\nx-evil: 1", "a\nb", "a\0b"] {
        assert!(Headers::new([("x-a".to_owned(), value.to_owned())]).is_err());
    }
    // The trace context was not checked before; it is checked here, and left out.
    let mut envelope = envelope();
    spec(&mut envelope).trace_parent = Some("00-1\r\nx-evil: 1".into());
    let map = build(&envelope, now()).unwrap();
    assert!(map.get("traceparent").is_none() && map.get("x-evil").is_none());
    // Ids of timers may have any printable characters; they are encoded.
    envelope.id = TimerId::new("a\u{2028}b").unwrap();
    assert_eq!(build(&envelope, now()).unwrap()["ce-subject"], "a%E2%80%A8b");
    let error = put(&mut HeaderMap::new(), "x-a", "secret\r\nx-evil: 1").unwrap_err();
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn ce_subject_is_percent_encoded_as_the_http_binding_says() {
    let check = |text, expected| assert_eq!(percent_encoded(text), expected, "{text:?}");
    // The example of the specification, section 3.1.3.2.
    check("Euro \u{20ac} \u{1f600}", "Euro%20%E2%82%AC%20%F0%9F%98%80");
    check("plain-id_1.2:3/4", "plain-id_1.2:3/4");
    check("100%", "100%25");
    check("\"quoted\"", "%22quoted%22");
    check("a+b&c=d;e,f", "a+b&c=d;e,f");
    check("\u{7f}", "%7F");
    check("~!", "~!");
}
