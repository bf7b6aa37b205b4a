//! The webhook sink against real sockets on the loopback interface.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Instant as StdInstant,
};

use duly_core::{
    Millis, NamespaceName, Timestamp,
    access::NamespacePattern,
    destination::HttpDestination,
    headers::Headers,
    namespace::SigningSecret,
    timer::{AttemptOutcome, Wait},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    ReceiverHealth,
    conformance::{self, Arrival, Behaviour, Receiver, envelope},
};

mod attacks;
mod closing;
mod guide;
mod names;
mod pooling;
mod proxy;
mod receiver;
mod third_party;
mod tls;
mod unread;

use receiver::{Raw, Web};

/// The machine's wall clock; the boot clock is not used by sinks.
#[derive(Debug)]
struct SystemWall;

impl Clock for SystemWall {
    fn wall(&self) -> Duration {
        std::time::UNIX_EPOCH.elapsed().unwrap()
    }
    fn boot(&self) -> Duration {
        Duration::ZERO
    }
}

fn sink() -> HttpSink {
    sink_with(|_| {})
}

/// Creates a sink with these options that may connect to loopback.
fn sink_with(set: impl FnOnce(&mut Options)) -> HttpSink {
    let mut options = Options { addresses: AddressPolicy::with_loopback(), ..Options::default() };
    set(&mut options);
    HttpSink::new(options, Arc::new(SystemWall)).unwrap()
}

fn destination(address: SocketAddr) -> HttpDestination {
    HttpDestination::new(&format!("http://{address}/hook?token=top-secret")).unwrap()
}

/// Waits for an event of other tasks.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let all = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // Far longer than it can take: a test that fails should name the event it waited for.
    tokio::time::timeout(Duration::from_secs(60), all).await.expect(what);
}

fn reason(delivery: &Delivery) -> &str {
    match delivery {
        Delivery::Failed { reason, .. } | Delivery::Rejected { reason } => reason,
        Delivery::Confirmed | Delivery::Snoozed { .. } => panic!("{delivery:?}"),
    }
}

#[tokio::test]
async fn conforms() {
    conformance::all(&Web::start().await).await;
}

/// A sink with a planted fault, in front of a correct receiver.
struct Planted {
    web: Web,
    fault: fn(&HttpSink, Envelope) -> BoxFuture<'_, Delivery>,
}

impl Sink for Planted {
    fn deliver(&self, envelope: Envelope) -> BoxFuture<'_, Delivery> {
        (self.fault)(self.web.http_sink(), envelope)
    }
}

impl Receiver for Planted {
    type Destination = HttpDestination;
    fn sink(&self) -> &dyn Sink {
        self
    }
    fn destination(&self) -> HttpDestination {
        self.web.destination()
    }
    fn behave(&self, behaviour: Behaviour) {
        self.web.behave(behaviour);
    }
    fn arrivals(&self) -> BoxFuture<'_, Vec<Arrival>> {
        self.web.arrivals()
    }
    fn attribute(&self, name: &str, value: &str) -> (String, String) {
        self.web.attribute(name, value)
    }
    fn added(&self, delivery_id: &str) -> Vec<(String, String)> {
        self.web.added(delivery_id)
    }
}

#[tokio::test]
async fn canary_planted_faults_turn_the_conformance_checks_red() {
    let check = async |name: &str, fault| {
        let planted = Planted { web: Web::start().await, fault };
        let verdict = tokio::spawn(async move { conformance::all(&planted).await }).await;
        assert_eq!(verdict.is_err(), name != "none", "planted: {name}");
    };
    check("none", |sink, envelope| sink.deliver(envelope)).await;
    check("confirms what was refused", |sink, envelope| {
        Box::pin(async move {
            sink.deliver(envelope).await;
            Delivery::Confirmed
        })
    })
    .await;
    check("changes the payload", |sink, mut envelope| {
        if let Some(payload) = &mut Arc::make_mut(&mut envelope.spec).payload {
            payload.bytes = String::from_utf8_lossy(&payload.bytes).into_owned().into();
        }
        sink.deliver(envelope)
    })
    .await;
    check("another delivery id", |sink, mut envelope| {
        envelope.delivery_id = duly_core::DeliveryId::from_u128(7);
        sink.deliver(envelope)
    })
    .await;
    check("drops the trace context", |sink, mut envelope| {
        Arc::make_mut(&mut envelope.spec).trace_parent = None;
        sink.deliver(envelope)
    })
    .await;
    check("ignores the deadline", |sink, mut envelope| {
        envelope.deadline = StdInstant::now() + Duration::from_secs(60);
        sink.deliver(envelope)
    })
    .await;
    check("calls a time-out a no", |sink, envelope| {
        Box::pin(async move {
            match sink.deliver(envelope).await {
                Delivery::Failed { reason, .. } => Delivery::failed(AttemptOutcome::Failed, reason),
                other => other,
            }
        })
    })
    .await;
}

