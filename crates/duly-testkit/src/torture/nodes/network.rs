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

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::distant::DISTANT_BRIDGE;
use super::network_namespace::NetworkNamespace;

/// Address of the receivers.
pub(super) const RECEIVERS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// The network of nodes and receivers, to which webhooks are allowed.
pub(super) const WEB: &str = "10.78.0.0/24";

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

    /// Returns the port of this host, in the tool's namespace.
    fn port(self, host: &Host) -> String {
        format!("{}-{}", host.name, self.name())
    }
}

/// Creates the bridges without hosts.
pub(super) fn create_bridges() -> Result<()> {
    let mut script = "link set lo up\n".to_owned();
    for bridge in ["store", "web", "island", DISTANT_BRIDGE] {
        writeln!(script, "link add {bridge} type bridge")?;
        writeln!(script, "link set {bridge} up")?;
    }
    writeln!(script, "address add {RECEIVERS}/24 dev web")?;
    run_ip_batch(&script)
}

/// Creates a host; `number`, from 1, determines its addresses.
pub(super) fn create_host(name: &str, number: u8, links: &[HostLink]) -> Result<Host> {
    let mut script = format!("netns add {name}\n");
    for link in links {
        let (word, net) = (link.name(), if *link == HostLink::Store { 77 } else { 78 });
        writeln!(script, "link add {name}-{word} type veth peer name {word} netns {name}")?;
        writeln!(script, "link set {name}-{word} master {word} up")?;
        writeln!(script, "-n {name} link set {word} up")?;
        writeln!(script, "-n {name} address add 10.{net}.0.{}/24 dev {word}", 10 + number)?;
    }
    writeln!(script, "-n {name} link set lo up")?;
    for line in script.lines() {
        run_ip(line)?;
    }
    Ok(Host {
        name: name.to_owned(),
        address: Ipv4Addr::new(10, 77, 0, 10 + number),
        namespace: NetworkNamespace::open(name).with_context(|| format!("no namespace {name}"))?,
    })
}

/// Cuts these hosts off from all others on this link. They still reach each other.
pub(super) fn cut_off(hosts: &[&Host], link: HostLink) -> Result<()> {
    move_to_bridge(hosts, link, "island")
}

/// Moves these hosts to the bridge `distant`, with the tap that leads away from it.
pub(super) fn join_distant_bridge(hosts: &[&Host], link: HostLink) -> Result<()> {
    move_to_bridge(hosts, link, DISTANT_BRIDGE)
}

/// Adds a device to a bridge.
pub(super) fn join_bridge(device: &str, bridge: &str) -> Result<()> {
    run_ip_batch(&format!("link set {device} master {bridge} up\n"))
}

/// Moves these hosts back to their bridge.
pub(super) fn rejoin(hosts: &[&Host], link: HostLink) -> Result<()> {
    move_to_bridge(hosts, link, link.name())
}

fn move_to_bridge(hosts: &[&Host], link: HostLink, bridge: &str) -> Result<()> {
    let lines = hosts.iter().map(|host| format!("link set {} master {bridge}\n", link.port(host)));
    run_ip_batch(&lines.collect::<String>())
}

/// Runs commands of `ip`, one per line.
fn run_ip_batch(script: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ip (Debian: `iproute2`)")?;
    child.stdin.take().context("ip has an input")?.write_all(script.as_bytes())?;
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip: {}\n{script}", stderr.trim());
    Ok(())
}

/// Runs one command of `ip`, which may name another namespace (`-n`). A batch has only one
/// namespace.
fn run_ip(line: &str) -> Result<()> {
    super::sandbox::run(Command::new("ip").args(line.split(' ')))
}
