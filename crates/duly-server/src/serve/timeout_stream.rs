//! Closes stalled connections where the HTTP library would wait for ever.
//!
//! 1. **The caller sends nothing.** The library knows the protocol of a connection after at most the 24
//!    bytes of the HTTP/2 preface. Until then none of its timers runs: a caller that sends nothing, or
//!    sends its first bytes slowly, would hold its connection. `preface_deadline` bounds this time.
//!    Afterwards HTTP/1.1 has its timeout for a head; [`crate::connection::WriteProgress`] closes idle HTTP/2
//!    connections.
//! 2. **The caller does not read its response.** Such a caller holds the memory of its response. Each
//!    byte that it reads restarts the timeout. This watches the socket alone.
//!    [`crate::connection::WriteProgress`] handles responses that wait for an HTTP/2 window, and callers that
//!    read too slowly in the long run.
//! 3. **The caller has shown no key yet.** Then a read is short, so that the library parses little before the first
//!    streams are refused.
//! 4. **Many heads come at once.** The library parses all bytes that can be read before it hands out one stream, and a
//!    head of 350 bytes takes a hundred times that (`HPACK` names a field with one byte). So the reader yields while
//!    [`HEADS_MAX`] heads have not come to their admission ([`HeadMeter`]).
//! 5. **The connection is to end, or floods.** Then its next read fails, so that the library takes in nothing more,
//!    and its present read ends with the frame that was one too many ([`FrameMeter`]).
//! 6. **The address floods.** A connection of HTTP/2 past the pace of its address ends with its preface.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::connection::{ConnectionSignals, FrameMeter};

/// Bytes after which the library knows the protocol.
const PREFACE_BYTES: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// Bytes of a read before the caller has shown a key: a few heads.
const STRANGER_READ_BYTES: usize = 1024;

/// Heads that the library may have parsed and not handed out.
const HEADS_MAX: u32 = 4;

/// Timeouts of a connection without progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// Time until its protocol is known, and time without a call.
    pub(super) idle: Duration,
    /// Time while a response waits to be read.
    pub(super) write: Duration,
}

/// Heads that were read, and whose streams have not come to their admission.
#[derive(Debug, Default)]
struct HeadMeter {
    parsed: u32,
    /// Streams that had come to their admission at the last look.
    streams: u32,
    has_yielded: bool,
}

impl HeadMeter {
    /// Returns `true` if the reader is to yield, so that the library hands out what it has parsed; `streams` came to
    /// their admission so far. After a yield without any, all have: the rest were trailers, or the library refused them.
    const fn yields(&mut self, streams: u32) -> bool {
        if self.parsed < HEADS_MAX {
            return false;
        }
        let handed_out = streams.wrapping_sub(self.streams);
        self.streams = streams;
        self.parsed = match handed_out {
            0 if self.has_yielded => 0,
            some => self.parsed.saturating_sub(some),
        };
        self.has_yielded = self.parsed >= HEADS_MAX;
        self.has_yielded
    }
}

/// A connection that fails with `TimedOut` instead of stalling for ever.
#[derive(Debug)]
pub(super) struct TimeoutStream<I> {
    inner: I,
    /// Bytes missing until the protocol is known, with their deadline.
    preface_deadline: Option<(usize, Pin<Box<Sleep>>)>,
    write_timeout: Duration,
    frames: FrameMeter,
    heads: HeadMeter,
    signals: ConnectionSignals,
    /// Timer that runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<I> TimeoutStream<I> {
    /// Wraps `inner`, which reads nothing any more when it is to end.
    pub(super) fn new(inner: I, timeouts: ConnectionTimeouts, signals: ConnectionSignals) -> Self {
        let deadline = Box::pin(sleep(timeouts.idle));
        Self {
            inner,
            preface_deadline: Some((PREFACE_BYTES, deadline)),
            write_timeout: timeouts.write,
            frames: FrameMeter::new(),
            heads: HeadMeter::default(),
            signals,
            stalled: None,
        }
    }

