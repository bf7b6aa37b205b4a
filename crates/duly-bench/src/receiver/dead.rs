//! Receiver that accepts no delivery.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::TcpSocket;

/// A receiver that refuses connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Dead {
    address: SocketAddr,
    /// The port is bound, so no other program listens on it, but the socket does not listen.
    _socket: TcpSocket,
}

impl Dead {
    /// Creates a receiver.
    pub(crate) fn refusing() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// Returns the URL to deliver to.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}
