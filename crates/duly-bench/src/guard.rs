//! Guard against load on foreign servers: a server must be on this machine, or its user must
//! confirm to own it.
//!
//! The addresses are checked after the name was resolved, and the run calls these same addresses.
//! So the name cannot resolve to another address in between.

use std::net::SocketAddr;

/// Ownership of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user has confirmed to own it.
    Caller,
    /// Not confirmed.
    Unknown,
}

/// Reason why a server is not put under load.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// The server may belong to another person.
    #[error(
        "{server} is at {address}, which is not this machine: a benchmark takes all that a server \
         has. Loopback addresses are allowed; if the server is yours and not in use, say \
         --i-own-this-server"
    )]
    Foreign {
        /// The server as the user named it.
        server: String,
        /// Its address.
        address: SocketAddr,
    },
    /// The name has no address.
    #[error("{server} has no address: name a host that resolves, such as http://127.0.0.1:3859")]
    Nowhere {
        /// The server as the user named it.
        server: String,
    },
}

/// Returns the address to call, or refuses the server.
pub(crate) fn checked_address(
    server: &str,
    addresses: &[SocketAddr],
    owner: Owner,
) -> Result<SocketAddr, Refusal> {
    let is_here = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    if let (Some(&address), Owner::Unknown) =
        (addresses.iter().find(|address| !is_here(address)), owner)
    {
        return Err(Refusal::Foreign { server: server.to_owned(), address });
    }
    addresses.first().copied().ok_or_else(|| Refusal::Nowhere { server: server.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn foreign_servers_need_a_confirmed_owner() {
        for here in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(checked_address("x", &[at(here)], Owner::Unknown), Ok(at(here)));
        }
        for there in ["10.0.0.1:1", "0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"] {
            let refused = checked_address("x", &[at(there)], Owner::Unknown).unwrap_err();
            assert!(refused.to_string().contains("--i-own-this-server"), "{refused}");
            assert_eq!(checked_address("x", &[at(there)], Owner::Caller), Ok(at(there)));
        }
    }

    #[test]
    fn one_foreign_address_refuses_the_server() {
        let both = [at("127.0.0.1:1"), at("192.0.2.1:1")];
        assert!(checked_address("x", &both, Owner::Unknown).is_err());
        let nowhere = Refusal::Nowhere { server: "x".to_owned() };
        assert_eq!(checked_address("x", &[], Owner::Caller), Err(nowhere));
    }
}
