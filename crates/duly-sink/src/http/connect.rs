//! Makes a connection: name, TCP, proxy, TLS, protocol.
//!
//! 1. This server, or the proxy, connects to exactly the address that was checked (S5): the proxy gets
//!    that address.
//! 2. Only if the operator lets the proxy resolve names, the check of names is left to the proxy.
//! 3. The proxy itself is the operator's choice and is not checked.
//! 4. A failure in this module comes before anything was sent.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use url::Host;

use super::{
    address::AddressPolicy,
    connection::{Http1, Http2},
    failure,
    options::{Proxy, Resolves},
    resolve::{LookupOwner, Resolver},
    target::{Scheme, Target},
    tcp,
    tls::{self, Tls},
    tunnel,
};

/// A connection that was just made.
pub(super) enum NewConnection {
    /// HTTP/1.1: for one exchange at a time.
    Http1(Http1),
    /// HTTP/2: for several.
    Http2(Http2),
}

/// Makes connections.
pub(super) struct Connector {
    pub(super) resolver: Resolver,
    pub(super) tls: Tls,
    pub(super) addresses: AddressPolicy,
    pub(super) proxy: Option<Proxy>,
}

impl Connector {
    /// Connects to a target.
    ///
    /// # Errors
    /// A sentence for the history of the attempt. It shows nothing of the URL but its address.
    pub(super) async fn connect(&self, target: &Target<'_>) -> Result<NewConnection, String> {
        let stream = match &self.proxy {
            None => self.direct(target).await?,
            Some(proxy) => self.through(proxy, target).await?,
        };
        let connected = match target.scheme {
            Scheme::Plain => Http1::start(stream).await.map(NewConnection::Http1),
            Scheme::Tls => {
                let stream = self.tls.connect(&target.host, stream).await?;
                if tls::chose_http2(&stream) {
                    Http2::start(stream).await.map(NewConnection::Http2)
                } else {
                    Http1::start(stream).await.map(NewConnection::Http1)
                }
            }
        };
        connected.map_err(|error| failure::causes(&error))
    }

    async fn direct(&self, target: &Target<'_>) -> Result<TcpStream, String> {
        let addresses = self.addresses_of(target).await?;
        tcp::connect_first(&addresses).await.map_err(|error| error.to_string())
    }

    async fn through(&self, proxy: &Proxy, target: &Target<'_>) -> Result<TcpStream, String> {
        let authorities = match (&target.host, proxy.resolves) {
            (Host::Domain(name), Resolves::Proxy) => vec![format!("{name}:{}", target.port)],
            _ => {
                let addresses = self.addresses_of(target).await?;
                addresses.iter().map(SocketAddr::to_string).collect()
            }
        };
        let mut failed = String::new();
        for authority in authorities {
            let mut stream = self.to_proxy(proxy).await?;
            match tunnel::open(&mut stream, &authority, proxy.credentials.as_ref()).await {
                Ok(()) => return Ok(stream),
                Err(reason) => failed = reason,
            }
        }
        Err(failed)
    }

    async fn to_proxy(&self, proxy: &Proxy) -> Result<TcpStream, String> {
        let ips: Vec<IpAddr> = match proxy.host.parse() {
            Ok(ip) => vec![ip],
            Err(_) => {
                let found = self.resolver.all(LookupOwner::Operator, &proxy.host).await;
                found.map_err(|reason| format!("the proxy: {reason}"))?.to_vec()
            }
        };
        let addresses: Vec<_> = ips.iter().map(|&ip| SocketAddr::new(ip, proxy.port)).collect();
        let connected = tcp::connect_first(&addresses).await;
        connected.map_err(|error| format!("the proxy cannot be reached: {error}"))
    }

    /// Returns the addresses of the target. A host written as an address was checked before.
    async fn addresses_of(&self, target: &Target<'_>) -> Result<Vec<SocketAddr>, String> {
        match target.host {
            Host::Domain(name) => {
                let owner = LookupOwner::Namespace(target.namespace.clone());
                self.resolver.allowed(owner, name, target.port, &self.addresses).await
            }
            Host::Ipv4(ip) => Ok(vec![SocketAddr::new(ip.into(), target.port)]),
            Host::Ipv6(ip) => Ok(vec![SocketAddr::new(ip.into(), target.port)]),
        }
    }
}
