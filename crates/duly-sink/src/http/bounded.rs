//! A stream that returns at most a granted number of bytes to its reader (S4).
//!
//! A receiver can send data without end. HTTP/1.1 allows interim replies, header lines, chunk extensions
//! and trailers. HTTP/2 allows interim replies, frames of ended streams and frames without meaning. So
//! each exchange is granted a number of bytes. More bytes than that are an error of the connection,
//! regardless of their meaning. Over HTTP/2 the exchanges of a connection share their grants.

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

/// The error of a read after the last granted byte.
#[derive(Debug, thiserror::Error)]
#[error("the response is too long")]
pub(super) struct TooLong;

/// The number of bytes that may still be read.
#[derive(Debug, Clone, Default)]
pub(super) struct ByteGrant(Arc<GrantState>);

#[derive(Debug, Default)]
struct GrantState {
    bytes: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl ByteGrant {
    /// Sets the grant to this many bytes; the rest of the last grant is dropped.
    pub(super) fn set(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Adds to the grant, up to `bytes_max` in all.
    pub(super) fn add(&self, bytes: usize, bytes_max: usize) {
        let grown = |left: usize| Some(left.saturating_add(bytes).min(bytes_max));
        // The closure never returns `None`.
        self.0.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok();
    }

    /// Returns `true` if more came than was granted.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.is_exceeded.load(Ordering::Relaxed)
    }

    /// Subtracts bytes that were read; returns `false` if the grant was used up before. The last read
    /// may exceed the grant by one buffer of the client.
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
    pub(super) stream: S,
    pub(super) left: ByteGrant,
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
