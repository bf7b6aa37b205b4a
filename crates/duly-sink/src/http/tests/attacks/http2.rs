//! The same over HTTP/2: frames of a receiver are limited in bytes and in time as well.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_rustls::TlsAcceptor;

use super::{
    super::{receiver::After, tls::Authority, *},
    impatient_options,
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Creates a frame of the only stream, or of the connection for frames about that.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = announced(kind, flags, payload.len());
    frame.extend_from_slice(payload);
    frame
}

/// Creates the head of a frame whose payload follows.
fn announced(kind: u8, flags: u8, length: usize) -> Vec<u8> {
    let [.., a, b, c] = length.to_be_bytes();
    let stream = u8::from(!matches!(kind, SETTINGS | PING));
    vec![a, b, c, kind, flags, 0, 0, 0, stream]
}

/// Encodes a status and headers in HPACK, without any table but that of names.
fn fields(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(u8::try_from(text.len()).unwrap());
        out.extend_from_slice(text.as_bytes());
    };
    let mut out = vec![0x08];
    text(&mut out, &status.to_string());
    for (name, value) in headers {
        out.push(0x00);
        text(&mut out, name);
        text(&mut out, value);
    }
    out
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, &fields(status, headers))
}

/// A receiver that speaks HTTP/2 in frames of the test's choice.
struct Frames {
    port: u16,
    requests: Arc<AtomicUsize>,
    /// Connections that the sink closed while the receiver still wrote.
    closed: Arc<AtomicUsize>,
}

impl Frames {
    /// Answers the first request of each connection with these bytes, and then continues with `after`.
    async fn start(authority: &Authority, answer: Vec<u8>, after: After) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let frames = Self { port, requests: Arc::default(), closed: Arc::default() };
        let acceptor = TlsAcceptor::from(Arc::new(authority.http2_server()));
        let (requests, closed) = (Arc::clone(&frames.requests), Arc::clone(&frames.closed));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer, after) = (acceptor.clone(), answer.clone(), after.clone());
                let (requests, closed) = (Arc::clone(&requests), Arc::clone(&closed));
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    if answer_with(stream, &answer, after, &requests).await.is_err() {
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        frames
    }

    async fn deliver(&self, sink: &HttpSink) -> Delivery {
        let url = format!("https://localhost:{}/hook", self.port);
        sink.deliver(envelope(HttpDestination::new(&url).unwrap(), b"x")).await
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn answer_with(
    stream: tokio_rustls::server::TlsStream<TcpStream>,
    answer: &[u8],
    after: After,
    requests: &AtomicUsize,
) -> io::Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    read.read_exact(&mut [0; 24]).await?;
    write.write_all(&frame(SETTINGS, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        read.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        read.read_exact(&mut vec![0; length as usize]).await?;
        if matches!(head[3], DATA | HEADERS) && head[4] & END_STREAM != 0 {
            break;
        }
    }
    requests.fetch_add(1, Ordering::Relaxed);
    // All other bytes are read, so that this side never blocks the exchange.
    tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
    write.write_all(answer).await?;
    write.flush().await?;
    match after {
        After::Close => write.shutdown().await,
        After::Stall => std::future::pending().await,
        After::Repeat(chunk) => loop {
            write.write_all(&chunk).await?;
        },
        After::Drip(byte) => loop {
            write.write_all(&[byte]).await?;
            write.flush().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
    }
}

fn endless(frame: &[u8]) -> After {
    After::Repeat(frame.repeat(64))
}

#[tokio::test]
async fn s4_a_slow_http_2_head_costs_the_header_time_out() {
    let authority = Authority::new();
    // No bytes, a head that comes byte by byte, and one that continues slowly without end.
    for (answer, after) in [
        (Vec::new(), After::Stall),
        (announced(HEADERS, END_HEADERS, 16_000), After::Drip(0)),
        (frame(HEADERS, 0, &fields(200, &[])), After::Stall),
    ] {
        let receiver = Frames::start(&authority, answer, after).await;
        let sink = authority.sink(impatient_options);
        let delivery = receiver.deliver(&sink).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
        assert!(reason(&delivery).contains("webhook.header_timeout"), "{delivery:?}");
        assert_eq!((receiver.requests(), sink.pool.kept()), (1, 0));
    }
}

#[tokio::test]
async fn s4_an_http_2_body_that_is_slow_or_endless_changes_nothing() {
    let authority = Authority::new();
    for status in [200, 503] {
        let begun = [head(status, &[]), frame(DATA, 0, b"ab")].concat();
        let slow = [begun.clone(), announced(DATA, 0, 16_000)].concat();
        let slow = Frames::start(&authority, slow, After::Drip(b'c')).await;
        let full = frame(DATA, 0, &[b'c'; 1_000]);
        let full = Frames::start(&authority, begun.clone(), endless(&full)).await;
        let empty = Frames::start(&authority, begun, endless(&frame(DATA, 0, &[]))).await;
        for receiver in [&slow, &full, &empty] {
            let sink = authority.sink(|options| {
                options.timeouts.body = Duration::from_millis(60);
            });
            let delivery = receiver.deliver(&sink).await;
            if status == 200 {
                assert_eq!(delivery, Delivery::Confirmed);
            } else {
                assert_eq!(delivery.outcome(), AttemptOutcome::Failed, "{delivery:?}");
                assert!(
                    reason(&delivery)
                        .starts_with("HTTP 503 (repeated if the retry policy allows): ab"),
                    "{delivery:?}"
                );
                assert!(reason(&delivery).len() < 2_000, "{}", reason(&delivery).len());
            }
            if !std::ptr::eq(receiver, &slow) {
                let closed = || receiver.closed.load(Ordering::Relaxed) == 1;
                until("what goes on after the answer was cut off costs the connection", closed)
                    .await;
                until("it is not kept", || sink.pool.take(&origin(receiver)).is_none()).await;
            }
        }
    }
}

fn origin(receiver: &Frames) -> String {
    format!("https://localhost:{}", receiver.port)
}

#[tokio::test]
async fn a_closed_http_2_connection_is_replaced_in_the_attempt() {
    let authority = Authority::new();
    let answer = frame(HEADERS, END_HEADERS | END_STREAM, &fields(200, &[]));
    let receiver = Frames::start(&authority, answer, After::Close).await;
    let sink = authority.sink(|_| {});
    for n in 1..=3 {
        assert_eq!(receiver.deliver(&sink).await, Delivery::Confirmed, "delivery {n}");
        assert_eq!(receiver.requests(), n);
        until("its end is seen", || sink.pool.take(&origin(&receiver)).is_none()).await;
    }
}

#[tokio::test]
async fn s4_endless_frames_of_http_2_end_at_the_bytes_allowed() {
    let authority = Authority::new();
    let interim = head(103, &[("link", "</a>")]);
    let nothing = frame(PING, 1, &[0; 8]);
    let unknown = frame(0xfa, 0, &[0; 1_000]);
    for more in [&interim, &nothing, &unknown] {
        let receiver = Frames::start(&authority, Vec::new(), endless(more)).await;
        let sink = authority.sink(|options| options.bounds.response_bytes_max = 8 * 1024);
        let delivery = receiver.deliver(&sink).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
        assert!(reason(&delivery).contains("webhook.response_bytes_max"), "{delivery:?}");
        assert_eq!(sink.pool.kept(), 0);
    }
    // A head without end is too long before that, and so are trailers.
    let part = frame(CONTINUATION, 0, &fields(200, &[("x-more", "and more and more")])[5..]);
    let receiver =
        Frames::start(&authority, frame(HEADERS, 0, &fields(200, &[])), endless(&part)).await;
    let delivery = receiver.deliver(&authority.sink(|_| {})).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::ConnectionLost, "{delivery:?}");
    let trailers = [head(200, &[]), frame(HEADERS, END_STREAM, &[])].concat();
    let receiver = Frames::start(&authority, trailers, endless(&part)).await;
    assert_eq!(receiver.deliver(&authority.sink(|_| {})).await, Delivery::Confirmed);
}

/// Starts a receiver that answers every request with this many bytes; returns its port.
async fn chatty(authority: &Authority, answer_bytes: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(authority.http2_server()));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // Only one connection, so that its loss is visible.
        drop(listener);
        let stream = acceptor.accept(stream).await.unwrap();
        let mut http2 = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut answer))) = http2.accept().await {
            tokio::spawn(async move {
                let mut body = request.into_body();
                while let Some(Ok(part)) = body.data().await {
                    body.flow_control().release_capacity(part.len()).unwrap();
                }
                let mut text = answer.send_response(::http::Response::new(()), false).unwrap();
                text.send_data(vec![b'a'; answer_bytes].into(), true).unwrap();
            });
        }
    });
    port
}

