//! Connects to a server, over TCP or TLS.
//!
//! The client library speaks the protocol, and makes no connections: it would verify certificates without the bound of
//! `duly_tls`. So it is built without TLS.

use std::{io, sync::Arc, time::Duration};

use duly_tls::chain::ChainRefused;
use futures::future::select_ok;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ProtocolVersion, RedisConnectionInfo, RedisResult,
    aio::MultiplexedConnection,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::JoinSet,
    time::timeout,
};

use crate::address::Address;

/// A connection that requests share. It ends with its last clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedConnection {
    pub(crate) requests: MultiplexedConnection,
    /// Sends the requests, and receives the replies.
    _driver: Arc<JoinSet<()>>,
}

impl Address {
    /// Connects to one server and logs in.
    pub(crate) async fn connect(
        &self,
        server: &str,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
        within: Duration,
    ) -> RedisResult<SharedConnection> {
        let info = self.info(server)?;
        let login = info.redis_settings().clone().set_protocol(protocol);
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(io::Error::from(io::ErrorKind::Unsupported).into());
        };
        let connect = async {
            let addresses: Vec<_> = lookup_host((host.as_str(), *port)).await?.collect();
            let connects: Vec<_> =
                addresses.into_iter().map(|it| Box::pin(TcpStream::connect(it))).collect();
            if connects.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            let (stream, _) = select_ok(connects).await?;
            // Without it a request waits in the kernel until the one before it has been acknowledged, which takes as
            // long as a reply.
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return speak(&login, stream, config).await };
            let name = ServerName::try_from(host.clone());
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            speak(&login, tls.connect(name, stream).await.map_err(explain)?, config).await
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(within, connect).await.map_err(late)?
    }
}

/// Starts the protocol on a stream.
async fn speak(
    login: &RedisConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: AsyncConnectionConfig,
) -> RedisResult<SharedConnection> {
    let (requests, driver) = MultiplexedConnection::new_with_config(login, stream, config).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(driver);
    Ok(SharedConnection { requests, _driver: Arc::new(tasks) })
}

/// Returns the error of a handshake with the refusal of a chain, which its own text does not show.
fn explain(error: io::Error) -> io::Error {
    match ChainRefused::of_io(&error) {
        Some(refusal) => io::Error::new(io::ErrorKind::InvalidData, refusal),
        None => error,
    }
}
