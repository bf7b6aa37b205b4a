//! Connects by TCP to the first of several addresses that accepts.
//!
//! 1. The next address is tried when the last one failed or did not reply for a while (RFC 8305, "Happy
//!    Eyeballs"). So a dead IPv6 route costs a moment and not the attempt.
//! 2. Idle connections have TCP keep-alive. A connection is closed when sent bytes stay unacknowledged.
//!    So a receiver that disappeared is detected.

use std::{io, net::SocketAddr, time::Duration};

use futures::stream::{FuturesUnordered, StreamExt};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

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

/// Connects to the first address that accepts.
pub(super) async fn connect_first(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
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
