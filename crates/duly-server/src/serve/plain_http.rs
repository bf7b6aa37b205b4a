//! Responds to a caller that speaks plain HTTP where the port has TLS: the handshake would end without a text.
//!
//! 1. The first byte tells: a handshake begins with 22, a request with a letter.
//! 2. The response is the same for every caller. Nothing is parsed, no router and no memory of requests is used, and
//!    the whole takes at most [`TIME_MAX`] and reads at most [`READ_MAX`] bytes.

use std::{io, time::Duration};

use duly_core::Code;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::problem::Problem;

/// Longest time of a response.
const TIME_MAX: Duration = Duration::from_secs(1);
/// Most bytes of a request that are read, so that the system does not reset the connection before the caller has read
/// the response.
const READ_MAX: usize = 16 * 1024;

/// Waits for the first byte of a connection. Returns `true` if it is that of a request. The byte stays unread.
pub(super) async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok(read == 1 && first[0].is_ascii_uppercase())
}

/// Responds, and closes the connection.
pub(super) async fn refuse(mut stream: TcpStream) {
    let detail =
        "this port has TLS, and the request came without it: write https:// in place of http://";
    let problem = Problem::new(Code::InvalidArgument, detail);
    // A problem is always valid JSON.
    let body = serde_json::to_string(problem.body()).unwrap_or_default();
    let head =
        "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/problem+json";
    let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let responded = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        let mut read = [0; 1024];
        let mut left = READ_MAX;
        while left > 0 {
            match stream.read(&mut read).await? {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
        io::Result::Ok(())
    };
    // The caller may be gone, or never stop to send.
    timeout(TIME_MAX, responded).await.ok();
}
