//! HTTP/1.1 at the level of bytes, so that a receiver can also send invalid responses.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::behavior::ReplyManner;

/// Longest time for which a connection is kept open without a purpose.
const HOLD: Duration = Duration::from_secs(15);

/// Time between two bytes of a slow response.
const DRIP: Duration = Duration::from_millis(50);

/// Most bytes of an endless body; the server stops reading long before.
const ENDLESS_BYTES: usize = 8 << 20;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A complete request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }
}

/// Reads the next request; `None` if the connection ends before a request is complete, for example
/// by a kill.
pub(super) async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some((request, used)) = parse(buffer).ok()? {
            buffer.drain(..used);
            return Some(request);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns the first request in the bytes and its length; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let Some(head_end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_end]).map_err(|_| broken())?;
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or_else(broken)?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let mut request = Request { path: path.to_owned(), headers, body: Vec::new() };
    let length = request.header("content-length").unwrap_or("0");
    let length: usize = length.parse().map_err(|_| broken())?;
    let body_at = head_end + 4;
    let Some(body) = bytes.get(body_at..body_at + length) else {
        return Ok(None);
    };
    request.body = body.to_vec();
    Ok(Some((request, body_at + length)))
}

/// State of the connection after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterReply {
    Keep,
    Close,
}

/// Replies in this manner. An error means that the other side has closed the connection, or was
/// killed.
pub(super) async fn send_reply(
    stream: &mut TcpStream,
    manner: ReplyManner,
) -> io::Result<AfterReply> {
    match manner {
        ReplyManner::Status(code) => {
            let head = format!("HTTP/1.1 {code} Test\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            return Ok(AfterReply::Keep);
        }
        ReplyManner::Late(wait) => {
            tokio::time::sleep(wait).await;
            stream.write_all(OK).await?;
            return Ok(AfterReply::Keep);
        }
        ReplyManner::Close => {}
        ReplyManner::HalfClose => {
            stream.shutdown().await?;
            hold_open(stream).await;
        }
        ReplyManner::Silent => hold_open(stream).await,
        ReplyManner::Garbage => stream.write_all(b"\0\x16\x03 200 OK, or so\r\n\r\n").await?,
        ReplyManner::DripHead => drip(stream, b"HTTP/1.1 200 OK\r\nx-slow: ").await?,
        ReplyManner::DripBody => drip(stream, b"HTTP/1.1 200 OK\r\n\r\n").await?,
        ReplyManner::EndlessBody => send_endless_body(stream).await?,
        ReplyManner::ShortBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nab").await?;
        }
        // In one write: sent later, it would be the response to the next request.
        ReplyManner::TwoResponses => stream.write_all(&[OK, OK].concat()).await?,
        ReplyManner::Reset => {
            stream.write_all(OK).await?;
            stream.set_zero_linger()?;
        }
    }
    Ok(AfterReply::Close)
}

/// Reads and drops bytes until the other side closes the connection, or `HOLD` is over.
async fn hold_open(stream: &mut TcpStream) {
    let mut nothing = [0; 1024];
    let until_closed = async { while matches!(stream.read(&mut nothing).await, Ok(1..)) {} };
    tokio::time::timeout(HOLD, until_closed).await.ok();
}

async fn drip(stream: &mut TcpStream, head: &[u8]) -> io::Result<()> {
    stream.write_all(head).await?;
    let dripping = async {
        loop {
            tokio::time::sleep(DRIP).await;
            stream.write_all(b"a").await?;
        }
    };
    tokio::time::timeout(HOLD, dripping).await.unwrap_or(Ok(()))
}

async fn send_endless_body(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let chunk = [b"4000\r\n", vec![b'e'; 0x4000].as_slice(), b"\r\n"].concat();
    for _ in 0..ENDLESS_BYTES / 0x4000 {
        stream.write_all(&chunk).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole() {
        let bytes = b"POST /hook-a HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\nabcPOST";
        for end in 0..bytes.len() - 4 {
            assert!(parse(&bytes[..end]).unwrap().is_none(), "{end}");
        }
        let (request, used) = parse(bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len() - 4);
        assert_eq!((request.path.as_str(), request.body.as_slice()), ("/hook-a", &b"abc"[..]));
        assert_eq!(request.header("HOST"), Some("x"));
        assert!(parse(b"GET /\r\ncontent-length: x\r\n\r\n").is_err());
    }
}
