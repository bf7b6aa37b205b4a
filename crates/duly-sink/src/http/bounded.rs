//! A stream that gives no more than a number of bytes to its reader (S4).
//!
//! HTTP/1.1 lets a receiver send interim answers, header lines, chunk extensions and trailers
//! without end, and HTTP/2 interim answers, frames of streams that are over and frames that mean
//! nothing. Each exchange is granted a number of bytes; what comes past it is an error of the
//! connection, whatever it would have meant. Over HTTP/2 exchanges share what they were granted.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a reader gets after the last granted byte.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too long")]
pub(super) struct TooLong;

/// The bytes that may still be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Grant(Arc<Left>);

#[derive(Debug, Default)]
struct Left {
    bytes: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Grant {
    /// Grants so many bytes from now on, whatever was left.
    pub(super) fn bytes(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Grants so many bytes more; with what was left at most `bytes_max`.
    pub(super) fn more(&self, bytes: usize, bytes_max: usize) {
        let grown = |left: usize| Some(left.saturating_add(bytes).min(bytes_max));
        // It never answers None.
        self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok();
    }

    /// Whether more came than was granted.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.is_exceeded.load(Ordering::Relaxed)
    }

    /// Takes away what was read; `false` where nothing was left before. The last read may go over
    /// the grant by one buffer of the client.
    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| (left > 0).then(|| left.saturating_sub(bytes));
        let taken = self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if taken.is_err() {
            self.0.is_exceeded.store(true, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

/// A stream with a grant.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    left: Grant,
}

impl<S> Bounded<S> {
    pub(super) const fn new(stream: S, left: Grant) -> Self {
        Self { stream, left }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        if read > 0 && !self.left.take(read) {
            return Poll::Ready(Err(io::Error::other(TooLong)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
