//! The network of the place: each node and each Redis server a host of its own, on bridges that the
//! tool's own namespace holds.
//!
//! ```text
//!   n1 ─┬─────────────┐          ┌────────── r1 … r6   (Redis)
//!   n2 ─┼─── store ───┼──────────┤
//!   n3 ─┘             │  island  │   where ports are put that are cut off together
//!    │                │  far     │   where ports are put that have a long way ([`super::far`])
//!    │ └────── web ───┴── 10.78.0.1: receivers, in the tool's namespace
//! ```
//!
//! A host that is cut off has its port taken from its bridge: nothing comes through in either
//! direction, no connection is reset, and nobody is told.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::far::FAR;
use super::namespace::Namespace;

/// Where the receivers listen.
pub(super) const RECEIVERS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// The networks of nodes and receivers, which webhooks may go to.
pub(super) const WEB: &str = "10.78.0.0/24";

/// A host of the place.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Also the name of its namespace.
    pub(super) name: String,
    /// Its address among nodes and Redis servers.
    pub(super) address: Ipv4Addr,
    pub(super) namespace: Namespace,
}

/// A line of a host to a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Nodes and Redis servers.
    Store,
    /// Nodes and receivers.
    Web,
}

impl Side {
    /// The name of its bridge.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Web => "web",
        }
    }

    /// The port of this host, in the tool's namespace.
    fn port(self, host: &Host) -> String {
        format!("{}-{}", host.name, self.word())
    }
}

/// Makes the bridges, with nobody on them.
pub(super) fn build() -> Result<()> {
    let mut script = "link set lo up\n".to_owned();
    for bridge in ["store", "web", "island", FAR] {
        writeln!(script, "link add {bridge} type bridge")?;
        writeln!(script, "link set {bridge} up")?;
    }
    writeln!(script, "address add {RECEIVERS}/24 dev web")?;
    ip(&script)
}

/// Makes a host; `number` from 1 tells its addresses from those of others.
pub(super) fn host(name: &str, number: u8, sides: &[Side]) -> Result<Host> {
    let mut script = format!("netns add {name}\n");
    for side in sides {
        let (word, net) = (side.word(), if *side == Side::Store { 77 } else { 78 });
        writeln!(script, "link add {name}-{word} type veth peer name {word} netns {name}")?;
        writeln!(script, "link set {name}-{word} master {word} up")?;
        writeln!(script, "-n {name} link set {word} up")?;
        writeln!(script, "-n {name} address add 10.{net}.0.{}/24 dev {word}", 10 + number)?;
    }
    writeln!(script, "-n {name} link set lo up")?;
    for line in script.lines() {
        ip_line(line)?;
    }
    Ok(Host {
        name: name.to_owned(),
        address: Ipv4Addr::new(10, 77, 0, 10 + number),
        namespace: Namespace::open(name).with_context(|| format!("no namespace {name}"))?,
    })
}

/// Cuts these hosts off from all others on this side; among themselves they still hear each other.
pub(super) fn cut_off(hosts: &[&Host], side: Side) -> Result<()> {
    move_to(hosts, side, "island")
}

/// Leaves them on a bridge with whatever leads away from it.
pub(super) fn put_far(hosts: &[&Host], side: Side) -> Result<()> {
    move_to(hosts, side, FAR)
}

/// Puts a device on a bridge.
pub(super) fn join_bridge(device: &str, bridge: &str) -> Result<()> {
    ip(&format!("link set {device} master {bridge} up\n"))
}

/// Joins them again.
pub(super) fn join(hosts: &[&Host], side: Side) -> Result<()> {
    move_to(hosts, side, side.word())
}

fn move_to(hosts: &[&Host], side: Side, bridge: &str) -> Result<()> {
    let lines = hosts.iter().map(|host| format!("link set {} master {bridge}\n", side.port(host)));
    ip(&lines.collect::<String>())
}

/// Commands of `ip`, one a line.
fn ip(script: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ip (Debian: `iproute2`)")?;
    child.stdin.take().context("ip has an input")?.write_all(script.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip: {}\n{script}", said.trim());
    Ok(())
}

/// One command of `ip`, which may be for another namespace (`-n`): a batch is for one alone.
fn ip_line(line: &str) -> Result<()> {
    super::place::run(Command::new("ip").args(line.split(' ')))
}
