//! Minimal HTTP/1.1 client for load: one connection, one call at a time.
//!
//! It never retries, so the caller knows exactly what was sent. An error before the request was
//! written ([`Error::NotSent`]) means that nothing happened; after any other error the outcome is
//! unknown. A failed connection is dropped, and the next call opens a new one.

mod network;
mod response;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub use network::{Here, Network};
pub use response::Response;
pub use words::{settle_answer, time_ms};

/// Buffer space reserved for one read.
const READ_BYTES: usize = 16 * 1024;

/// Reason why a call has no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server certainly did not get the request.
    #[error("cannot connect: {0}")]
    NotSent(std::io::Error),
    /// The server may have got the request.
    #[error("no answer: {0}")]
    InDoubt(std::io::Error),
    /// The response did not come in time.
    #[error("no answer in time")]
    Late,
}

/// A connection that is opened when it is first needed.
#[derive(Debug)]
pub struct Connection {
    network: Arc<dyn Network>,
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Creates a connection to this server.
    pub fn new(address: SocketAddr) -> Self {
        Self::within(Arc::new(Here), address)
    }

    /// Creates a connection to this server from another network.
    pub fn within(network: Arc<dyn Network>, address: SocketAddr) -> Self {
        Self { network, address, stream: None, buffer: Vec::new() }
    }

    /// Opens the connection, if it is not open.
    pub async fn open(&mut self) -> Result<(), Error> {
        if self.stream.is_none() {
            let socket = self.network.socket(self.address).map_err(Error::NotSent)?;
            let stream = socket.connect(self.address).await.map_err(Error::NotSent)?;
            stream.set_nodelay(true).map_err(Error::NotSent)?;
            self.buffer.clear();
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Sends a request made by [`request`] and reads the response. Not cancellation safe: a call
    /// that is dropped midway leaves the connection unusable, so wrap it in [`Self::call`].
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Response, Error> {
        self.open().await?;
        let result = self.exchange_open(request).await;
        if result.is_err() {
            self.stream = None;
        }
        result.map_err(Error::InDoubt)
    }

    async fn exchange_open(&mut self, request: &[u8]) -> std::io::Result<Response> {
        let stream = self.stream.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
        stream.write_all(request).await?;
        loop {
            if let Some((response, used)) = response::parse(&self.buffer)? {
                self.buffer.drain(..used);
                return Ok(response);
            }
            self.buffer.reserve(READ_BYTES);
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Makes one call with the timeout `patience`.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<Response, Error> {
        let bytes = request(self.address, method, path, body);
        match tokio::time::timeout(patience, self.exchange(&bytes)).await {
            Ok(result) => result,
            Err(_) => {
                self.stream = None;
                Err(Error::Late)
            }
        }
    }
}

/// Returns the bytes of a request with a JSON body (none if it is empty).
pub fn request(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n").into_bytes();
    if !body.is_empty() {
        bytes.extend_from_slice(b"content-type: application/json\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}
