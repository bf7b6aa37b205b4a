//! One connection to a receiver, and the requests over it.
//!
//! 1. HTTP/1.1 carries one exchange at a time; HTTP/2 carries many, and is shared.
//! 2. A connection that is dropped closes its socket at once, even if its task waits. So a receiver that
//!    neither reads nor replies holds no resources.
//! 3. An HTTP/2 connection that still holds the payloads of finished attempts is not shared again. If it
//!    holds too many bytes of them it is closed, even under exchanges that still use it. So a receiver
//!    can determine neither the number of payloads in memory nor the time they stay there.
//! 4. [`SendError::Unsent`] is returned only if the client returned the request before its first byte was
//!    written, and [`SendError::Refused`] only if an HTTP/2 receiver said that it did not process its
//!    stream: by `REFUSED_STREAM`, or by a GOAWAY whose last stream is an earlier one. No other request
//!    may be sent a second time within one attempt (S7).
//! 5. Until an HTTP/2 receiver has sent its settings, its connection carries one exchange: the number of
//!    streams that it allows is not known yet.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Body as _, Incoming},
    client::conn::{TrySendError, http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::JoinSet,
    time::Instant,
};

use super::{
    bounded::{Bounded, ByteGrant},
    failure,
    socket::Socket,
    unsent::Unsent,
};

/// Most exchanges at once over one HTTP/2 connection, if the receiver allows that many.
const STREAMS_MAX: usize = 100;
/// Number of streams of an HTTP/2 connection whose receiver has not sent its settings.
const STREAMS_UNKNOWN: usize = usize::MAX - 1;
/// Interval at which a connection is checked for the settings of its receiver.
const SETTINGS_CHECK_EVERY: Duration = Duration::from_millis(1);
/// Most bytes of an HTTP/2 reply's headers.
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// Flow-control windows: bytes that an HTTP/2 receiver may send of one reply before they are read, and
/// of all.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of one HTTP/2 exchange that are not part of a reply: those under way when a reply is cut off,
/// and one frame. In addition the receiver may acknowledge each `ACKNOWLEDGED_BYTES` of the request with
/// one byte.
const STREAM_BYTES: usize = STREAM_WINDOW_BYTES as usize + 16 * 1024;
const ACKNOWLEDGED_BYTES: usize = 32;
/// Number of recently ended exchanges whose bytes may still arrive.
const ENDED_MAX: usize = 4;
/// Bytes that an HTTP/2 receiver may send about the connection.
const CONTROL_BYTES: usize = 64 * 1024;
/// Interval of HTTP/2 keep-alive pings, and the time-out of each.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Most unsent payload bytes that finished attempts may leave on an HTTP/2 connection.
const LEFT_BYTES_MAX: usize = 1024 * 1024;
/// Buffer for the head of an HTTP/1.1 reply; a longer head is an error.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// The body of a request.
pub(super) type Body = Full<Bytes>;

/// The reason why there is no reply.
#[derive(Debug)]
pub(super) enum SendError {
    /// The connection was closed before a byte of the request was sent.
    Unsent,
    /// The receiver did not process the request, as it says.
    Refused,
    /// The receiver may have seen the request.
    Failed(hyper::Error),
    /// The receiver may have seen the request, and sent more than may be read of replies.
    TooLong,
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(super) struct Http1 {
    sender: http1::SendRequest<Body>,
    socket: Socket,
    grant: ByteGrant,
    /// Time at which it was made.
    pub(super) made_at: Instant,
    /// Number of requests that were sent over it.
    pub(super) exchanges: u64,
    _task: JoinSet<()>,
}

impl Http1 {
    /// Starts the protocol over `stream`, which sends and receives by `socket`.
    pub(super) async fn start<S>(stream: S, socket: Socket) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let grant = ByteGrant::default();
        let stream = Bounded { stream, left: grant.clone() };
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // The result of the task is reported to the sender of a request.
        let mut task = JoinSet::new();
        task.spawn(async move {
            connection.await.ok();
        });
        Ok(Self { sender, socket, grant, made_at: Instant::now(), exchanges: 0, _task: task })
    }

    /// Returns `true` if no further request can be sent over an idle connection.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed() || !self.socket.is_quiet()
    }

    /// Returns `true` if the next request can be sent; waits for the end of the last exchange.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request. At most `response_bytes_max` bytes are read of its reply.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
        response_bytes_max: usize,
    ) -> Result<Response<Incoming>, SendError> {
        self.grant.set(response_bytes_max);
        self.exchanges += 1;
        self.sender.try_send_request(request).await.map_err(unsent_or_failed)
    }
}

/// An HTTP/2 connection.
pub(super) struct Http2 {
    sender: http2::SendRequest<Body>,
    grant: ByteGrant,
    streams: AtomicUsize,
    /// Returns the number of streams that the receiver allows, [`STREAMS_UNKNOWN`] before its settings.
    streams_max: Box<dyn Fn() -> usize + Send + Sync>,
    /// Time at which it was made.
    pub(super) made_at: Instant,
    idle_since: Mutex<Instant>,
    /// Unsent bodies of finished attempts.
    unsent_bodies: Mutex<Vec<Unsent>>,
    alive: watch::Sender<()>,
}

