//! A proxy in front of a server, which delays each direction and breaks connections on command.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A proxy in front of a server.
pub(crate) struct Way {
    port: u16,
    pub(crate) seen: Arc<Seen>,
}

pub(crate) struct Seen {
    takes_ms: AtomicU64,
    /// Bytes of replies that still pass until a connection breaks.
    passes: AtomicUsize,
    /// Number of `PING`s that passed.
    pub(crate) pings: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

impl Way {
    /// Starts a proxy without delay or loss.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let seen = Arc::new(Seen {
            takes_ms: AtomicU64::new(0),
            passes: AtomicUsize::new(usize::MAX),
            pings: AtomicUsize::new(0),
        });
        let own = Arc::clone(&seen);
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let again = |stream: &TcpStream| stream.try_clone().expect("a stream");
                carry(again(&caller), again(&server), Direction::There, Arc::clone(&own));
                carry(server, caller, Direction::Back, Arc::clone(&own));
            }
        });
        Self { port, seen }
    }

    pub(crate) fn takes(&self, ms: u64) {
        self.seen.takes_ms.store(ms, Ordering::SeqCst);
    }

    /// Breaks a connection once, after this many bytes of replies: the server has executed the requests.
    pub(crate) fn breaks_after(&self, bytes: usize) {
        self.seen.passes.store(bytes, Ordering::SeqCst);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Seen {
    fn lets_through(&self, count: usize) -> bool {
        let left = |passes: usize| match passes {
            usize::MAX => Some(usize::MAX),
            passes => passes.checked_sub(count),
        };
        let passes = self.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        if passes.is_err() {
            self.passes.store(usize::MAX, Ordering::SeqCst);
        }
        passes.is_ok()
    }
}

/// Forwards bytes in one direction, in order, until one side ends.
fn carry(mut from: TcpStream, mut to: TcpStream, direction: Direction, seen: Arc<Seen>) {
    to.set_nodelay(true).expect("a socket");
    let (enter, under_way) = mpsc::channel::<(Instant, Vec<u8>)>();
    let losing = Arc::clone(&seen);
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let pings = bytes[..count].windows(4).filter(|word| word == b"PING").count();
            seen.pings.fetch_add(pings, Ordering::SeqCst);
            let takes = Duration::from_millis(seen.takes_ms.load(Ordering::SeqCst));
            if enter.send((Instant::now() + takes, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (leaves, bytes) in under_way {
            thread::sleep(leaves.saturating_duration_since(Instant::now()));
            if direction == Direction::Back && !losing.lets_through(bytes.len()) {
                break;
            }
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        let _gone = to.shutdown(Shutdown::Both);
    });
}