    /// Fails a write that has waited for longer than the timeout.
    fn poll_stall<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.write_timeout)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for TimeoutStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.signals.stops_reading() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if this.heads.yields(this.signals.streams()) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = if this.signals.is_known() {
            Pin::new(&mut this.inner).poll_read(context, buffer)
        } else {
            let mut bytes = [0; STRANGER_READ_BYTES];
            let most = buffer.remaining().min(bytes.len());
            let mut short = ReadBuf::new(&mut bytes[..most]);
            let polled = Pin::new(&mut this.inner).poll_read(context, &mut short);
            buffer.put_slice(short.filled());
            polled
        };
        if this.frames.count_read(&buffer.filled()[before..]).is_err() {
            tracing::debug!("connection closed: too many HTTP/2 frames without a request");
            buffer.set_filled(before);
            this.signals.request_at_once();
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        this.heads.parsed += this.frames.take_heads();
        let Some((left, deadline)) = &mut this.preface_deadline else {
            return polled;
        };
        *left = left.saturating_sub(buffer.filled().len() - before);
        if *left == 0 {
            this.preface_deadline = None;
            if this.frames.is_http2() && !this.signals.may_begin_http2() {
                tracing::debug!("connection closed: others of its address flooded");
                buffer.set_filled(before);
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        } else if polled.is_pending() && deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.frames.count_written(&bytes[..written]);
        }
        self.poll_stall(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        if let Poll::Ready(Ok(mut written)) = polled {
            for part in parts {
                let count = part.len().min(written);
                self.frames.count_written(&part[..count]);
                written -= count;
            }
        }
        self.poll_stall(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    const TIMEOUTS: ConnectionTimeouts =
        ConnectionTimeouts { idle: Duration::from_secs(10), write: Duration::from_secs(30) };

    #[test]
    fn a_reader_yields_until_the_heads_are_handed_out() {
        let mut heads = HeadMeter { parsed: HEADS_MAX - 1, ..HeadMeter::default() };
        assert!(!heads.yields(0));
        heads.parsed += 3;
        assert!(heads.yields(0), "six, and none handed out");
        assert!(heads.yields(1) && heads.yields(2), "the library hands out one in each turn");
        assert!(!heads.yields(3), "three are left");
        heads.parsed += 1;
        assert!(heads.yields(3));
        assert!(!heads.yields(3), "they are trailers: nothing is handed out");
        assert_eq!(heads.parsed, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn silent_and_slow_peers_are_closed() {
        for sent in ["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            let (near, mut far) = duplex(1024);
            far.write_all(sent.as_bytes()).await.unwrap();
            let began = Instant::now();
            let mut text = Vec::new();
            let mut stream = TimeoutStream::new(near, TIMEOUTS, ConnectionSignals::default());
            let ended = stream.read_to_end(&mut text).await;
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut, "{sent}");
            assert_eq!((text.as_slice(), began.elapsed().as_secs()), (sent.as_bytes(), 10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn peers_may_idle_after_the_preface() {
        let (near, mut far) = duplex(1024);
        far.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let mut stream = TimeoutStream::new(near, TIMEOUTS, ConnectionSignals::default());
        let mut text = [0; PREFACE_BYTES];
        stream.read_exact(&mut text).await.unwrap();
        tokio::spawn(async move {
            sleep(Duration::from_secs(600)).await;
            far.write_all(b"y").await.unwrap();
        });
        assert_eq!(stream.read_u8().await.unwrap(), b'y');
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_peer_that_reads_nothing_is_closed() {
        let (near, mut far) = duplex(10);
        let mut stream = TimeoutStream::new(near, TIMEOUTS, ConnectionSignals::default());
        let reading = tokio::spawn(async move {
            for _ in 0..10 {
                sleep(Duration::from_secs(29)).await;
                far.read_u8().await.unwrap();
            }
            far
        });
        stream.write_all(&[7; 20]).await.unwrap();
        let _far = reading.await.unwrap();
        let began = Instant::now();
        let ended = stream.write_all(&[7; 20]).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
