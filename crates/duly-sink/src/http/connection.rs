//! One connection to a receiver, and sending a request over it.
//!
//! * HTTP/1.1 carries one exchange at a time; HTTP/2 carries many, and is shared.
//! * Dropping a connection closes its socket at once, whatever its task was waiting for: a receiver
//!   that neither reads nor answers holds nothing back.
//! * An HTTP/2 connection that still holds the payloads of attempts that are over is not shared again,
//!   and is closed under those that go on over it once there are too many bytes of them: a receiver
//!   decides neither how many payloads stay in memory nor for how long.
//! * [`SendError::Unsent`] is said only where the receiver cannot have seen the request: the client
//!   gave it back before its first byte was written, or an HTTP/2 receiver refused its stream before
//!   doing anything with it. Nothing else may be sent a second time within one attempt (S7).

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
    task::JoinHandle,
    time::Instant,
};

use super::{
    bounded::{Bounded, Grant},
    failure,
    unsent::Unsent,
};

/// Exchanges at once over one HTTP/2 connection, if the receiver allows as many.
const STREAMS_MAX: usize = 100;
/// Bytes of an HTTP/2 answer's headers.
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// Bytes that an HTTP/2 receiver may send of one answer before they are read, and of all.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of one exchange over HTTP/2 that are no answer: what is on its way when an answer is cut off,
/// and a frame more. Of its request every so many bytes are acknowledged with one.
const STREAM_BYTES: usize = STREAM_WINDOW_BYTES as usize + 16 * 1024;
const ACKNOWLEDGED_BYTES: usize = 32;
/// Exchanges that are just over and may still bring their bytes.
const ENDED_MAX: usize = 4;
/// Bytes that an HTTP/2 receiver may send about the connection.
const CONTROL_BYTES: usize = 64 * 1024;
/// How often an HTTP/2 receiver is asked for a sign of life, and how long it has for it.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
const ALIVE_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of payloads that attempts may leave behind unsent on an HTTP/2 connection.
const LEFT_BYTES_MAX: usize = 1024 * 1024;
/// Buffer for the head of an HTTP/1.1 answer; a longer head is no answer.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Body of a request.
pub(super) type Body = Full<Bytes>;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// The receiver cannot have seen the request.
    Unsent,
    /// It may have.
    Failed(hyper::Error),
    /// It may have, and sent more than may be read of answers.
    TooLong,
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(super) struct Http1 {
    sender: http1::SendRequest<Body>,
    grant: Grant,
    _task: Task,
}

impl Http1 {
    pub(super) async fn start<S>(stream: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let grant = Grant::default();
        let stream = Bounded::new(stream, grant.clone());
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // How it ends is said to whoever sends over it.
        let task = tokio::spawn(async move {
            connection.await.ok();
        });
        Ok(Self { sender, grant, _task: Task(task) })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether the next request can be sent; waits for the end of the last exchange.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request, of whose answer no more than so many bytes are read.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
        response_bytes_max: usize,
    ) -> Result<Response<Incoming>, SendError> {
        self.grant.bytes(response_bytes_max);
        self.sender.try_send_request(request).await.map_err(unsent_or_failed)
    }
}

/// An HTTP/2 connection.
pub(super) struct Http2 {
    sender: http2::SendRequest<Body>,
    grant: Grant,
    streams: AtomicUsize,
    /// How many the receiver allows, as far as it has said.
    streams_max: Box<dyn Fn() -> usize + Send + Sync>,
    idle_since: Mutex<Instant>,
    /// Of attempts that are over.
    left: Mutex<Vec<Unsent>>,
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
        let grant = Grant::default();
        grant.bytes(CONTROL_BYTES);
        let stream = Bounded::new(stream, grant.clone());
        let (alive, gone) = watch::channel(());
        let tasks = Tasks(gone);
        let (sender, connection) = http2::Builder::new(tasks.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        // Looked at from outside between its steps: only it knows what the receiver allows by now.
        // Gone when it ends or is closed, which tells those who send over it; what was not begun they
        // get back.
        let connection = Arc::new(Mutex::new(Some(Box::pin(connection))));
        let polled = Ends(Arc::clone(&connection));
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
            idle_since: Mutex::new(Instant::now()),
            left: Mutex::default(),
            alive,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Since when it carries nothing; `None` while it carries something.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.streams.load(Ordering::Acquire) == 0).then(|| *self.idle_since.lock())
    }

    /// A place for one exchange, if there is one.
    pub(super) fn stream(self: &Arc<Self>) -> Option<Stream> {
        let max = (self.streams_max)().clamp(1, STREAMS_MAX);
        if self.is_closed() {
            return None;
        }
        let one_more = |streams| (streams < max).then_some(streams + 1);
        self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Stream(Arc::clone(self)))
    }

    /// Takes over what an attempt leaves behind, and closes the connection when that is too much:
    /// those who wait for their turn on it get their requests back.
    pub(super) fn leave(&self, unsent: Unsent) {
        let mut left = self.left.lock();
        left.push(unsent);
        left.retain_mut(|unsent| !unsent.is_gone());
        let left_bytes: usize = left.iter().map(Unsent::payload_bytes).sum();
        if left_bytes > LEFT_BYTES_MAX {
            self.alive.send_replace(());
        }
    }

    /// One that is asked for its streams in another way.
    #[cfg(test)]
    pub(super) fn asked_by(self, streams_max: Box<dyn Fn() -> usize + Send + Sync>) -> Self {
        Self { streams_max, ..self }
    }
}

/// A place for one exchange on an HTTP/2 connection; dropped, it is free again.
#[derive(Debug)]
pub(super) struct Stream(Arc<Http2>);

impl Stream {
    pub(super) fn connection(&self) -> &Arc<Http2> {
        &self.0
    }

    /// Sends a request, of whose answer no more than so many bytes are read. Who sends more uses up
    /// what the other exchanges of the connection were granted, and then loses it.
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
        grant.more(more, more + others * each + CONTROL_BYTES);
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
    match failure::caused_by::<h2::Error>(&error).and_then(h2::Error::reason) {
        Some(h2::Reason::REFUSED_STREAM) => SendError::Unsent,
        _ => SendError::Failed(error),
    }
}

/// The task of an HTTP/1.1 connection, which ends with it.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an HTTP/2 connection takes requests with: gone with the task that polls it. Whoever looks at it
/// keeps the place, and requests would wait in it for nobody.
struct Ends<C>(Arc<Mutex<Option<C>>>);

impl<C> Drop for Ends<C> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// Runs the tasks of one HTTP/2 connection until it is dropped or closed.
#[derive(Debug, Clone)]
struct Tasks(watch::Receiver<()>);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut gone = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                // The connection was dropped, or is closed because of what was left on it.
                _ = gone.changed() => {}
            }
        });
    }
}
