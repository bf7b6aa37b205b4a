//! Makes a connection: name, TCP, proxy, TLS, protocol.
//!
//! 1. This server, or the proxy, connects to exactly the address that was checked (S5): the proxy gets
//!    that address.
//! 2. Only if the operator lets the proxy resolve names, the check of names is left to the proxy.
//! 3. The proxy itself is the operator's choice and is not checked.
//! 4. A failure in this module comes before anything was sent.
//! 5. Idle connections have TCP keep-alive. A connection is closed when sent bytes stay unacknowledged.
//!    So a receiver that disappeared is detected.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use data_encoding::BASE64;
use futures::stream::{FuturesUnordered, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use url::Host;

use super::{
    address::AddressPolicy,
    connection::{Http1, Http2},
    failure,
    options::{Credentials, Proxy, Resolves},
    resolve::{LookupOwner, Resolver},
    socket::Socket,
    target::{Scheme, Target},
    tls::{self, Tls},
};

/// Time without a reply of one address until the next one is tried concurrently.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Idle time before the first TCP keep-alive probe, and time between two probes.
const ALIVE_AFTER: Duration = Duration::from_secs(15);
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// Unanswered probes after which the connection is dead.
const ALIVE_TRIES: u32 = 3;
/// Longest time that sent bytes may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);
/// Most bytes of the proxy's reply.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

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
        let socket = Socket::new(stream);
        let connected = match target.scheme {
            Scheme::Plain => Http1::start(socket.clone(), socket).await.map(NewConnection::Http1),
            Scheme::Tls => {
                let stream = self.tls.connect(target, socket.clone()).await?;
                if tls::chose_http2(&stream) {
                    Http2::start(stream).await.map(NewConnection::Http2)
                } else {
                    Http1::start(stream, socket).await.map(NewConnection::Http1)
                }
            }
        };
        connected.map_err(|error| failure::causes(&error))
    }

    async fn direct(&self, target: &Target<'_>) -> Result<TcpStream, String> {
        let addresses = self.addresses_of(target).await?;
        connect_first(&addresses).await.map_err(|error| error.to_string())
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
            match open_tunnel(&mut stream, &authority, proxy.credentials.as_ref()).await {
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
        let connected = connect_first(&addresses).await;
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

/// Connects by TCP to the first address that accepts.
///
/// The next address is tried when the last one failed or did not reply for a while (RFC 8305, "Happy
/// Eyeballs"). So a dead IPv6 route costs a moment and not the attempt.
async fn connect_first(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut rest = interleave_families(addresses).into_iter();
    let mut trying = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no address");
    loop {
        if trying.is_empty() {
            match rest.next() {
                Some(address) => trying.push(TcpStream::connect(address)),
                None => return Err(last),
            }
        }
        tokio::select! {
            biased;
            Some(done) = trying.next() => match done {
                Ok(stream) => {
                    set_up(&stream);
                    return Ok(stream);
                }
                Err(error) => last = error,
            },
            () = tokio::time::sleep(NEXT_AFTER), if rest.len() > 0 => {
                trying.extend(rest.next().map(TcpStream::connect));
            }
        }
    }
}

/// Returns the addresses with their families in alternation, beginning with that of the first.
fn interleave_families(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (same, other): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    let mut mixed = Vec::with_capacity(addresses.len());
    while mixed.len() < addresses.len() {
        mixed.extend(same.next());
        mixed.extend(other.next());
    }
    mixed
}

/// Sets the socket options. Failures are ignored: the time-outs of the attempt apply in any case.
fn set_up(stream: &TcpStream) {
    stream.set_nodelay(true).ok();
    let socket = SockRef::from(stream);
    let alive = TcpKeepalive::new()
        .with_time(ALIVE_AFTER)
        .with_interval(ALIVE_EVERY)
        .with_retries(ALIVE_TRIES);
    socket.set_tcp_keepalive(&alive).ok();
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)).ok();
}

/// Requests a tunnel through an HTTP proxy to `authority`, which is an address or a name with a port, by
/// `CONNECT` (RFC 9110, 9.3.6).
///
/// The operator chooses the proxy, but it may still be faulty. Its reply is limited in bytes here and in
/// time by the caller, and no part of it is passed on as the receiver's. Its credentials appear in no
/// reason and no log line (S6).
///
/// # Errors
/// A sentence for the history of the attempt.
async fn open_tunnel(
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
    let lost = |error: io::Error| format!("the proxy closed the connection: {error}");
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
    match status_of(&reply) {
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
fn status_of(reply: &[u8]) -> Option<u16> {
    let line = reply.strip_prefix(b"HTTP/1.0 ").or_else(|| reply.strip_prefix(b"HTTP/1.1 "))?;
    let digits = str::from_utf8(line.get(..3)?).ok()?;
    let ends = line.get(3).is_some_and(|byte| matches!(byte, b' ' | b'\r'));
    digits.parse().ok().filter(|status| ends && (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mixed =
            interleave_families(&addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]));
        assert_eq!(mixed, addresses(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]));
        assert!(interleave_families(&[]).is_empty());
    }

    #[tokio::test]
    async fn a_closed_address_does_not_hide_the_open_one() {
        let closed = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = open.local_addr().unwrap();
        assert_eq!(connect_first(&[closed, to]).await.unwrap().peer_addr().unwrap(), to);
        let error = connect_first(&[closed]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect_first(&[]).await.is_err());
    }
}
