//! The address filter: the addresses and ports that a webhook may reach (S5).
//!
//! Callers choose the destinations of timers. Without this filter a caller could make the server connect
//! to its own network: loopback, private ranges, a cloud's metadata service (server-side request
//! forgery).
//!
//! 1. Every address that is not public unicast is refused, also if it is embedded in an IPv6 address
//!    (mapped, compatible, 6to4, Teredo, NAT64).
//! 2. Hosts written as decimal, octal or hexadecimal numbers are normalised by the `url` crate before
//!    they are checked.
//! 3. All ports are allowed unless some are configured.
//! 4. The addresses on which the server itself listens are always refused, regardless of the
//!    configuration: such a webhook would be an API call that no caller made.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::RangeInclusive,
};

use ipnet::IpNet;
use url::{Host, Url};

/// The rule for loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loopback {
    /// Loopback addresses are refused.
    #[default]
    Refused,
    /// Loopback addresses are allowed: for development, while the server listens on loopback only.
    Allowed,
}

/// The addresses that may be reached in addition to public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// The rule for loopback addresses.
    pub loopback: Loopback,
    /// Networks that may be reached although they are not public.
    pub allow: Vec<IpNet>,
    /// Ports that may be reached; if empty, all ports.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Addresses on which the server itself listens; they are never reached.
    pub own: Vec<SocketAddr>,
}

/// The error of a port that may not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "port {port} is refused: receivers may have the ports of webhook.allow_ports only; use one of \
     them, or have the operator add this one"
)]
pub struct RefusedPort {
    /// The refused port.
    pub port: u16,
}

/// The error of an address that may not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address {address} is refused: it is {}{}", .kind.as_str(), .kind.remedy())]
pub struct RefusedAddress {
    /// The address as it was given or resolved.
    pub address: IpAddr,
    /// The kind of the address.
    pub kind: AddressKind,
}

duly_core::named_enum! {
    /// The kinds of addresses that are not public. Their names complete "it is …" in errors.
    pub enum AddressKind {
        /// This machine.
        Loopback = "a loopback address",
        /// The unspecified address.
        Unspecified = "the unspecified address",
        /// A private network.
        Private = "in a private network",
        /// Shared address space behind a carrier-grade NAT.
        CarrierNat = "in the carrier-grade NAT range",
        /// Link-local.
        LinkLocal = "link-local",
        /// A cloud's metadata service.
        Metadata = "a cloud metadata service",
        /// Multicast or broadcast.
        Multicast = "multicast or broadcast",
        /// Reserved, for documentation, or for tests.
        Reserved = "reserved",
        /// An IPv6 form of an IPv4 address that is not public.
        Embedded = "an IPv6 form of an IPv4 address that is not public",
        /// An address on which this server itself listens.
        Own = "an address on which this server itself listens",
    }
}

impl AddressKind {
    /// Returns the end of the error sentence, with the remedy.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Own => "; a webhook needs a receiver of its own",
            _ => {
                ", and no configured network allows it; use a public address, or have the operator \
                 add its network to delivery.allow_networks"
            }
        }
    }
}

impl AddressPolicy {
    /// Returns a policy for public addresses and loopback: the default for development.
    pub fn with_loopback() -> Self {
        Self { loopback: Loopback::Allowed, ..Self::default() }
    }

    /// Checks a port.
    ///
    /// # Errors
    /// The port, if it is refused.
    pub fn check_port(&self, port: u16) -> Result<(), RefusedPort> {
        let allowed = self.ports.is_empty() || self.ports.iter().any(|range| range.contains(&port));
        if allowed { Ok(()) } else { Err(RefusedPort { port }) }
    }

    /// Checks the host of a URL if it is an address; names are checked when they are resolved.
    ///
    /// # Errors
    /// The refused address and its kind.
    pub fn check_url(&self, url: &Url) -> Result<(), RefusedAddress> {
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::from(ip),
            Some(Host::Ipv6(ip)) => ip.into(),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.check_socket(SocketAddr::new(ip, url.port_or_known_default().unwrap_or_default()))
    }

