//! A proxy in front of a server, which delays each direction and breaks connections on command.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A proxy in front of a server.
pub(crate) struct DelayProxy {
    port: u16,
    pub(crate) state: Arc<ProxyState>,
}

pub(crate) struct ProxyState {
    delay_ms: AtomicU64,
    /// Bytes of replies that still pass until a connection breaks.
    reply_bytes_left: AtomicUsize,
    /// Word whose first sender gets no reply any more.
    freezes: Mutex<Option<&'static str>>,
    /// Number of `PING`s that passed.
    pub(crate) pings: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

impl DelayProxy {
    /// Starts a proxy without delay or loss.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(ProxyState {
            delay_ms: AtomicU64::new(0),
            reply_bytes_left: AtomicUsize::new(usize::MAX),
            freezes: Mutex::default(),
            pings: AtomicUsize::new(0),
        });
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let again = |stream: &TcpStream| stream.try_clone().expect("a stream");
                forward(again(&caller), again(&server), Direction::Request, Arc::clone(&own));
                forward(server, caller, Direction::Reply, Arc::clone(&own));
            }
        });
        Self { port, state }
    }

    pub(crate) fn set_delay_ms(&self, ms: u64) {
        self.state.delay_ms.store(ms, Ordering::SeqCst);
    }

    /// Breaks a connection once, after this many bytes of replies: the server has executed the requests.
    pub(crate) fn break_after(&self, bytes: usize) {
        self.state.reply_bytes_left.store(bytes, Ordering::SeqCst);
    }

    /// Lets nothing through any more from the next connection that sends this word.
    pub(crate) fn freeze_next(&self, word: &'static str) {
        *self.state.freezes.lock().expect("no panic") = Some(word);
    }

    /// Returns `true` if no connection has sent the word yet.
    pub(crate) fn freezes(&self) -> bool {
        self.state.freezes.lock().expect("no panic").is_some()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl ProxyState {
    /// Returns `true` for the first request with the word to freeze.
    fn is_frozen(&self, request: &[u8]) -> bool {
        let mut freezes = self.freezes.lock().expect("no panic");
        let has = |word: &str| request.windows(word.len()).any(|part| part == word.as_bytes());
        let is_frozen = freezes.is_some_and(has);
        if is_frozen {
            *freezes = None;
        }
        is_frozen
    }

    fn lets_through(&self, count: usize) -> bool {
        let left = |reply_bytes_left: usize| match reply_bytes_left {
            usize::MAX => Some(usize::MAX),
            reply_bytes_left => reply_bytes_left.checked_sub(count),
        };
        let reply_bytes_left =
            self.reply_bytes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if reply_bytes_left.is_err() {
            self.reply_bytes_left.store(usize::MAX, Ordering::SeqCst);
        }
        reply_bytes_left.is_ok()
    }
}

/// Forwards bytes in one direction, in order, until one side ends.
fn forward(mut from: TcpStream, mut to: TcpStream, direction: Direction, state: Arc<ProxyState>) {
    to.set_nodelay(true).expect("a socket");
    let (enter, under_way) = mpsc::channel::<(Instant, Vec<u8>)>();
    let breaking = Arc::clone(&state);
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let pings = bytes[..count].windows(4).filter(|word| word == b"PING").count();
            state.pings.fetch_add(pings, Ordering::SeqCst);
            if direction == Direction::Request && state.is_frozen(&bytes[..count]) {
                // It stays open.
                thread::sleep(Duration::from_secs(3_600));
            }
            let delay = Duration::from_millis(state.delay_ms.load(Ordering::SeqCst));
            if enter.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (leaves, bytes) in under_way {
            thread::sleep(leaves.saturating_duration_since(Instant::now()));
            if direction == Direction::Reply && !breaking.lets_through(bytes.len()) {
                break;
            }
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _gone = to.shutdown(Shutdown::Both);
    });
}