#[tokio::test]
async fn s1_statuses_on_the_wire() {
    let check = async |head: &str, expected: Delivery| {
        let raw =
            Raw::answering(&[&format!("HTTP/1.1 {head}\r\ncontent-length: 3\r\n\r\nno\n")]).await;
        let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
        assert_eq!(delivery, expected, "{head:?}");
    };
    let answer = |status| {
        let excerpt = "no\\n".to_owned();
        status::Answer { status, excerpt, ..status::Answer::default() }
    };
    let failed = |retry_after: Option<Millis>, status| {
        status::Answer { retry_after, ..answer(status) }.verdict()
    };
    check("200 OK", Delivery::Confirmed).await;
    check("299 Fine", Delivery::Confirmed).await;
    check("410 Gone", failed(None, 410)).await;
    check("404 Not Found\r\nretry-after: 7", failed(None, 404)).await;
    let seven = Some(Millis::from_secs(7));
    check("503 Busy\r\nretry-after: 7", failed(seven, 503)).await;
    check("429 Slow\r\nretry-after: junk", failed(None, 429)).await;
    let cap = Some(status::RETRY_AFTER_MAX);
    check("503 Busy\r\nretry-after: 999999999", failed(cap, 503)).await;
    let after = Millis::from_secs(90);
    check("425 Too Early\r\nduly-snooze: 90", Delivery::Snoozed { after }).await;
    let at_least = Delivery::Snoozed { after: status::SNOOZE_MIN };
    check("425 Too Early\r\nduly-snooze: 0", at_least.clone()).await;
    check("425 Too Early\r\nduly-snooze: Wed, 21 Oct 2015 07:28:00 GMT", at_least).await;
    let unread = status::Answer { has_unread_snooze: true, ..answer(425) };
    check("425 Too Early\r\nduly-snooze: soon", unread.verdict()).await;
    check("200 OK\r\nduly-snooze: 90", Delivery::Confirmed).await;
}

#[tokio::test]
async fn s5_a_redirect_is_not_followed() {
    let target = Raw::answering(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = target.address;
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: http://{location}/\r\ncontent-length: 0\r\n\r\n"
        );
        let raw = Raw::answering(&[&answer]).await;
        let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
        let expected =
            format!("HTTP {status} (redirects are not followed): location http://{location}/");
        assert_eq!((reason(&delivery), delivery.health()), (&*expected, ReceiverHealth::Good));
    }
    assert_eq!(target.requests(), 0);
    // The counterpart to "nothing arrived": the target does count.
    sink().deliver(envelope(destination(target.address), b"x")).await;
    assert_eq!(target.requests(), 1);
}

#[tokio::test]
async fn s4_an_endless_answer_is_cut_and_its_beginning_kept() {
    for (status, confirmed) in [("200 OK", true), ("500 Broken", false)] {
        let raw = Raw::endless(&format!("HTTP/1.1 {status}\r\n\r\n"), b"\x1b[2Jabc\xff").await;
        let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
        if confirmed {
            assert_eq!(delivery, Delivery::Confirmed);
        } else {
            let reason = reason(&delivery);
            assert!(
                reason.starts_with(r"HTTP 500 (repeated if the retry policy allows): \u{1b}[2Jabc"),
                "{reason}"
            );
            assert!(reason.len() < 16 * 1024, "{} bytes kept", reason.len());
        }
    }
}

#[tokio::test]
async fn s4_a_slow_answer_is_judged_by_its_status() {
    for (head, confirmed) in [("200 OK", true), ("503 Busy", false)] {
        // The head comes, its body never does.
        let raw = Raw::stalling(&format!("HTTP/1.1 {head}\r\ncontent-length: 9\r\n\r\nab")).await;
        let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
        assert_eq!(delivery == Delivery::Confirmed, confirmed, "{delivery:?}");
    }
}

