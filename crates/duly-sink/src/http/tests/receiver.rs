//! Receivers on the loopback interface: a correct one, and faulty ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Router, body::Bytes, extract::State, http::StatusCode};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A correct web server that keeps the requests that arrive.
pub(super) struct Web {
    to: HttpDestination,
    sink: HttpSink,
    state: Arc<WebState>,
}

/// Exchanges at once that a receiver with HTTP/2 allows on one connection.
pub(super) const STREAMS_MAX: u32 = 4;

struct WebState {
    behaviour: Mutex<Behaviour>,
    arrivals: Mutex<VecDeque<Arrival>>,
    versions: Mutex<Vec<::http::Version>>,
    connections: AtomicUsize,
}

impl WebState {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            behaviour: Mutex::new(Behaviour::Confirm),
            arrivals: Mutex::default(),
            versions: Mutex::default(),
            connections: AtomicUsize::new(0),
        })
    }
}

impl Web {
    pub(super) async fn start() -> Self {
        let state = WebState::new();
        let router = Router::new().fallback(take).with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counted = axum::serve::ListenerExt::tap_io(listener, {
            let state = Arc::clone(&state);
            move |_| {
                state.connections.fetch_add(1, Ordering::Relaxed);
            }
        });
        tokio::spawn(async move { axum::serve(counted, router).await });
        Self { to: destination(address), sink: sink(), state }
    }

    /// Starts a receiver that speaks TLS as `localhost`, with the sink that sends to it.
    pub(super) async fn start_tls(config: rustls::ServerConfig, sink: HttpSink) -> Self {
        let state = WebState::new();
        let router = Router::new().fallback(take).with_state(Arc::clone(&state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let counter = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.connections.fetch_add(1, Ordering::Relaxed);
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = TowerToHyperService::new(router);
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(STREAMS_MAX);
                    builder.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        let to = HttpDestination::new(&format!("https://localhost:{port}/hook?a=b")).unwrap();
        Self { to, sink, state }
    }

    pub(super) fn versions(&self) -> Vec<::http::Version> {
        std::mem::take(&mut *self.state.versions.lock().unwrap())
    }

    pub(super) fn http_sink(&self) -> &HttpSink {
        &self.sink
    }

    pub(super) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }
}

async fn take(
    State(state): State<Arc<WebState>>,
    version: ::http::Version,
    headers: ::http::HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let arrival = Arrival { body: body.to_vec(), headers };
    state.arrivals.lock().unwrap().push_back(arrival);
    state.versions.lock().unwrap().push(version);
    let behaviour = *state.behaviour.lock().unwrap();
    match behaviour {
        Behaviour::Confirm => (StatusCode::OK, "thank you"),
        Behaviour::Refuse => (StatusCode::INTERNAL_SERVER_ERROR, "no"),
        Behaviour::Hang => std::future::pending().await,
    }
}

impl Receiver for Web {
    type Destination = HttpDestination;
    fn sink(&self) -> &dyn Sink {
        &self.sink
    }
    fn destination(&self) -> HttpDestination {
        self.to.clone()
    }
    fn behave(&self, behaviour: Behaviour) {
        *self.state.behaviour.lock().unwrap() = behaviour;
    }
    fn arrivals(&self) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(async { self.state.arrivals.lock().unwrap().drain(..).collect() })
    }
    fn attribute(&self, name: &str, value: &str) -> (String, String) {
        let name = match name {
            "datacontenttype" => "content-type".to_owned(),
            _ => format!("ce-{name}"),
        };
        (name, value.replace(' ', "%20"))
    }
    fn added(&self, delivery_id: &str) -> Vec<(String, String)> {
        [("webhook-id", delivery_id), ("duly-loop", "duly")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }
}

/// A socket that answers with bytes chosen by the test.
pub(super) struct Raw {
    pub(super) address: SocketAddr,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

/// The behaviour of a raw receiver after its last answer.
#[derive(Clone)]
pub(super) enum After {
    Close,
    Stall,
    Repeat(Vec<u8>),
    /// One byte now and then, for ever.
    Drip(u8),
}

impl Raw {
    /// Answers each connection's first request with the answers in turn, then closes it.
    pub(super) async fn answering(answers: &[&str]) -> Self {
        Self::start(answers, After::Close).await
    }

    /// Answers with this and then sends nothing more.
    pub(super) async fn stalling(answer: &str) -> Self {
        Self::start(&[answer], After::Stall).await
    }

    /// Answers with this and then sends `chunk` for ever.
    pub(super) async fn endless(head: &str, chunk: &[u8]) -> Self {
        Self::start(&[head], After::Repeat(chunk.repeat(512))).await
    }

    /// Answers with this and then sends a byte now and then, for ever.
    pub(super) async fn dripping(head: &str, byte: u8) -> Self {
        Self::start(&[head], After::Drip(byte)).await
    }

    /// Gives each connection the answers of its turn, one for each request.
    pub(super) async fn by_connection(turns: &[(&[&str], After)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let raw = Self::at(listener.local_addr().unwrap());
        let turns: Vec<(Vec<Vec<u8>>, After)> = turns
            .iter()
            .map(|(answers, after)| {
                (answers.iter().map(|a| a.as_bytes().to_vec()).collect(), after.clone())
            })
            .collect();
        let (requests, connections) = (Arc::clone(&raw.requests), Arc::clone(&raw.connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let turn = connections.fetch_add(1, Ordering::Relaxed);
                let (answers, after) = turns[turn % turns.len()].clone();
                tokio::spawn(answer_all(stream, answers, after, Arc::clone(&requests)));
            }
        });
        raw
    }

    fn at(address: SocketAddr) -> Self {
        Self { address, requests: Arc::default(), connections: Arc::default() }
    }

    /// Connections that were accepted.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    async fn start(answers: &[&str], after: After) -> Self {
        let turns: Vec<(&[&str], After)> =
            answers.chunks(1).map(|answer| (answer, after.clone())).collect();
        Self::by_connection(&turns).await
    }

    /// Requests whose head has arrived.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn answer_all(
    mut stream: TcpStream,
    answers: Vec<Vec<u8>>,
    after: After,
    requests: Arc<AtomicUsize>,
) -> io::Result<()> {
    let mut buffer = [0; 4096];
    for answer in answers {
        let mut seen = Vec::new();
        // Every request of these tests has a body of one byte or ten, right behind its head.
        while !seen.windows(4).any(|w| w == b"\r\n\r\n") || seen.ends_with(b"\r\n\r\n") {
            let n = stream.read(&mut buffer).await?;
            if n == 0 {
                return Ok(());
            }
            seen.extend_from_slice(&buffer[..n]);
        }
        requests.fetch_add(1, Ordering::Relaxed);
        stream.write_all(&answer).await?;
    }
    match after {
        After::Close => stream.shutdown().await,
        After::Stall => std::future::pending().await,
        After::Repeat(chunk) => loop {
            stream.write_all(&chunk).await?;
        },
        After::Drip(byte) => loop {
            stream.write_all(&[byte]).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
    }
}
