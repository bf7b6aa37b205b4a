//! The Redis Cluster: three masters with replicas, each server on its own host.
//!
//! Commands go to the loopback address of a server's host, so they also reach a server that is cut
//! off.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use duly_redis_testkit::server::{Server, free_port, tell};

use super::network::{self, Host, Side};
use super::resp::{self, Reply};
use super::view::{self, Member};

/// Longest time until the servers agree.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two polls.
const LOOK: Duration = Duration::from_millis(50);

/// Slots of a Redis Cluster.
const SLOTS: u32 = 16_384;

/// Number of masters.
const MASTERS: u32 = 3;

/// Settings besides those with addresses.
const SETTINGS: [&str; 18] = [
    "--protected-mode",
    "no",
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "2000",
    "--cluster-replica-validity-factor",
    "0",
    "--cluster-allow-replica-migration",
    "no",
    "--cluster-require-full-coverage",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--min-replicas-max-lag",
    "5",
    "--maxmemory-policy",
    "noeviction",
];

/// One server of the cluster.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) host: Host,
    server: Server,
    is_running: bool,
}

impl Peer {
    fn start(host: Host, min_replicas: u32) -> Result<Self> {
        let address = host.address.to_string();
        let wanted = min_replicas.to_string();
        let server = host.namespace.enter(|| {
            let bus = free_port().to_string();
            let own = ["--bind", "127.0.0.1", &address, "--cluster-announce-ip", &address];
            let rest = ["--cluster-port", &bus, "--min-replicas-to-write", &wanted];
            Server::start(&[&own[..], &rest[..], &SETTINGS[..]].concat())
        });
        let server = server.with_context(|| format!("{} does not start", host.name))?;
        Ok(Self { host, server, is_running: true })
    }

    /// Sends one command.
    pub(super) fn tell(&self, command: &str) -> Result<String> {
        let port = self.server.port();
        let told = self.host.namespace.enter(|| tell(port, command));
        told.with_context(|| format!("{} was told {command}", self.host.name))
    }

    /// Sends one command whose words need not be text.
    pub(super) fn ask(&self, words: &[&[u8]]) -> Result<Reply> {
        let port = self.server.port();
        match self.host.namespace.enter(|| resp::ask(port, words))?? {
            Reply::Error(error) => bail!("{} answered {error}", self.host.name),
            reply => Ok(reply),
        }
    }

