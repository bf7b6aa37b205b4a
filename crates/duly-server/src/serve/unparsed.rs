//! Gives a body to the answers that the HTTP library makes without asking anybody.
//!
//! A request head that cannot be parsed, or is too long, never reaches the router: hyper writes a
//! bare 400, 414 or 431 and closes the connection, and offers no place to say more. [`Speaking`]
//! stands between hyper and the socket, knows those three heads, and writes the problem of the
//! contract in their place. Nothing of ours can be taken for one: an answer of ours has a content
//! type in its head, and a body of ours is JSON or metrics and never begins like a status line.
//! HTTP/2 has frames of its own for such a refusal and is not touched; nor is a bare head that
//! leaves in one write with the answer to the request before it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use duly_core::Code;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::plain_answer;
use crate::http::Problem;

/// The heads that hyper makes by itself, what they mean, and what is said instead.
const BARE: [(&[u8], Code, &str); 3] = [
    (
        b"HTTP/1.1 400 Bad Request\r\n",
        Code::InvalidArgument,
        "the head of the request cannot be read: send a request line and headers as HTTP/1.1 has \
         them, such as \"GET /healthz HTTP/1.1\" and \"host: localhost:3859\"",
    ),
    (
        b"HTTP/1.1 414 URI Too Long\r\n",
        Code::RequestTooLarge,
        "the path with its query is too long: the whole head may have 64 KiB",
    ),
    (
        b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        Code::RequestTooLarge,
        "the head of the request is too large: send at most 100 headers, and 64 KiB in all",
    ),
];

/// What says that a head is one of ours.
const OURS: &[u8] = b"content-type:";

/// A connection on which every refusal says why.
#[derive(Debug)]
pub(super) struct Speaking<I> {
    inner: I,
    /// What is written in the place of a bare head, and how much of it is.
    instead: Vec<u8>,
    written: usize,
    /// Bytes of the bare head, which hyper believes to be writing.
    bare: usize,
}

impl<I: AsyncWrite + Unpin> Speaking<I> {
    /// Speaks on `inner`.
    pub(super) const fn new(inner: I) -> Self {
        Self { inner, instead: Vec::new(), written: 0, bare: 0 }
    }

    /// Writes what stands in for a bare head, if one is to be written.
    fn poll_instead(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<Option<usize>>> {
        if self.bare == 0 {
            let Some(text) = instead(bytes) else { return Poll::Ready(Ok(None)) };
            (self.instead, self.written, self.bare) = (text, 0, bytes.len());
        }
        while self.written < self.instead.len() {
            let rest = &self.instead[self.written..];
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        Poll::Ready(Ok(Some(std::mem::take(&mut self.bare))))
    }
}

/// What is said instead of a bare head.
fn instead(bytes: &[u8]) -> Option<Vec<u8>> {
    let (_, code, detail) = BARE.iter().find(|(head, ..)| bytes.starts_with(head))?;
    let is_bare = bytes.ends_with(b"\r\n\r\n") && !bytes.windows(OURS.len()).any(|w| w == OURS);
    is_bare.then(|| plain_answer(Problem::new(*code, *detail)).into_bytes())
}

impl<I: AsyncRead + Unpin> AsyncRead for Speaking<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Speaking<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_instead(context, bytes))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut self.inner).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A bare head has no body, so it is the first part that holds anything.
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        match ready!(self.poll_instead(context, first))? {
            Some(count) => Poll::Ready(Ok(count)),
            None => Pin::new(&mut self.inner).poll_write_vectored(context, parts),
        }
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
    use super::*;

    #[test]
    fn only_a_bare_head_is_replaced() {
        let bare = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        assert!(instead(bare.as_bytes()).is_some());
        for ours in [
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\r\n{}",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "{\"detail\":\"HTTP/1.1 400 Bad Request\"}",
            "",
        ] {
            assert_eq!(instead(ours.as_bytes()), None, "{ours}");
        }
    }

    #[tokio::test]
    async fn a_slow_far_side_gets_the_whole_answer_once() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (near, mut far) = tokio::io::duplex(7);
        let mut speaking = Speaking::new(near);
        let writing = tokio::spawn(async move {
            let bare = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            speaking.write_all(bare).await.unwrap();
            speaking.shutdown().await.unwrap();
        });
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        writing.await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["code"], "invalid_argument");
    }
}
