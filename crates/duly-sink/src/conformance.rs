//! The conformance checks that every sink passes, for any kind of receiver.
//!
//! A test provides a [`Receiver`]: a receiver that the test can inspect, the sink that sends to it, and the
//! form that its kind gives to names.
//! Each check names the promise that it tests. It panics with a sentence if the promise is broken.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use duly_core::{
    DeliveryId, Incarnation, NamespaceName, Payload, TimerId, TimerSpec, Timestamp,
    headers::Headers, payload::Form,
};
use futures::future::BoxFuture;

use crate::{Delivery, Envelope, Sink};

/// The behaviour of a receiver at the next delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Confirms the delivery.
    Confirm,
    /// Takes the delivery and refuses it.
    Refuse,
    /// Takes the delivery and never replies.
    Hang,
}

/// One delivery as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The payload.
    pub body: Vec<u8>,
    /// Names (lower case) and values of the headers, in order.
    pub headers: Vec<(String, String)>,
}

impl Arrival {
    /// Returns the value of a header that is present exactly once.
    pub fn only(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }
}

/// A receiver that a test can inspect.
pub trait Receiver: Send + Sync {
    /// The destinations of its kind.
    type Destination: 'static;
    /// Returns the sink that sends to it.
    fn sink(&self) -> &dyn Sink<Self::Destination>;
    /// Returns a destination that leads to it.
    fn destination(&self) -> Self::Destination;
    /// Sets its behaviour from now on.
    fn behave(&self, behaviour: Behaviour);
    /// Returns the deliveries that have arrived since the last call.
    fn arrivals(&self) -> BoxFuture<'_, Vec<Arrival>>;
    /// Returns the header that has this attribute of CloudEvents, in the form of its kind.
    fn attribute(&self, name: &str, value: &str) -> (String, String);
    /// Returns the headers that only its kind adds to the delivery with this id.
    fn added(&self, delivery_id: &str) -> Vec<(String, String)>;
}

/// Creates an envelope for `destination` with this payload, due long ago.
pub fn envelope<D>(destination: D, body: &[u8]) -> Envelope<D> {
    Envelope {
        namespace: NamespaceName::new("conformance").expect("a valid name"),
        id: TimerId::new("timer 1").expect("a valid id"),
        delivery_id: DeliveryId::of("conformance", "timer 1", Incarnation(1), 0),
        attempt: 2,
        due_at: Timestamp::from_unix_ms(1_700_000_000_000).expect("a valid time"),
        spec: Arc::new(TimerSpec {
            payload: Some(Payload { form: Form::Binary, bytes: Bytes::copy_from_slice(body) }),
            ..TimerSpec::default()
        }),
        destination,
        signing_secrets: Vec::new(),
        delivery_trace_parent: None,
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

/// Runs all checks.
pub async fn all(receiver: &impl Receiver) {
    s1_confirms_only_what_was_confirmed(receiver).await;
    s2_payload_and_headers_arrive_intact(receiver).await;
    s3_names_are_always_there(receiver).await;
    s4_nothing_is_sent_past_the_deadline(receiver).await;
    s4_a_receiver_that_hangs_costs_no_more_than_the_deadline(receiver).await;
}

/// Checks S1.
pub async fn s1_confirms_only_what_was_confirmed(receiver: &impl Receiver) {
    for (behaviour, confirmed) in [(Behaviour::Refuse, false), (Behaviour::Confirm, true)] {
        receiver.behave(behaviour);
        let delivery = receiver.sink().deliver(envelope(receiver.destination(), b"x")).await;
        let is_confirmed = delivery == Delivery::Confirmed;
        assert_eq!(is_confirmed, confirmed, "S1: {behaviour:?} was answered {delivery:?}");
        assert_eq!(receiver.arrivals().await.len(), 1, "S1: {behaviour:?}");
    }
}

/// Checks S2.
pub async fn s2_payload_and_headers_arrive_intact(receiver: &impl Receiver) {
    receiver.behave(Behaviour::Confirm);
    let every_byte: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for body in [&b""[..], b"\0", b"{\"a\" : 1.0}", &every_byte] {
        let mut sent = envelope(receiver.destination(), body);
        let value = "v with  inner spaces, \"quotes\" and ~tilde";
        Arc::make_mut(&mut sent.spec).headers =
            Headers::new([("x-own".to_owned(), value.to_owned())]).expect("valid headers");
        let delivery = receiver.sink().deliver(sent).await;
        assert_eq!(delivery, Delivery::Confirmed, "S2");
        let arrived = receiver.arrivals().await;
        assert_eq!(arrived.len(), 1, "S2: one delivery");
        assert!(arrived[0].body == body, "S2: {} bytes changed", body.len());
        assert_eq!(arrived[0].only("x-own"), Some(value), "S2");
    }
}

/// Checks S3.
pub async fn s3_names_are_always_there(receiver: &impl Receiver) {
    receiver.behave(Behaviour::Confirm);
    let mut sent = envelope(receiver.destination(), b"x");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Arc::make_mut(&mut sent.spec).trace_parent = Some(trace.to_owned());
    let delivery_id = sent.delivery_id.to_string();
    let delivery = receiver.sink().deliver(sent).await;
    assert_eq!(delivery, Delivery::Confirmed, "S3");
    let arrived = receiver.arrivals().await;
    let due_at = "2023-11-14T22:13:20.000Z";
    let attributes = [
        ("specversion", "1.0"),
        ("id", &delivery_id),
        ("type", "duly.timer.fired"),
        ("source", "/namespaces/conformance"),
        ("time", due_at),
        ("subject", "timer 1"),
        ("datacontenttype", "application/octet-stream"),
        ("traceparent", trace),
    ];
    let attributes = attributes.map(|(name, value)| receiver.attribute(name, value));
    let others = [("duly-attempt", "2"), ("duly-due-at", due_at), ("traceparent", trace)];
    let others = others.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for (name, value) in attributes.into_iter().chain(others).chain(receiver.added(&delivery_id)) {
        assert_eq!(arrived[0].only(&name), Some(&*value), "S3: {name}");
    }
}

/// Checks that nothing is sent after the deadline (S4).
pub async fn s4_nothing_is_sent_past_the_deadline(receiver: &impl Receiver) {
    receiver.behave(Behaviour::Confirm);
    let mut late = envelope(receiver.destination(), b"late");
    late.deadline = Instant::now();
    let delivery = receiver.sink().deliver(late).await;
    assert_ne!(delivery, Delivery::Confirmed, "S4");
    let arrived = receiver.arrivals().await;
    assert!(arrived.is_empty(), "S4: sent past the deadline");
}

/// Checks that a receiver that hangs ends at the deadline (S4).
pub async fn s4_a_receiver_that_hangs_costs_no_more_than_the_deadline(receiver: &impl Receiver) {
    receiver.behave(Behaviour::Hang);
    let within = Duration::from_millis(200);
    let mut sent = envelope(receiver.destination(), b"x");
    sent.deadline = Instant::now() + within;
    let started = Instant::now();
    let delivery = receiver.sink().deliver(sent).await;
    assert_ne!(delivery, Delivery::Confirmed, "S4");
    assert!(
        delivery.outcome().is_unknown(),
        "S4: it may have arrived, but was called {delivery:?}"
    );
    let took = started.elapsed();
    assert!(took >= within, "S4: gave up after {took:?}");
    assert!(took < within + Duration::from_secs(5), "S4: took {took:?}");
}

#[cfg(test)]
mod tests;
