//! Webhook receivers of the torture test: they confirm, fail, end deliveries for good, delay, close
//! connections, send invalid responses and disappear, as the seed decides.
//!
//! There are three, each with its own origin and so its own lanes:
//!
//! 1. The *moody* one decides separately for each delivery.
//! 2. The *rude* one has the same bad behaviour (`Habit`) for seconds, on every connection.
//! 3. The *well-behaved* one always confirms. The other two must not affect its lane.
//!
//! While the run drains, all of them confirm everything.

mod behavior;
mod raw;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::world::{RunPhase, World};
use crate::api;
use crate::clock::now_us;
use crate::history::{Delivery, Via};
use behavior::{Habit, ReplyManner};
use raw::{AfterReply, Request};

/// Longest time until a change of the habit is noticed during another wait.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Most connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Behaviour of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverKind {
    /// Decides separately for each delivery, and is stopped now and then.
    Moody,
    /// Has one habit at a time.
    Rude,
    /// Confirms at once.
    Well,
}

/// A listening receiver.
#[derive(Debug)]
pub(super) struct Receiver {
    listener: TcpListener,
    /// Keeps the port while no socket listens: connections are refused then.
    reserved: TcpSocket,
    pub(super) address: SocketAddr,
    state: ReceiverState,
}

/// Decides the behaviour of a receiver.
#[derive(Debug, Clone, Copy)]
struct ReceiverState {
    kind: ReceiverKind,
    seed: u64,
    began: Instant,
}

impl ReceiverState {
    fn habit(&self, world: &World) -> Option<Habit> {
        let rude = self.kind == ReceiverKind::Rude && world.phase() == RunPhase::Load;
        rude.then(|| Habit::at(self.seed, self.began.elapsed()))
    }

    fn manner(&self, world: &World, delivery_id: &str, attempt: u32) -> ReplyManner {
        match self.habit(world) {
            Some(Habit::Always(manner)) => manner,
            _ if self.kind == ReceiverKind::Moody && world.phase() == RunPhase::Load => {
                ReplyManner::of(self.seed, delivery_id, attempt)
            }
            _ => ReplyManner::Status(200),
        }
    }

    /// Waits until this habit is over.
    async fn wait_until_over(&self, world: &World, habit: Habit) {
        while self.habit(world) == Some(habit) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Receiver {
    pub(super) fn bind(on: Ipv4Addr, kind: ReceiverKind, seed: u64) -> Result<Self> {
        let reserved = socket(SocketAddr::from((on, 0)))?;
        let address = reserved.local_addr()?;
        let listener = socket(address)?.listen(BACKLOG)?;
        Ok(Self {
            listener,
            reserved,
            address,
            state: ReceiverState { kind, seed, began: Instant::now() },
        })
    }

    /// Accepts deliveries until the task is aborted.
    pub(super) async fn serve(self, world: Arc<World>) {
        let Self { listener, reserved: _kept, address, state } = self;
        let mut listener = Some(listener);
        loop {
            if state.habit(&world) == Some(Habit::Down) {
                listener = None;
                state.wait_until_over(&world, Habit::Down).await;
            }
            let Some(listening) = &listener else {
                listener = socket(address).and_then(|socket| socket.listen(BACKLOG)).ok();
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            };
            if state.kind == ReceiverKind::Moody {
                world.receiver_gate.wait_until_open().await;
            }
            if let Ok(Ok((stream, _))) =
                tokio::time::timeout(POLL_INTERVAL, listening.accept()).await
            {
                tokio::spawn(serve_connection(Arc::clone(&world), state, stream));
            }
        }
    }
}

/// Returns a bound socket whose address a second socket can share.
fn socket(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves one connection until either side closes it.
async fn serve_connection(world: Arc<World>, state: ReceiverState, mut stream: TcpStream) {
    let mut buffer = Vec::new();
    while !apply_habit(&world, state, &mut stream).await {
        let Some(request) = raw::read_request(&mut stream, &mut buffer).await else {
            return;
        };
        if state.kind == ReceiverKind::Moody {
            world.receiver_gate.wait_until_open().await;
        }
        // The habit may have begun during the wait for the request.
        if apply_habit(&world, state, &mut stream).await {
            return;
        }
        let manner = record_delivery(&world, state, &request);
        match raw::send_reply(&mut stream, manner).await {
            Ok(AfterReply::Keep) => {}
            Ok(AfterReply::Close) | Err(_) => return,
        }
    }
}

/// Returns `true` if the present habit accepts no delivery. The connection has then been treated as
/// the habit says, except for its close.
async fn apply_habit(world: &World, state: ReceiverState, stream: &mut TcpStream) -> bool {
    match state.habit(world) {
        Some(Habit::Stalled) => state.wait_until_over(world, Habit::Stalled).await,
        Some(Habit::Resets) => {
            // If the reset option cannot be set, the connection is closed normally.
            stream.set_zero_linger().ok();
        }
        Some(Habit::Down) => {}
        Some(Habit::Always(_)) | None => return false,
    }
    true
}

/// Records the delivery and returns the reply to it.
fn record_delivery(world: &World, state: ReceiverState, request: &Request) -> ReplyManner {
    let received_us = now_us();
    let namespace = request.path.trim_start_matches('/');
    let headers = (|| {
        let id = unescape(request.header("ce-subject")?)?;
        let due = request.header("duly-due-at")?;
        let due_ms = due.parse().ok().or_else(|| api::time_ms(&due.into()))?;
        let attempt: u32 = request.header("duly-attempt")?.parse().ok()?;
        Some((id, request.header("webhook-id")?, attempt, due_ms))
    })();
    let Some((id, delivery_id, attempt, due_ms)) = headers else {
        eprintln!("a webhook lacks ce-subject, webhook-id, duly-attempt or duly-due-at");
        return ReplyManner::Status(400);
    };
    let manner = state.manner(world, delivery_id, attempt);
    let payload = serde_json::from_slice(&request.body).unwrap_or_default();
    world.recorder.delivery(Delivery {
        key: world.recorder.key(namespace, &id),
        received_us,
        mark: api::mark_of(&payload),
        delivery_id: world.recorder.delivery_id(delivery_id),
        attempt,
        due_ms,
        via: Via::Push { reply: manner.reply() },
    });
    manner
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex = [rest.next()?, rest.next()?];
            let hex = std::str::from_utf8(&hex).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for text in ["plain", "a b/é%41", "100%", "\u{1F552}"] {
            assert_eq!(unescape(&api::encode_segment(text)).as_deref(), Some(text));
        }
        assert_eq!(unescape("%4"), None);
    }
}