#[tokio::test]
async fn each_http_2_exchange_gets_its_own_byte_grant() {
    const ANSWER_BYTES: usize = 8 * 1024;
    let authority = Authority::new();
    let port = chatty(&authority, ANSWER_BYTES).await;
    let sink = authority.sink(|options| options.bounds.response_bytes_max = ANSWER_BYTES);
    let to = HttpDestination::new(&format!("https://localhost:{port}/")).unwrap();
    // In total far more than is granted at once, in sequence and concurrently. Some requests are long
    // and are acknowledged piece by piece.
    for _ in 0..20 {
        let large = vec![b'x'; 256 * 1024];
        assert_eq!(sink.deliver(envelope(to.clone(), &large)).await, Delivery::Confirmed);
        let small = (0..10).map(|_| sink.deliver(envelope(to.clone(), b"x")));
        for delivery in futures::future::join_all(small).await {
            assert_eq!(delivery, Delivery::Confirmed);
        }
    }
}

#[tokio::test]
async fn s1_retry_after_and_redirects_of_http_2_are_those_of_http_1_1() {
    let authority = Authority::new();
    let target = Frames::start(&authority, head(200, &[]), After::Stall).await;
    let location = format!("https://localhost:{}/", target.port);
    let deliver = async |status, headers: &[(&str, &str)]| {
        let answer = frame(HEADERS, END_HEADERS | END_STREAM, &fields(status, headers));
        let receiver = Frames::start(&authority, answer, After::Stall).await;
        receiver.deliver(&authority.sink(|_| {})).await
    };
    let failed = |status, retry_after: Option<Millis>, location: Option<&str>| {
        let location = location.map(str::to_owned);
        status::Answer { status, retry_after, location, ..status::Answer::default() }.verdict()
    };
    let seven = Some(Millis::from_secs(7));
    assert_eq!(deliver(503, &[("retry-after", "7")]).await, failed(503, seven, None));
    assert_eq!(deliver(429, &[("retry-after", "junk")]).await, failed(429, None, None));
    let cap = Some(status::RETRY_AFTER_MAX);
    assert_eq!(deliver(429, &[("retry-after", "999999999")]).await, failed(429, cap, None));
    for status in [301, 302, 303, 307, 308] {
        let delivery = deliver(status, &[("location", &location)]).await;
        assert_eq!(delivery, failed(status, None, Some(&location)));
    }
    assert_eq!(target.requests(), 0);
    // The counterpart to "nothing arrived": the target does count.
    target.deliver(&authority.sink(|_| {})).await;
    assert_eq!(target.requests(), 1);
}
