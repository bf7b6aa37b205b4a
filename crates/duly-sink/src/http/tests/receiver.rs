//! Far sides on the loopback interface: a decent one, and misbehaving ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Router, body::Bytes, extract::State, http::StatusCode};

use super::*;

/// A decent web server that keeps what arrives.
pub(super) struct Web {
    address: SocketAddr,
    sink: HttpSink,
    state: Arc<WebState>,
}

struct WebState {
    manner: Mutex<Manner>,
    arrivals: Mutex<VecDeque<Arrival>>,
    connections: AtomicUsize,
}

impl Web {
    pub(super) async fn start() -> Self {
        let state = Arc::new(WebState {
            manner: Mutex::new(Manner::Confirm),
            arrivals: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
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
        Self { address, sink: sink(), state }
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
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let arrival = Arrival { body: body.to_vec(), headers };
    state.arrivals.lock().unwrap().push_back(arrival);
    let manner = *state.manner.lock().unwrap();
    match manner {
        Manner::Confirm => (StatusCode::OK, "thank you"),
        Manner::Refuse => (StatusCode::INTERNAL_SERVER_ERROR, "no"),
        Manner::Hang => std::future::pending().await,
    }
}

impl Receiver for Web {
    fn sink(&self) -> &dyn Sink {
        &self.sink
    }
    fn destination(&self) -> HttpDestination {
        destination(self.address)
    }
    fn behave(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }
    fn arrivals(&self) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(async { self.state.arrivals.lock().unwrap().drain(..).collect() })
    }
}

/// A socket that answers with bytes of the test's choice.
pub(super) struct Raw {
    pub(super) address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

#[derive(Clone)]
enum After {
    Close,
    Stall,
    Repeat(Vec<u8>),
}

impl Raw {
    /// Answers each connection's first request with the answers in turn, then closes it.
    pub(super) async fn answering(answers: &[&str]) -> Self {
        Self::start(answers, After::Close).await
    }

    /// Answers with this and then says nothing more.
    pub(super) async fn stalling(answer: &str) -> Self {
        Self::start(&[answer], After::Stall).await
    }

    /// Answers with this and then sends `chunk` for ever.
    pub(super) async fn endless(head: &str, chunk: &[u8]) -> Self {
        Self::start(&[head], After::Repeat(chunk.repeat(512))).await
    }

    async fn start(answers: &[&str], after: After) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        let answers: Vec<Vec<u8>> = answers.iter().map(|a| a.as_bytes().to_vec()).collect();
        tokio::spawn(async move {
            let mut turn = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answers[turn % answers.len()].clone();
                turn += 1;
                tokio::spawn(answer_one(stream, answer, after.clone(), Arc::clone(&counter)));
            }
        });
        Self { address, requests }
    }

    /// Requests whose head has arrived.
    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn answer_one(
    mut stream: TcpStream,
    answer: Vec<u8>,
    after: After,
    requests: Arc<AtomicUsize>,
) -> io::Result<()> {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
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
    match after {
        After::Close => stream.shutdown().await,
        After::Stall => std::future::pending().await,
        After::Repeat(chunk) => loop {
            stream.write_all(&chunk).await?;
        },
    }
}