#[tokio::test]
async fn s4_the_destinations_own_time_out_counts() {
    let raw = Raw::stalling("").await;
    let mut slow = destination(raw.address);
    slow.timeout = Millis::from_ms(150);
    let delivery = sink().deliver(envelope(slow, b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
}

#[tokio::test]
async fn p4_what_was_not_sent_is_told_from_what_may_have_arrived() {
    // A bound port that no longer listens: nothing can be sent.
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let delivery = sink().deliver(envelope(destination(closed), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    // The request is read, then the connection closed without an answer.
    let raw = Raw::answering(&[""]).await;
    let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
    // No HTTP at all.
    let raw = Raw::answering(&["SSH-2.0-OpenSSH_9.9\r\n"]).await;
    let delivery = sink().deliver(envelope(destination(raw.address), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
}

#[tokio::test]
async fn p4_time_that_ends_before_there_is_a_connection_is_no_doubt() {
    /// Never finds an address.
    struct Silent;
    impl resolve::Lookup for Silent {
        fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            Box::pin(std::future::pending())
        }
    }
    let sink =
        HttpSink::with_lookup(Options::default(), Arc::new(SystemWall), Arc::new(Silent)).unwrap();
    let mut to = HttpDestination::new("http://receiver.example/").unwrap();
    to.timeout = Millis::from_ms(100);
    let delivery = sink.deliver(envelope(to.clone(), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    assert!(reason(&delivery).contains("the time of the attempt ended"), "{delivery:?}");
    // The attempt's own deadline applies as well as the destination's time-out.
    to.timeout = Millis::from_secs(60);
    let mut sent = envelope(to, b"x");
    sent.deadline = StdInstant::now() + Duration::from_millis(100);
    let delivery = sink.deliver(sent).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
}

#[tokio::test]
async fn connections_are_used_again() {
    let web = Web::start().await;
    for _ in 0..5 {
        let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!(web.arrivals().await.len(), 5);
    assert_eq!(web.connections(), 1);
}

#[tokio::test]
async fn s5_names_are_checked_by_their_addresses() {
    /// Answers every name with the same addresses.
    struct Fixed(Vec<IpAddr>);
    impl resolve::Lookup for Fixed {
        fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let addresses = self.0.clone();
            Box::pin(async move { Ok(addresses) })
        }
    }
    let raw = Raw::answering(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).await;
    let port = raw.address.port();
    let deliver = async |addresses: &[&str], loopback| {
        let policy = AddressPolicy { loopback, ..AddressPolicy::default() };
        let options = Options { addresses: policy, ..Options::default() };
        let found = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let lookup = Arc::new(Fixed(found));
        let sink = HttpSink::with_lookup(options, Arc::new(SystemWall), lookup).unwrap();
        let to = HttpDestination::new(&format!("http://receiver.example:{port}/x")).unwrap();
        sink.deliver(envelope(to, b"x")).await
    };
    for addresses in [
        &["127.0.0.1"][..],
        &["::1"],
        &["10.0.0.7"],
        &["169.254.169.254"],
        &["127.0.0.1", "10.0.0.7"],
        &[],
    ] {
        let delivery = deliver(addresses, Loopback::Refused).await;
        let outcome = delivery.outcome();
        assert_eq!(outcome, AttemptOutcome::NotConnected, "{addresses:?}");
        let told = reason(&delivery);
        assert!(told.contains("refused") || told.contains("no address"), "{told}");
    }
    assert_eq!(raw.requests(), 0);
    // Refused ones are left out, the rest is used.
    let delivery = deliver(&["10.0.0.7", "127.0.0.1"], Loopback::Allowed).await;
    assert_eq!(delivery, Delivery::Confirmed);
    assert_eq!(raw.requests(), 1);
}

#[tokio::test]
async fn s5_literal_hosts_are_checked_without_a_look_up() {
    let raw = Raw::answering(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).await;
    let strict = HttpSink::new(Options::default(), Arc::new(SystemWall)).unwrap();
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{}/", raw.address.port());
        let to = HttpDestination::new(&url).unwrap();
        let delivery = strict.deliver(envelope(to, b"x")).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{host}");
        assert!(reason(&delivery).contains("loopback"), "{delivery:?}");
    }
    assert_eq!(raw.requests(), 0);
}

#[tokio::test]
async fn s6_no_secret_appears_in_a_reason() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let lost = Raw::answering(&[""]).await;
    let hangs = Raw::stalling("").await;
    for address in [closed, lost.address, hangs.address] {
        let mut to = destination(address);
        to.timeout = Millis::from_ms(150);
        to.headers =
            Headers::new([("authorization".to_owned(), "Bearer top-secret".to_owned())]).unwrap();
        let mut sent = envelope(to, b"top-secret");
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        sent.signing_secrets = vec![SigningSecret::new(secret).unwrap()];
        let shown = format!("{sent:?}");
        let delivery = sink().deliver(sent).await;
        for text in [shown.as_str(), reason(&delivery)] {
            assert!(!text.contains("top-secret") && !text.contains("MfKQ9r8G"), "{text}");
        }
    }
}

#[test]
fn the_timestamp_is_the_time_of_the_attempt() {
    let now = SystemWall.now();
    assert!(now > Timestamp::parse("2024-01-01T00:00:00Z").unwrap());
}
