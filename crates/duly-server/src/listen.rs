//! Addresses that the server listens on, and their sockets.

use std::{
    fmt, fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use futures::future::select_all;
use rustix::fs::Mode;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio_util::either::Either;

/// Begins the text of a Unix socket's address.
const UNIX: &str = "unix:";
/// Rights on the file of a Unix socket: its user and group may call.
const SOCKET_MODE: u32 = 0o660;
/// Connections that wait until they are accepted. Past it the system drops handshakes, and a caller tries again after a
/// second. The system may have a lower bound (`net.core.somaxconn`).
const BACKLOG: u32 = 4_096;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// IP address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Returns `true` if other machines cannot connect to it: loopback, and Unix sockets.
    pub fn is_local(&self) -> bool {
        self.tcp().is_none_or(|address| address.ip().is_loopback())
    }

    /// Returns its IP address and port, unless it is a Unix socket.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns it as `--server` takes it.
    pub fn url(&self, is_https: bool) -> String {
        let scheme = if is_https { "https" } else { "http" };
        match self {
            Self::Tcp(address) => format!("{scheme}://{address}"),
            Self::Unix(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Reads an IP address with a port, or `unix:` with an absolute path.
impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.strip_prefix(UNIX).map(Path::new) {
            Some(path) if path.is_absolute() => Ok(Self::Unix(path.to_owned())),
            Some(_) => Err(()),
            None => text.parse().map(Self::Tcp).map_err(|_| ()),
        }
    }
}

/// A connection that was accepted.
pub(crate) type Stream = Either<TcpStream, UnixStream>;

/// Returns the address of the caller of a connection; a Unix socket has none.
pub(crate) fn peer_of(stream: &Stream) -> Option<IpAddr> {
    match stream {
        Either::Left(stream) => stream.peer_addr().ok().map(|address| address.ip()),
        Either::Right(_) => None,
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Either<TcpListener, UnixListener>,
    address: Address,
}

impl Listener {
    /// Begins to listen.
    ///
    /// The file of a Unix socket that a killed server left is replaced. A file of another kind, and the
    /// socket of a running server, are kept: the address is in use.
    pub(crate) async fn bind(address: &Address) -> io::Result<Self> {
        let path = match address {
            Address::Tcp(address) => {
                let socket = match address {
                    SocketAddr::V4(_) => TcpSocket::new_v4()?,
                    SocketAddr::V6(_) => TcpSocket::new_v6()?,
                };
                socket.set_reuseaddr(true)?;
                socket.bind(*address)?;
                return socket.listen(BACKLOG)?.try_into();
            }
            Address::Unix(path) => path,
        };
        if let Ok(found) = fs::symlink_metadata(path) {
            // Only a socket without a server refuses. A busy server, or one of another user, fails otherwise.
            let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if !found.file_type().is_socket()
                || !UnixStream::connect(path).await.is_err_and(refused)
            {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            fs::remove_file(path)?;
        }
        let socket = UnixSocket::new_stream()?;
        // Linux creates the file with the rights of the socket, less the umask. So no other user can call meanwhile.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(SOCKET_MODE))?;
        socket.bind(path)?;
        let socket = Either::Right(socket.listen(BACKLOG)?);
        let listener = Self { socket, address: address.clone() };
        // The umask may have taken some of the rights.
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok(listener)
    }

    /// Returns its address, with the port that it got.
    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    async fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Either::Left(listener) => {
                let (stream, _) = listener.accept().await?;
                // On a connection that has just ended this fails, and serving it will find that.
                stream.set_nodelay(true).ok();
                Ok(Either::Left(stream))
            }
            Either::Right(listener) => Ok(Either::Right(listener.accept().await?.0)),
        }
    }
}

impl TryFrom<TcpListener> for Listener {
    type Error = io::Error;

    fn try_from(listener: TcpListener) -> io::Result<Self> {
        let address = Address::Tcp(listener.local_addr()?);
        Ok(Self { socket: Either::Left(listener), address })
    }
}

/// Removes the file of a Unix socket.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address
            && let Err(error) = fs::remove_file(path)
        {
            tracing::debug!(%error, path = %path.display(), "removing a socket file failed");
        }
    }
}

/// Accepts the next connection of any of the sockets.
pub(crate) async fn accept(listeners: &[Listener]) -> io::Result<Stream> {
    select_all(listeners.iter().map(|listener| Box::pin(listener.accept()))).await.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for (text, is_local) in [
            ("127.0.0.1:3859", true),
            ("[::1]:0", true),
            ("unix:/run/duly.sock", true),
            ("0.0.0.0:3859", false),
            ("[::]:3859", false),
            ("10.0.0.1:1", false),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!((address.to_string().as_str(), address.is_local()), (text, is_local));
        }
        for text in ["", "localhost:3859", "127.0.0.1", "unix:", "unix:duly.sock", "/run/duly.sock"]
        {
            assert_eq!(text.parse::<Address>(), Err(()), "{text}");
        }
    }

    #[tokio::test]
    async fn many_connections_wait_until_they_are_accepted() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.expect("bound");
        let address = listener.address().tcp().expect("an IP address");
        let most = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("of the system");
        let count = most.trim().parse::<usize>().expect("a number").min(500);
        let all = futures::future::try_join_all((0..count).map(|_| TcpStream::connect(address)));
        let made = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
        assert_eq!(made.expect("none is dropped").expect("they connect").len(), count);
    }

    #[tokio::test]
    async fn only_the_socket_of_a_killed_server_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("duly.sock");
        let address = Address::Unix(path.clone());
        let in_use = async || Listener::bind(&address).await.expect_err("refused").kind();

        fs::write(&path, "a file").expect("written");
        assert_eq!(in_use().await, io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).expect("kept"), "a file");
        fs::remove_file(&path).expect("removed");

        let running = Listener::bind(&address).await.expect("bound");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        assert_eq!(in_use().await, io::ErrorKind::AddrInUse);
        drop(running);
        assert!(!path.exists());

        let socket = tokio::net::UnixSocket::new_stream().expect("a socket");
        socket.bind(&path).expect("bound");
        let busy = socket.listen(1).expect("listens");
        let mut callers = Vec::new();
        while let Ok(caller) = UnixStream::connect(&path).await {
            callers.push(caller);
        }
        assert_eq!(in_use().await, io::ErrorKind::AddrInUse, "its queue is full");
        drop(busy);
        fs::remove_file(&path).expect("removed");

        drop(std::os::unix::net::UnixListener::bind(&path).expect("as a killed server leaves it"));
        assert!(path.exists());
        let replaced = Listener::bind(&address).await.expect("replaced");
        assert_eq!(replaced.address(), &address);
    }
}
