//! Receivers that reply before they have read the request, and never read it. The rest of the request
//! neither stays in memory nor blocks the next delivery (P10).

use bytes::Bytes;
use futures::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_rustls::TlsAcceptor;

use super::{
    connection::{Http1, Http2, SendError},
    socket::Socket,
    tls::Authority,
    unsent::Unsent,
    *,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A receiver that speaks HTTP/2, confirms requests from their heads alone, and never reads their
/// bodies. Requests to `/hang` get no reply.
struct Early {
    port: u16,
    connections: Arc<AtomicUsize>,
    hanging: Arc<AtomicUsize>,
}

impl Early {
    /// Replies as soon as this many requests have come over a connection.
    async fn start(authority: &Authority, window_bytes: u32, at_once: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let early = Self { port, connections: Arc::default(), hanging: Arc::default() };
        let acceptor = TlsAcceptor::from(Arc::new(authority.http2_server()));
        let (connections, hanging) = (Arc::clone(&early.connections), Arc::clone(&early.hanging));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let (acceptor, hanging) = (acceptor.clone(), Arc::clone(&hanging));
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    let mut http2 = h2::server::Builder::new()
                        .initial_window_size(window_bytes)
                        .max_concurrent_streams(10_000)
                        .handshake::<_, Bytes>(stream)
                        .await
                        .unwrap();
                    // Bodies are kept: a body that is dropped would reset its stream.
                    let (mut bodies, mut held, mut answers) = (Vec::new(), Vec::new(), Vec::new());
                    while let Some(Ok((request, answer))) = http2.accept().await {
                        let hangs = request.uri().path() == "/hang";
                        bodies.push(request.into_body());
                        if hangs {
                            held.push(answer);
                            hanging.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        answers.push(answer);
                        if answers.len() >= at_once {
                            for mut answer in answers.drain(..) {
                                answer.send_response(::http::Response::new(()), true).unwrap();
                            }
                        }
                    }
                });
            }
        });
        early
    }

    fn at(&self, path: &str) -> HttpDestination {
        HttpDestination::new(&format!("https://localhost:{}{path}", self.port)).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn an_http_2_connection_with_unsent_bytes_is_not_reused() {
    let authority = Authority::new();
    // The client holds it back before its first byte, or after the bytes that the window takes.
    for window_bytes in [0, 65_535] {
        let early = Early::start(&authority, window_bytes, 1).await;
        let sink = authority.sink(|_| {});
        for n in 1..=3 {
            let sent = envelope(early.at("/"), &vec![b'x'; 256 * 1024]);
            let payload = sent.spec.payload.as_ref().unwrap().bytes.clone();
            assert_eq!(sink.deliver(sent).await, Delivery::Confirmed);
            assert_eq!((early.connections(), sink.pool.kept()), (n, 0), "{window_bytes}");
            until("the payload is let go of", || payload.is_unique()).await;
        }
        // The counterpart: with no unsent bytes the connection stays.
        for _ in 0..2 {
            let sent = Envelope { spec: Arc::default(), ..envelope(early.at("/"), b"") };
            assert_eq!(sink.deliver(sent).await, Delivery::Confirmed);
            assert_eq!((early.connections(), sink.pool.kept()), (4, 1));
        }
    }
}

#[tokio::test]
async fn too_many_unsent_bytes_close_an_http_2_connection() {
    let authority = Authority::new();
    let sink = authority.sink(|_| {});
    let early = Early::start(&authority, 0, 3).await;
    let hanging =
        sink.deliver(Envelope { spec: Arc::default(), ..envelope(early.at("/hang"), b"") });
    let leaving = async {
        until("the first one hangs", || early.hanging.load(Ordering::Relaxed) == 1).await;
        let sent: Vec<_> =
            (0..3).map(|_| envelope(early.at("/"), &vec![b'x'; 400 * 1024])).collect();
        let payloads: Vec<_> =
            sent.iter().map(|sent| sent.spec.payload.as_ref().unwrap().bytes.clone()).collect();
        for delivery in join_all(sent.into_iter().map(|sent| sink.deliver(sent))).await {
            assert_eq!(delivery, Delivery::Confirmed);
        }
        until("the payloads are let go of", || payloads.iter().all(Bytes::is_unique)).await;
    };
    let (hanging, ()) = tokio::join!(hanging, leaving);
    assert_eq!(hanging.outcome(), AttemptOutcome::ConnectionLost, "{hanging:?}");
    assert_eq!((early.connections(), sink.pool.kept()), (1, 0));
}

#[tokio::test]
async fn queued_requests_return_unsent_when_http_2_closes() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let connection = Arc::new(Http2::start(ours).await.unwrap());
    let mut http2 = h2::server::handshake(theirs).await.unwrap();
    tokio::spawn(async move { while http2.accept().await.is_some() {} });
    let stream = connection.stream().unwrap();
    // Kept by the client, as if it were still to be sent.
    let (_kept, unsent) = Unsent::watch(vec![b'x'; 2 << 20].into());
    connection.add_unsent(unsent);
    let mut request = hyper::Request::new(Bytes::from_static(b"x").into());
    *request.uri_mut() = "http://receiver.example/".parse().unwrap();
    let sent = stream.send(request, 1024);
    // Far longer than any step here takes.
    let sent = tokio::time::timeout(Duration::from_secs(30), sent).await.expect("it hangs");
    assert!(matches!(sent, Err(SendError::Unsent)), "{sent:?}");
    assert!(connection.is_closed() && connection.stream().is_none());
}

/// Reads the head of each connection's first request, confirms it, and reads no more.
async fn early_http_1() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(OK.as_bytes()).await.unwrap();
            open.push(stream);
        }
    });
    (address, connections)
}

#[tokio::test]
async fn an_http_1_connection_whose_request_has_not_left_is_not_kept() {
    let (address, connections) = early_http_1().await;
    let sink = sink();
    for n in 1..=2 {
        let sent = envelope(destination(address), &vec![b'x'; 8 << 20]);
        let payload = sent.spec.payload.as_ref().unwrap().bytes.clone();
        assert_eq!(sink.deliver(sent).await, Delivery::Confirmed);
        assert_eq!((connections.load(Ordering::Relaxed), sink.pool.kept()), (n, 0));
        until("the payload is let go of", || payload.is_unique()).await;
    }
}

#[tokio::test]
async fn a_busy_kept_connection_leaves_time_to_connect() {
    // A kept connection whose last request is not completely sent, and whose receiver does not read it.
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut connection = Http1::start(ours, Socket::new(open)).await.unwrap();
    let mut request = hyper::Request::new(Bytes::from(vec![b'x'; 1 << 20]).into());
    *request.method_mut() = ::http::Method::POST;
    let (answered, ()) = tokio::join!(connection.send(request, 64 * 1024), async {
        theirs.read_u8().await.unwrap();
        theirs.write_all(OK.as_bytes()).await.unwrap();
    });
    answered.unwrap();
    let raw = Raw::answering(&[OK]).await;
    let sink = sink();
    sink.pool.keep(&format!("http://{}", raw.address), connection, Duration::MAX);
    assert_eq!(sink.pool.kept(), 1);
    let delivery = sink.deliver(envelope(destination(raw.address), b"x")).await;
    assert_eq!((delivery, raw.requests()), (Delivery::Confirmed, 1));
    drop(theirs);
}
