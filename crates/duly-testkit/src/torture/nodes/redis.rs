//! The Redis Cluster: three masters with replicas, each server on its own host.
//!
//! Commands go to the loopback address of a server's host, so they also reach a server that is cut
//! off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use duly_redis_testkit::server::{Server, free_port, tell};

use super::cluster_view::{self, ClusterMember};
use super::network::{self, Host, HostLink};
use super::resp::{self, RedisReply};

/// Longest time until the servers agree.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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
pub(super) struct RedisServer {
    pub(super) host: Host,
    pub(super) server: Server,
}

impl RedisServer {
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
        Ok(Self { host, server })
    }

    /// Sends one command.
    pub(super) fn command(&self, command: &str) -> Result<String> {
        let port = self.server.port();
        let reply = self.host.namespace.enter(|| tell(port, command));
        reply.with_context(|| format!("{}: {command} failed", self.host.name))
    }

    /// Sends one command whose words need not be text.
    pub(super) fn command_bytes(&self, words: &[&[u8]]) -> Result<RedisReply> {
        let port = self.server.port();
        match self.host.namespace.enter(|| resp::send_command(port, words))?? {
            RedisReply::Error(error) => bail!("{} returned {error}", self.host.name),
            reply => Ok(reply),
        }
    }

    /// Sends one command and expects `OK`.
    pub(super) fn command_ok(&self, command: &str) -> Result<()> {
        let reply = self.command(command)?;
        ensure!(reply == "+OK", "{} returned {reply} to {command}", self.host.name);
        Ok(())
    }

    /// Starts the server again with its data.
    pub(super) fn start_again(&mut self) -> Result<()> {
        let Self { host, server } = self;
        Ok(host.namespace.enter(|| server.start_again())?)
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host.address, self.server.port())
    }
}

/// All servers of the cluster.
#[derive(Debug)]
pub(super) struct RedisCluster {
    pub(super) peers: Vec<RedisServer>,
    /// Replicas of each master.
    replicas: u8,
}

impl RedisCluster {
    /// Starts a cluster with evenly spread slots and `replicas` replicas of each master, of which
    /// `min_replicas` must be connected.
    pub(super) async fn start(replicas: u8, min_replicas: u32) -> Result<Self> {
        let mut peers = Vec::new();
        for number in 1..=(1 + replicas) * u8::try_from(MASTERS)? {
            let host =
                network::create_host(&format!("r{number}"), 10 + number, &[HostLink::Store])?;
            peers.push(RedisServer::start(host, min_replicas)?);
        }
        let redis = Self { peers, replicas };
        let (masters, followers) = redis.peers.split_at(usize::try_from(MASTERS)?);
        for (i, master) in (0..).zip(masters) {
            let (from, to) = (i * SLOTS / MASTERS, (i + 1) * SLOTS / MASTERS - 1);
            master.command_ok(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"))?;
        }
        for other in &redis.peers[1..] {
            let (address, bus) = (other.host.address, other.server.bus_port());
            let (port, first) = (other.server.port(), &redis.peers[0]);
            first.command_ok(&format!("CLUSTER MEET {address} {port} {bus}"))?;
        }
        for (master, replica) in masters.iter().cycle().zip(followers) {
            let id = master.command("CLUSTER MYID")?;
            let follow = format!("CLUSTER REPLICATE {id}");
            let until = Instant::now() + AGREEMENT_TIMEOUT;
            while replica.command(&follow)? != "+OK" {
                ensure!(Instant::now() < until, "{} does not find its master", replica.host.name);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        let until = Instant::now() + AGREEMENT_TIMEOUT;
        while let Some(complaint) = redis.complaint()? {
            ensure!(Instant::now() < until, "the Cluster does not become healthy: {complaint}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(redis)
    }

    /// Returns the URL of a store on this cluster.
    pub(super) fn url(&self) -> String {
        let places = self.peers.iter().map(RedisServer::address);
        format!("redis-cluster://{}", places.collect::<Vec<_>>().join(","))
    }

    /// Returns the members as one server sees them.
    fn view(&self, of: usize) -> Result<Vec<ClusterMember>> {
        Ok(cluster_view::parse(&self.peers[of].command("CLUSTER NODES")?))
    }

    /// Returns the indices of the servers that serve slots, as seen by a running server.
    pub(super) fn masters(&self) -> Result<Vec<usize>> {
        let running = self.peers.iter().position(|peer| peer.server.pid().is_some());
        let members = self.view(running.context("no server runs")?)?;
        let serving = members.iter().filter(|member| member.is_serving());
        Ok(serving.filter_map(|member| self.index_of(&member.address)).collect())
    }

    /// Returns the replicas of a master.
    pub(super) fn replicas_of(&self, master: usize) -> Result<Vec<usize>> {
        let members = self.view(master)?;
        let id = self.peers[master].command("CLUSTER MYID")?;
        let follow = members.iter().filter(|member| member.master.as_ref() == Some(&id));
        Ok(follow.filter_map(|member| self.index_of(&member.address)).collect())
    }

    fn index_of(&self, address: &str) -> Option<usize> {
        self.peers.iter().position(|peer| peer.address() == address)
    }

    /// Waits until another server serves the slots of `gone`, as seen by `view_of`.
    pub(super) async fn wait_for_promotion(&self, gone: usize, view_of: usize) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let members = self.view(view_of)?;
            let address = self.peers[gone].address();
            let is_done =
                members.iter().all(|member| member.address != address || !member.is_serving())
                    && members.iter().filter(|member| member.is_serving()).count()
                        == usize::try_from(MASTERS)?;
            if is_done {
                return Ok(began.elapsed());
            }
            if began.elapsed() > AGREEMENT_TIMEOUT {
                bail!("no replica takes the place of {}", self.peers[gone].host.name);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns a problem of the cluster, if there is one.
    pub(super) fn complaint(&self) -> Result<Option<String>> {
        for peer in &self.peers {
            let name = &peer.host.name;
            let info = peer.command("CLUSTER INFO")?;
            let all = format!("cluster_known_nodes:{}", self.peers.len());
            for part in ["cluster_state:ok", "cluster_slots_ok:16384", &all] {
                if !info.lines().any(|line| line.trim() == part) {
                    return Ok(Some(format!("{name} does not report {part}")));
                }
            }
            let replication = peer.command("INFO replication")?;
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