impl fmt::Debug for Http2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2").field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl Http2 {
    pub(super) async fn start<S>(stream: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let grant = ByteGrant::default();
        grant.set(CONTROL_BYTES);
        let stream = Bounded { stream, left: grant.clone() };
        let (alive, gone) = watch::channel(());
        let tasks = ConnectionTasks(gone);
        let (sender, connection) = http2::Builder::new(tasks.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .initial_max_send_streams(STREAMS_UNKNOWN)
            .handshake(TokioIo::new(stream))
            .await?;
        // The connection is shared with `streams_max`, because only it knows the number of streams that
        // the receiver allows now. The slot is emptied when the connection ends or is closed. That wakes
        // the senders of requests; requests that were not started are returned to them.
        let connection = Arc::new(Mutex::new(Some(Box::pin(connection))));
        let polled = SlotGuard(Arc::clone(&connection));
        tasks.execute(std::future::poll_fn(move |cx| {
            let mut polled = polled.0.lock();
            let ended =
                polled.as_mut().map_or(Poll::Ready(()), |it| it.as_mut().poll(cx).map(drop));
            if ended.is_ready() {
                *polled = None;
            }
            ended
        }));
        let streams_max = Box::new(move || {
            connection.lock().as_ref().map_or(0, |it| it.current_max_send_streams())
        });
        Ok(Self {
            sender,
            grant,
            streams: AtomicUsize::new(0),
            streams_max,
            made_at: Instant::now(),
            idle_since: Mutex::new(Instant::now()),
            unsent_bodies: Mutex::default(),
            alive,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Returns the time since which it has no exchange; `None` while it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.streams.load(Ordering::Acquire) == 0).then(|| *self.idle_since.lock())
    }

    /// Reserves a stream for one exchange, if one is free.
    pub(super) fn stream(self: &Arc<Self>) -> Option<Stream> {
        let max = match (self.streams_max)() {
            STREAMS_UNKNOWN => 1,
            max => max.min(STREAMS_MAX),
        };
        if self.is_closed() {
            return None;
        }
        let one_more = |streams| (streams < max).then_some(streams + 1);
        self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Stream(Arc::clone(self)))
    }

    /// Waits until the receiver has sent its settings, or the connection is closed.
    pub(super) async fn settings_known(&self) {
        while (self.streams_max)() == STREAMS_UNKNOWN && !self.is_closed() {
            tokio::time::sleep(SETTINGS_CHECK_EVERY).await;
        }
    }

    /// Takes over the unsent body of a finished attempt. Closes the connection if there are too many
    /// such bytes; requests that wait for their turn on it are then returned to their senders.
    pub(super) fn add_unsent(&self, unsent: Unsent) {
        let mut left = self.unsent_bodies.lock();
        left.push(unsent);
        left.retain_mut(|unsent| !unsent.is_sent());
        let left_bytes: usize = left.iter().map(|unsent| unsent.payload_bytes).sum();
        if left_bytes > LEFT_BYTES_MAX {
            self.alive.send_replace(());
        }
    }

    /// Replaces the function that returns the number of streams.
    #[cfg(test)]
    pub(super) fn with_streams_max(
        self,
        streams_max: Box<dyn Fn() -> usize + Send + Sync>,
    ) -> Self {
        Self { streams_max, ..self }
    }
}

/// A stream reserved for one exchange on an HTTP/2 connection; it is freed when dropped.
#[derive(Debug)]
pub(super) struct Stream(pub(super) Arc<Http2>);

impl Stream {
    /// Sends a request. At most `response_bytes_max` bytes are read of its reply. A receiver that sends
    /// more uses up the grant of the connection's other exchanges, and then loses the connection.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        response_bytes_max: usize,
    ) -> Result<Response<Incoming>, SendError> {
        let grant = &self.0.grant;
        let request_bytes = usize::try_from(request.body().size_hint().lower()).unwrap_or(0);
        let each = response_bytes_max + STREAM_BYTES;
        let more = each + request_bytes / ACKNOWLEDGED_BYTES;
        let others = self.0.streams.load(Ordering::Acquire).saturating_sub(1) + ENDED_MAX;
        grant.add(more, more + others * each + CONTROL_BYTES);
        let sent = self.0.sender.clone().try_send_request(request).await;
        sent.map_err(|error| match unsent_or_failed(error) {
            SendError::Failed(_) if grant.is_exceeded() => SendError::TooLong,
            other => other,
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

fn unsent_or_failed(mut error: TrySendError<Request<Body>>) -> SendError {
    if error.take_message().is_some() {
        return SendError::Unsent;
    }
    let error = error.into_error();
    match failure::caused_by::<h2::Error>(&error) {
        Some(cause) if is_unprocessed(cause) => SendError::Refused,
        _ => SendError::Failed(error),
    }
}

/// Returns `true` if the receiver says that it did not process the stream of this error. A stream fails
/// with a GOAWAY of the receiver only if its number is above the last one of the frame (RFC 9113, 6.8).
fn is_unprocessed(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// Empties the slot of an HTTP/2 connection when the task that polls it ends. `streams_max` keeps the
/// slot alive; without this, requests would wait in it for ever.
struct SlotGuard<C>(Arc<Mutex<Option<C>>>);

impl<C> Drop for SlotGuard<C> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// Runs the tasks of one HTTP/2 connection until it is dropped or closed.
#[derive(Debug, Clone)]
struct ConnectionTasks(watch::Receiver<()>);

impl<F> Executor<F> for ConnectionTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut gone = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                // The connection was dropped, or closed because of the unsent bytes on it.
                _ = gone.changed() => {}
            }
        });
    }
}
