//! Malicious receivers: silent, slow, endless, lying, half closed. Each costs its attempt the matching
//! time-out, and nothing else.

use super::{receiver::After, *};

mod http2;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Creates a sink with a short time-out for the head of a reply.
fn impatient() -> HttpSink {
    sink_with(impatient_options)
}

fn impatient_options(options: &mut Options) {
    options.timeouts.header = Duration::from_millis(150);
}

async fn deliver(sink: &HttpSink, raw: &Raw) -> Delivery {
    sink.deliver(envelope(destination(raw.address), b"x")).await
}

#[tokio::test]
async fn s4_a_silent_receiver_costs_the_header_time_out() {
    let raw = Raw::stalling("").await;
    let delivery = deliver(&impatient(), &raw).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
    assert!(reason(&delivery).contains("webhook.header_timeout"), "{delivery:?}");
    assert_eq!(raw.requests(), 1);
}

#[tokio::test]
async fn s4_a_head_that_comes_byte_by_byte_costs_the_header_time_out() {
    let raw = Raw::dripping("HTTP/1.1 200 OK\r\nx-slow: ", b'a').await;
    let delivery = deliver(&impatient(), &raw).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
    assert!(reason(&delivery).contains("webhook.header_timeout"), "{delivery:?}");
}

#[tokio::test]
async fn s4_a_slow_body_costs_only_its_connection() {
    for (status, outcome) in
        [("200 OK", AttemptOutcome::Delivered), ("503 No", AttemptOutcome::Failed)]
    {
        let raw = Raw::dripping(&format!("HTTP/1.1 {status}\r\n\r\nab"), b'c').await;
        let sink = sink_with(|options| options.timeouts.body = Duration::from_millis(60));
        let delivery = deliver(&sink, &raw).await;
        assert_eq!(delivery.outcome(), outcome, "{delivery:?}");
        if outcome == AttemptOutcome::Failed {
            assert!(
                reason(&delivery).starts_with("HTTP 503 (repeated if the retry policy allows): ab"),
                "{delivery:?}"
            );
        }
        assert_eq!(sink.pool.kept(), 0);
    }
}

#[tokio::test]
async fn s4_endless_replies_end_at_the_byte_limit() {
    let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let header = b"x-more: and more and more and more\r\n";
    for (head, more) in [("", &hint[..]), ("HTTP/1.1 200 OK\r\n", header)] {
        let raw = Raw::endless(head, more).await;
        let delivery = deliver(&sink(), &raw).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
    }
    // A grant that is smaller than the client's own limits ends the exchange and is named.
    let raw = Raw::endless("", hint).await;
    let strict = sink_with(|options| options.bounds.response_bytes_max = 8 * 1024);
    let delivery = deliver(&strict, &raw).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
    assert!(reason(&delivery).contains("webhook.response_bytes_max"), "{delivery:?}");
    // Empty chunks with long extensions: the status counts, the connection is closed.
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let raw = Raw::endless(chunked, b"1;e=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n").await;
    let sink = sink();
    assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
    assert_eq!(sink.pool.kept(), 0);
}

#[tokio::test]
async fn s4_a_receiver_that_never_reads_holds_nothing_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = destination(listener.local_addr().unwrap());
    let sink = impatient();
    let large = vec![b'x'; 8 << 20];
    let (delivery, accepted) = tokio::join!(sink.deliver(envelope(to, &large)), listener.accept());
    assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
    assert_eq!(sink.pool.kept(), 0);
    // The socket was closed: the sent bytes can be read, and then the stream ends.
    let mut stream = accepted.unwrap().0;
    let mut read_bytes = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        read_bytes += n;
    }
    assert!(read_bytes < large.len(), "{read_bytes} bytes arrived");
}

#[tokio::test]
async fn s1_a_wrong_content_length_confirms_one_request_only() {
    // Too short: the status is known. Too long: the rest answers no request.
    let two_in_one = format!("{OK}{OK}");
    for lie in ["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab", two_in_one.as_str()] {
        let raw = Raw::by_connection(&[(&[lie], After::Close), (&[], After::Close)]).await;
        let sink = sink();
        assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
        let second = deliver(&sink, &raw).await;
        assert_ne!(second, Delivery::Confirmed, "{lie:?}");
        assert_eq!(raw.requests(), 1, "{lie:?}");
    }
}

