//! Receivers that end their connections: in order over HTTP/2, and without a word over HTTP/1.1.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt, stream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio_rustls::TlsAcceptor;

use super::{tls::Authority, *};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// Deliveries at once.
const AT_ONCE: usize = 100;

/// Sends this many firings and returns those that were not confirmed.
async fn not_confirmed(sink: &HttpSink, url: &str, count: usize) -> Vec<Delivery> {
    let to = HttpDestination::new(url).unwrap();
    let deliveries = stream::iter(0..count).map(|_| sink.deliver(envelope(to.clone(), b"x")));
    let mut failed: Vec<Delivery> = deliveries.buffer_unordered(AT_ONCE).collect().await;
    failed.retain(|delivery| *delivery != Delivery::Confirmed);
    failed
}

/// A receiver that speaks HTTP/2 in frames and bounds its connections.
#[derive(Debug, Clone, Default)]
struct Bounding {
    /// Requests of one connection, after which it sends GOAWAY.
    requests_max: Option<usize>,
    /// Streams that it allows at once; its settings say so a moment after the connection was made.
    streams_max: Option<u32>,
    /// Requests that it answered.
    answered: Arc<AtomicUsize>,
    /// Requests that it did not process.
    unprocessed: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

impl Bounding {
    /// Starts it and returns its URL.
    async fn start(&self, authority: &Authority) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(authority.http2_server()));
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                this.connections.fetch_add(1, Ordering::Relaxed);
                let (this, acceptor) = (this.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    let (read, mut write) = tokio::io::split(stream);
                    let (answers, mut sent) = mpsc::unbounded_channel::<Vec<u8>>();
                    let reading = this.serve(read, answers);
                    let writing = async {
                        while let Some(answer) = sent.recv().await {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            write.write_all(&answer).await?;
                            write.flush().await?;
                        }
                        io::Result::Ok(())
                    };
                    tokio::join!(reading, writing).0.ok();
                });
            }
        });
        format!("https://localhost:{port}/hook")
    }

    /// Reads requests until the sink closes the connection.
    async fn serve(
        &self,
        mut read: impl tokio::io::AsyncRead + Unpin,
        answers: UnboundedSender<Vec<u8>>,
    ) -> io::Result<()> {
        let streams_max = self.streams_max.map(|max| [&[0, 3][..], &max.to_be_bytes()].concat());
        answers.send(frame(SETTINGS, 0, 0, &streams_max.unwrap_or_default())).ok();
        read.read_exact(&mut [0; 24]).await?;
        let (mut accepted, mut open) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let mut head = [0; 9];
            read.read_exact(&mut head).await?;
            let [_, a, b, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; usize::from(a) << 8 | usize::from(b)];
            read.read_exact(&mut payload).await?;
            let stream = u32::from_be_bytes(stream);
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let echoed = if kind == PING { &payload[..] } else { &[] };
                    answers.send(frame(kind, ACK, 0, echoed)).ok();
                }
                HEADERS if self.requests_max == Some(accepted.len()) => {
                    self.unprocessed.fetch_add(1, Ordering::Relaxed);
                    if accepted.is_empty() {
                        answers.send(frame(GOAWAY, 0, 0, &[0; 8])).ok();
                    }
                }
                HEADERS if self.streams_max.is_some_and(|max| open.len() >= max as usize) => {
                    self.unprocessed.fetch_add(1, Ordering::Relaxed);
                    answers.send(frame(RESET, 0, stream, &REFUSED_STREAM.to_be_bytes())).ok();
                }
                HEADERS => {
                    accepted.insert(stream);
                    open.insert(stream);
                    if self.requests_max == Some(accepted.len()) {
                        let last = [stream.to_be_bytes(), 0_u32.to_be_bytes()].concat();
                        answers.send(frame(GOAWAY, 0, 0, &last)).ok();
                    }
                }
                _ => {}
            }
            let ends = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0;
            if ends && open.remove(&stream) {
                self.answered.fetch_add(1, Ordering::Relaxed);
                // The indexed field `:status 200`.
                answers.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88])).ok();
            }
        }
    }
}

#[tokio::test]
async fn s7_streams_behind_a_goaway_go_on_in_the_attempt() {
    const COUNT: usize = 300;
    let authority = Authority::new();
    for requests_max in [20, 100] {
        let receiver = Bounding { requests_max: Some(requests_max), ..Bounding::default() };
        let url = receiver.start(&authority).await;
        let failed = not_confirmed(&authority.sink(|_| {}), &url, COUNT).await;
        assert!(failed.is_empty(), "{} of {COUNT}, first {:?}", failed.len(), failed[0]);
        assert_eq!(receiver.answered.load(Ordering::Relaxed), COUNT, "each once");
        assert!(receiver.unprocessed.load(Ordering::Relaxed) > 0, "some were sent too late");
    }
}

#[tokio::test]
async fn few_streams_of_a_receiver_cost_no_attempt() {
    let authority = Authority::new();
    let receiver = Bounding { streams_max: Some(3), ..Bounding::default() };
    let url = receiver.start(&authority).await;
    let failed = not_confirmed(&authority.sink(|_| {}), &url, 300).await;
    assert!(failed.is_empty(), "{} of 300, first {:?}", failed.len(), failed[0]);
    let unprocessed = receiver.unprocessed.load(Ordering::Relaxed);
    assert_eq!(unprocessed, 0, "the sink keeps to the receiver's settings");
    assert!(receiver.connections.load(Ordering::Relaxed) > 1);
}

#[tokio::test]
async fn a_receiver_that_refuses_all_streams_ends_the_attempt_in_time() {
    let authority = Authority::new();
    let receiver = Bounding { requests_max: Some(0), ..Bounding::default() };
    let mut to = HttpDestination::new(&receiver.start(&authority).await).unwrap();
    to.timeout = Millis::from_secs(1);
    let delivery = authority.sink(|_| {}).deliver(envelope(to, b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    assert_eq!(receiver.answered.load(Ordering::Relaxed), 0);
}

/// Starts a receiver that closes each connection after its response and does not announce the close.
async fn closing_without_a_word() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
                while !seen.ends_with(b"\r\n\r\nx") {
                    match stream.read(&mut buffer).await {
                        Ok(n @ 1..) => seen.extend_from_slice(&buffer[..n]),
                        _ => return,
                    }
                }
                stream.write_all(OK.as_bytes()).await.ok();
            });
        }
    });
    address
}

#[tokio::test]
async fn closing_after_each_response_costs_few_attempts() {
    let address = closing_without_a_word().await;
    let failed = not_confirmed(&sink(), &format!("http://{address}/"), 3_000).await;
    assert!(failed.len() <= 30, "{} of 3000, first {:?}", failed.len(), failed[0]);
}
