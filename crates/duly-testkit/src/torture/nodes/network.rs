//! Network of the sandbox: each node and each Redis server is a host, on bridges in the tool's own
//! namespace.
//!
//! ```text
//!   n1 ─┬─────────────┐          ┌────────── r1 … r6   (Redis)
//!   n2 ─┼─── store ───┼──────────┤
//!   n3 ─┘             │  island  │   ports of hosts that are cut off together
//!    │                │  distant │   ports of distant hosts ([`super::distant`])
//!    │ └────── web ───┴── 10.78.0.1: receivers, in the tool's namespace
//! ```
//!
//! To cut a host off, its port is moved off its bridge. Then no packet passes in either direction,
//! no connection is reset, and neither side is notified.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result};

use super::distant::DISTANT_BRIDGE;
use super::network_namespace::NetworkNamespace;

/// Address of the receivers.
pub(super) const RECEIVERS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// The network of nodes and receivers, to which webhooks are allowed.
pub(super) const WEB: &str = "10.78.0.0/24";

/// The bridge of hosts that are cut off.
pub(super) const ISLAND: &str = "island";

/// A host of the sandbox.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Name of the host and of its namespace.
    pub(super) name: String,
    /// Address among nodes and Redis servers.
    pub(super) address: Ipv4Addr,
    pub(super) namespace: NetworkNamespace,
}

/// A link of a host to a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostLink {
    /// Link of nodes and Redis servers.
    Store,
    /// Link of nodes and receivers.
    Web,
}

impl HostLink {
    /// Returns the name of the bridge.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Web => "web",
        }
    }
}

/// Creates the bridges without hosts.
pub(super) fn create_bridges() -> Result<()> {
    run_ip("link set lo up")?;
    for bridge in ["store", "web", ISLAND, DISTANT_BRIDGE] {
        run_ip(&format!("link add {bridge} type bridge"))?;
        run_ip(&format!("link set {bridge} up"))?;
    }
    run_ip(&format!("address add {RECEIVERS}/24 dev web"))
}

/// Creates a host; `number`, from 1, determines its addresses.
pub(super) fn create_host(name: &str, number: u8, links: &[HostLink]) -> Result<Host> {
    run_ip(&format!("netns add {name}"))?;
    for link in links {
        let (word, net) = (link.name(), if *link == HostLink::Store { 77 } else { 78 });
        run_ip(&format!("link add {name}-{word} type veth peer name {word} netns {name}"))?;
        run_ip(&format!("link set {name}-{word} master {word} up"))?;
        run_ip(&format!("-n {name} link set {word} up"))?;
        run_ip(&format!("-n {name} address add 10.{net}.0.{}/24 dev {word}", 10 + number))?;
    }
    run_ip(&format!("-n {name} link set lo up"))?;
    Ok(Host {
        name: name.to_owned(),
        address: Ipv4Addr::new(10, 77, 0, 10 + number),
        namespace: NetworkNamespace::open(name).with_context(|| format!("no namespace {name}"))?,
    })
}

/// Adds a device to a bridge.
pub(super) fn join_bridge(device: &str, bridge: &str) -> Result<()> {
    run_ip(&format!("link set {device} master {bridge} up"))
}

/// Moves these hosts back to their bridge.
pub(super) fn rejoin(hosts: &[Host], link: HostLink) -> Result<()> {
    move_to_bridge(hosts, link, link.name())
}

/// Moves these hosts to another bridge. They still reach each other.
pub(super) fn move_to_bridge(hosts: &[Host], link: HostLink, bridge: &str) -> Result<()> {
    hosts.iter().try_for_each(|host| join_bridge(&format!("{}-{}", host.name, link.name()), bridge))
}

/// Runs one command of `ip`.
fn run_ip(line: &str) -> Result<()> {
    super::sandbox::run(Command::new("ip").args(line.split(' ')))
}
