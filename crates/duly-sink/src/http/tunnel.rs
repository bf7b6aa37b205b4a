//! A tunnel through an HTTP proxy by `CONNECT` (RFC 9110, 9.3.6).
//!
//! The operator chooses the proxy, but it may still be faulty. Its reply is limited in bytes here and in
//! time by the caller, and no part of it is passed on as the receiver's. Its credentials appear in no
//! reason and no log line (S6).

use data_encoding::BASE64;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::options::Credentials;

/// Most bytes of the proxy's reply.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// Requests a tunnel to `authority`, which is an address or a name with a port.
///
/// # Errors
/// A sentence for the history of the attempt.
pub(super) async fn open(
    stream: &mut TcpStream,
    authority: &str,
    credentials: Option<&Credentials>,
) -> Result<(), String> {
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n");
    if let Some(credentials) = credentials {
        let encoded = BASE64.encode(credentials.reveal().as_bytes());
        request.push_str(&format!("proxy-authorization: Basic {encoded}\r\n"));
    }
    request.push_str("\r\n");
    let lost = |error: std::io::Error| format!("the proxy closed the connection: {error}");
    stream.write_all(request.as_bytes()).await.map_err(lost)?;

    let mut reply = Vec::with_capacity(512);
    let end = loop {
        if stream.read_buf(&mut reply).await.map_err(lost)? == 0 {
            return Err("the proxy closed the connection before it replied".to_owned());
        }
        if let Some(at) = reply.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if reply.len() > RESPONSE_BYTES_MAX {
            return Err(format!("the proxy's response is longer than {RESPONSE_BYTES_MAX} bytes"));
        }
    };
    match status(&reply) {
        // A receiver sends nothing before the request: bytes at this point come from the proxy.
        Some(200..=299) if end < reply.len() => {
            Err("the proxy sent bytes of its own after the head of its response".to_owned())
        }
        Some(200..=299) => Ok(()),
        Some(407) => Err("the proxy replied HTTP 407: set user name and password in the file \
                          webhook.proxy_credentials_file, or correct them"
            .to_owned()),
        Some(status) => Err(format!(
            "the proxy replied HTTP {status} to CONNECT: it must allow tunnels to the receiver's \
             address and port"
        )),
        None => {
            Err("the proxy's response is not HTTP/1: webhook.proxy must name an HTTP proxy that \
                     tunnels by CONNECT"
                .to_owned())
        }
    }
}

/// Parses the status of a reply's first line.
fn status(reply: &[u8]) -> Option<u16> {
    let line = reply.strip_prefix(b"HTTP/1.0 ").or_else(|| reply.strip_prefix(b"HTTP/1.1 "))?;
    let digits = std::str::from_utf8(line.get(..3)?).ok()?;
    let ends = line.get(3).is_some_and(|byte| matches!(byte, b' ' | b'\r'));
    digits.parse().ok().filter(|status| ends && (100..600).contains(status))
}