#[tokio::test]
async fn a_connection_that_went_silent_is_not_used_again() {
    let raw = Raw::by_connection(&[(&[OK, ""], After::Stall), (&[OK], After::Stall)]).await;
    let sink = impatient();
    assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
    assert_eq!(sink.pool.kept(), 1);
    let second = deliver(&sink, &raw).await;
    assert_eq!(second.outcome(), AttemptOutcome::TimedOut, "{second:?}");
    assert_eq!((raw.connections(), sink.pool.kept()), (1, 0));
    assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
    assert_eq!((raw.connections(), raw.requests()), (2, 3));
}

#[tokio::test]
async fn a_closed_connection_is_replaced_within_the_attempt() {
    let raw = Raw::by_connection(&[(&[OK], After::Close)]).await;
    let sink = sink();
    for n in 1..=3 {
        assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed, "delivery {n}");
        assert_eq!((raw.connections(), raw.requests()), (n, n));
        // Waits until the end of the connection has arrived here.
        let origin = format!("http://{}", raw.address);
        until("the connection is seen to be closed", || match sink.pool.take(&origin) {
            Some(PooledConnection::Http1(connection)) => {
                sink.pool.keep(&origin, connection, Duration::MAX);
                false
            }
            _ => true,
        })
        .await;
    }
}

#[tokio::test]
async fn s7_a_possibly_read_request_is_not_repeated() {
    // A kept connection that takes the second request and closes without a byte.
    let raw = Raw::by_connection(&[(&[OK, ""], After::Close), (&[OK], After::Stall)]).await;
    let sink = sink();
    assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
    let second = deliver(&sink, &raw).await;
    assert_eq!(second.outcome(), AttemptOutcome::ConnectionLost, "{second:?}");
    assert_eq!((raw.connections(), raw.requests()), (1, 2), "it was sent once");
    assert_eq!(deliver(&sink, &raw).await, Delivery::Confirmed);
}

#[tokio::test]
async fn a_flapping_receiver_is_told_apart_attempt_by_attempt() {
    let turns: [(&[&str], After); 5] = [
        (&[OK], After::Close),
        (&[""], After::Close),
        (&["HTTP/1.1 503 Busy\r\nconnection: close\r\n\r\n"], After::Close),
        (&["\0\0\0 no http"], After::Close),
        (&[""], After::Stall),
    ];
    use AttemptOutcome::{ConnectionLost, Delivered, Failed, TimedOut};
    let raw = Raw::by_connection(&turns).await;
    for round in 0..2 {
        for (n, outcome) in
            [Delivered, ConnectionLost, Failed, ConnectionLost, TimedOut].into_iter().enumerate()
        {
            // A new sink for each: this test is not about kept connections.
            let delivery = deliver(&impatient(), &raw).await;
            assert_eq!(delivery.outcome(), outcome, "round {round}, turn {n}: {delivery:?}");
        }
    }
    assert_eq!(raw.requests(), 10);
}

#[tokio::test]
async fn s4_a_silent_tls_handshake_counts_as_not_connected() {
    // It accepts, reads all bytes and sends nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let held = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer).await {}
    });
    let sink = sink_with(|options| options.timeouts.connect = Duration::from_millis(150));
    let to = HttpDestination::new(&format!("https://127.0.0.1:{port}/")).unwrap();
    let delivery = sink.deliver(envelope(to, b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    assert!(reason(&delivery).contains("webhook.connect_timeout"), "{delivery:?}");
    // The socket is closed with the attempt.
    held.await.unwrap();
}

#[tokio::test]
async fn s5_no_connection_to_a_refused_port() {
    let raw = Raw::answering(&[OK]).await;
    let port = raw.address.port();
    let other = if port == 443 { 444 } else { 443 };
    let strict = sink_with(|options| options.addresses.ports = vec![other..=other]);
    let delivery = deliver(&strict, &raw).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    assert!(reason(&delivery).contains("webhook.allow_ports"), "{delivery:?}");
    assert_eq!(raw.connections(), 0);
    let open = sink_with(|options| options.addresses.ports = vec![port..=port]);
    assert_eq!(deliver(&open, &raw).await, Delivery::Confirmed);
}