    /// Sends one command and expects `OK`.
    pub(super) fn order(&self, command: &str) -> Result<()> {
        let answer = self.tell(command)?;
        ensure!(answer == "+OK", "{} answered {command} with {answer}", self.host.name);
        Ok(())
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(&mut self) {
        self.is_running = false;
        self.server.kill();
    }

    /// Removes the server's data, while it is down.
    pub(super) fn lose_data(&self) {
        self.server.lose_data();
    }

    /// Copies the server's data.
    pub(super) fn copy_data(&self, to: &Path) {
        self.server.copy_data(to);
    }

    /// Replaces the server's data with such a copy, while it is down.
    pub(super) fn restore_data(&self, from: &Path) {
        self.server.restore_data(from);
    }

    /// Starts the server again with its data.
    pub(super) fn start_again(&mut self) -> Result<()> {
        let Self { host, server, is_running } = self;
        host.namespace.enter(|| server.start_again())?;
        *is_running = true;
        Ok(())
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    fn place(&self) -> String {
        format!("{}:{}", self.host.address, self.server.port())
    }
}

/// All servers of the cluster.
#[derive(Debug)]
pub(super) struct Redis {
    pub(super) peers: Vec<Peer>,
    /// Replicas of each master.
    replicas: u8,
}

impl Redis {
    /// Starts a cluster with evenly spread slots and `replicas` replicas of each master, of which
    /// `min_replicas` must be connected.
    pub(super) async fn start(replicas: u8, min_replicas: u32) -> Result<Self> {
        let mut peers = Vec::new();
        for number in 1..=(1 + replicas) * u8::try_from(MASTERS)? {
            let host = network::host(&format!("r{number}"), 10 + number, &[Side::Store])?;
            peers.push(Peer::start(host, min_replicas)?);
        }
        let redis = Self { peers, replicas };
        let (masters, followers) = redis.peers.split_at(usize::try_from(MASTERS)?);
        for (i, master) in (0..).zip(masters) {
            let (from, to) = (i * SLOTS / MASTERS, (i + 1) * SLOTS / MASTERS - 1);
            master.order(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"))?;
        }
        for other in &redis.peers[1..] {
            let (address, bus) = (other.host.address, other.server.bus_port());
            let (port, first) = (other.port(), &redis.peers[0]);
            first.order(&format!("CLUSTER MEET {address} {port} {bus}"))?;
        }
        for (master, replica) in masters.iter().cycle().zip(followers) {
            let id = master.tell("CLUSTER MYID")?;
            let follow = format!("CLUSTER REPLICATE {id}");
            let until = Instant::now() + PATIENCE;
            while replica.tell(&follow)? != "+OK" {
                ensure!(Instant::now() < until, "{} finds no master", replica.host.name);
                tokio::time::sleep(LOOK).await;
            }
        }
        let until = Instant::now() + PATIENCE;
        while let Some(complaint) = redis.complaint()? {
            ensure!(Instant::now() < until, "the Cluster does not come about: {complaint}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(redis)
    }

    /// Returns the URL of a store on this cluster.
    pub(super) fn url(&self) -> String {
        let places = self.peers.iter().map(Peer::place);
        format!("redis-cluster://{}", places.collect::<Vec<_>>().join(","))
    }

    /// Returns the members as one server sees them.
    fn view(&self, of: usize) -> Result<Vec<Member>> {
        Ok(view::parse(&self.peers[of].tell("CLUSTER NODES")?))
    }

    /// Returns the numbers of the servers that serve slots, as seen by a running server other than
    /// `without`.
    pub(super) fn masters(&self, without: Option<usize>) -> Result<Vec<usize>> {
        let asked = (0..self.peers.len())
            .find(|number| self.peers[*number].is_running && Some(*number) != without);
        let members = self.view(asked.context("no server runs")?)?;
        let serves = members.iter().filter(|member| member.serves());
        Ok(serves.filter_map(|member| self.number(&member.place)).collect())
    }

    /// Returns the replicas of a master.
    pub(super) fn replicas_of(&self, master: usize) -> Result<Vec<usize>> {
        let members = self.view(master)?;
        let id = self.peers[master].tell("CLUSTER MYID")?;
        let follow = members.iter().filter(|member| member.master.as_ref() == Some(&id));
        Ok(follow.filter_map(|member| self.number(&member.place)).collect())
    }

    fn number(&self, place: &str) -> Option<usize> {
        self.peers.iter().position(|peer| peer.place() == place)
    }

    /// Waits until another server serves the slots of `gone`, as seen by `view_of`.
    pub(super) async fn wait_for_promotion(&self, gone: usize, view_of: usize) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let members = self.view(view_of)?;
            let place = self.peers[gone].place();
            let is_done = members.iter().all(|member| member.place != place || !member.serves())
                && members.iter().filter(|member| member.serves()).count()
                    == usize::try_from(MASTERS)?;
            if is_done {
                return Ok(began.elapsed());
            }
            if began.elapsed() > PATIENCE {
                bail!("no replica takes the place of {}", self.peers[gone].host.name);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns a problem of the cluster, if there is one.
    pub(super) fn complaint(&self) -> Result<Option<String>> {
        for peer in &self.peers {
            let name = &peer.host.name;
            let info = peer.tell("CLUSTER INFO")?;
            let all = format!("cluster_known_nodes:{}", self.peers.len());
            for part in ["cluster_state:ok", "cluster_slots_ok:16384", &all] {
                if !info.lines().any(|line| line.trim() == part) {
                    return Ok(Some(format!("{name} does not say {part}")));
                }
            }
            let replication = peer.tell("INFO replication")?;
            let follows = replication.contains("master_link_status:up");
            if replication.contains("role:slave") && !follows {
                return Ok(Some(format!("{name} does not follow its master")));
            }
            let following = replication.matches("state=online").count();
            if replication.contains("role:master") && following < usize::from(self.replicas) {
                return Ok(Some(format!("{following} of {} follow {name}", self.replicas)));
            }
        }
        Ok(None)
    }
}
