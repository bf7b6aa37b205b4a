//! Network of a server: that of this process, or another one.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command};

use tokio::net::TcpSocket;

/// A network in which sockets and processes can be created.
///
/// A socket stays in the network in which it was created, also when another thread uses it later. A
/// child process gets the network of the thread that starts it.
pub trait Network: Debug + Send + Sync {
    /// Creates a socket for connections to this address.
    fn socket(&self, to: SocketAddr) -> io::Result<TcpSocket>;

    /// Starts a process.
    fn spawn(&self, command: &mut Command) -> io::Result<Child>;
}

/// The network of this process.
#[derive(Debug, Clone, Copy)]
pub struct Here;

impl Network for Here {
    fn socket(&self, to: SocketAddr) -> io::Result<TcpSocket> {
        if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
    }

    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }
}
