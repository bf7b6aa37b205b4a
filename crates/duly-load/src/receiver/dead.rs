//! Receivers that accept no delivery.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

/// A receiver that is dead until it is dropped.
#[derive(Debug)]
pub struct Dead {
    address: SocketAddr,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The port is bound, so no other program listens on it, but the socket does not listen.
    Refuses { _socket: TcpSocket },
    /// Connections are accepted and kept.
    Silent { acceptor: JoinHandle<()> },
}

impl Dead {
    /// Creates a receiver that refuses connections.
    pub fn refusing() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self { address: socket.local_addr()?, way: Way::Refuses { _socket: socket } })
    }

    /// Creates a receiver that accepts connections and never replies. Needs an async runtime.
    pub fn silent() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self { address, way: Way::Silent { acceptor: tokio::spawn(accept(listener)) } })
    }

    /// Returns the URL to deliver to.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        if let Way::Silent { acceptor } = &self.way {
            acceptor.abort();
        }
    }
}

async fn accept(listener: TcpListener) {
    let mut kept = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        kept.push(stream);
    }
}