    /// Checks one address with its port, which identifies the server's own address.
    ///
    /// # Errors
    /// The refused address and its kind.
    pub fn check_socket(&self, target: SocketAddr) -> Result<(), RefusedAddress> {
        let (ip, port) = (target.ip().to_canonical(), target.port());
        // A connection to the unspecified address goes to this machine. A server that listens on it has
        // every address of this machine; a delivery to one that is not loopback comes back with the
        // header that refuses it.
        let is_own = |own: &SocketAddr| {
            let own_ip = own.ip().to_canonical();
            let is_here = ip.is_unspecified() || own_ip.is_unspecified() && ip.is_loopback();
            own.port() == port && (own_ip == ip || is_here)
        };
        if self.own.iter().any(is_own) {
            return Err(RefusedAddress { address: target.ip(), kind: AddressKind::Own });
        }
        self.check(target.ip())
    }

    /// Checks one address.
    ///
    /// # Errors
    /// The refused address and its kind.
    pub fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        // The system connects to the IPv4 address of a mapped address.
        let plain = address.to_canonical();
        if self.allow.iter().any(|net| net.contains(&plain)) {
            return Ok(());
        }
        let kind = match plain {
            IpAddr::V4(ip) => kind_of_v4(ip),
            IpAddr::V6(ip) => kind_of_v6(ip),
        };
        match kind {
            None => Ok(()),
            Some(AddressKind::Loopback) if self.loopback == Loopback::Allowed => Ok(()),
            Some(kind) => Err(RefusedAddress { address, kind }),
        }
    }
}

/// Returns the reason why an IPv4 address is not public (IANA IPv4 special-purpose registry), `None` if
/// it is.
fn kind_of_v4(ip: Ipv4Addr) -> Option<AddressKind> {
    let [a, b, c, d] = ip.octets();
    Some(match (a, b, c, d) {
        (169, 254, 169, 254) | (100, 100, 100, 200) | (168, 63, 129, 16) | (192, 0, 0, 192) => {
            AddressKind::Metadata
        }
        (0, ..) => AddressKind::Unspecified,
        (127, ..) => AddressKind::Loopback,
        (10, ..) | (172, 16..=31, ..) | (192, 168, ..) => AddressKind::Private,
        (100, 64..=127, ..) => AddressKind::CarrierNat,
        (169, 254, ..) => AddressKind::LinkLocal,
        (192, 0, 0 | 2, _)
        | (192, 88, 99, _)
        | (198, 18..=19, ..)
        | (198, 51, 100, _)
        | (203, 0, 113, _) => AddressKind::Reserved,
        (224..=239, ..) | (255, 255, 255, 255) => AddressKind::Multicast,
        (240..=255, ..) => AddressKind::Reserved,
        _ => return None,
    })
}

/// Returns the reason why an IPv6 address is not public (IANA IPv6 special-purpose registry), `None` if
/// it is.
fn kind_of_v6(ip: Ipv6Addr) -> Option<AddressKind> {
    if ip.is_unspecified() {
        return Some(AddressKind::Unspecified);
    }
    if ip.is_loopback() {
        return Some(AddressKind::Loopback);
    }
    let words = ip.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        kind_of_v4(Ipv4Addr::new(a, b, c, d)).map(|_| AddressKind::Embedded)
    };
    match words {
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] => Some(AddressKind::Metadata),
        // IPv4-compatible, and IPv4-translated (RFC 2765).
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => embedded(high, low),
        // NAT64: the well-known prefix, and the one for local use.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Some(AddressKind::Private),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo: the client's address is inverted.
        [0x2001, 0, _, _, _, _, high, low] => embedded(!high, !low).or(Some(AddressKind::Reserved)),
        // Protocol assignments: 2001::/23.
        [0x2001, 0..=0x01ff, ..] => Some(AddressKind::Reserved),
        [0x2001, 0x0db8, ..] | [0x0100, 0, 0, 0, ..] | [0x3fff, 0..=0x0fff, ..] => {
            Some(AddressKind::Reserved)
        }
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(AddressKind::Private),
        [0xfe80..=0xfebf, ..] => Some(AddressKind::LinkLocal),
        [0xff00..=0xffff, ..] => Some(AddressKind::Multicast),
        // Only 2000::/3 is allocated as global unicast.
        [0x2000..=0x3fff, ..] => None,
        _ => Some(AddressKind::Reserved),
    }
}

#[cfg(test)]
mod tests;
