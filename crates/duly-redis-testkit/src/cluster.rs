//! A Redis Cluster as child processes: masters that share the slots, and their replicas.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::server::{Server, free_port, list, tell};

/// Longest wait for the servers to agree.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Slots of a Cluster.
const SLOTS: u32 = 16_384;

/// A Cluster of masters, each with the same number of replicas.
#[derive(Debug)]
pub struct Cluster {
    /// Masters, in the order of their first slots.
    pub masters: Vec<Server>,
    /// Replicas: with `n` masters, those of master `i` are at `i`, `i + n` and so on.
    pub replicas: Vec<Server>,
}

impl Cluster {
    /// Starts a Cluster with evenly spread slots.
    pub fn start(masters: u32, replicas_each: u32) -> Self {
        // Where no replica can take over, a busy machine must not pass for a lost master.
        let node_timeout = if replicas_each == 0 { "15000" } else { "2000" };
        let start = |_| {
            let bus = free_port().to_string();
            Server::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                node_timeout,
                "--cluster-replica-validity-factor",
                "0",
                "--cluster-allow-replica-migration",
                "no",
                "--repl-diskless-sync-delay",
                "0",
            ])
        };
        let cluster = Self {
            masters: (0..masters).map(start).collect(),
            replicas: (0..masters * replicas_each).map(start).collect(),
        };
        for (i, master) in (0..).zip(&cluster.masters) {
            let (from, to) = (i * SLOTS / masters, (i + 1) * SLOTS / masters - 1);
            let given = tell(master.port(), &format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            assert_eq!(given, "+OK");
        }
        let first = cluster.masters[0].port();
        for other in cluster.all().filter(|server| server.port() != first) {
            let (port, bus) = (other.port(), other.bus_port());
            let met = tell(first, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
            assert_eq!(met, "+OK");
        }
        cluster.wait_until("all know each other", |cluster| {
            let all = cluster.all().count();
            let known = format!("cluster_known_nodes:{all}");
            cluster.all().all(|server| tell(server.port(), "CLUSTER INFO").contains(&known))
        });
        for (i, replica) in cluster.replicas.iter().enumerate() {
            let master = &cluster.masters[i % cluster.masters.len()];
            let id = tell(master.port(), "CLUSTER MYID");
            cluster.wait_until("a replica finds its master", |_| {
                tell(replica.port(), &format!("CLUSTER REPLICATE {id}")) == "+OK"
            });
        }
        cluster.wait_until_whole();
        cluster
    }

    /// Returns the URL of a store on this Cluster.
    pub fn url(&self) -> String {
        let masters = self.masters.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        format!("redis-cluster://{}", masters.collect::<Vec<_>>().join(","))
    }

    /// Returns every server: the masters, then the replicas.
    pub fn all(&self) -> impl Iterator<Item = &Server> {
        self.masters.iter().chain(&self.replicas)
    }

    /// Waits until every slot is served, every replica follows its master, and every server has saved that.
    pub fn wait_until_whole(&self) {
        self.wait_until("every slot is served", |cluster| {
            cluster.all().all(|server| {
                let info = tell(server.port(), "CLUSTER INFO");
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
        });
        self.wait_until("every replica follows", |cluster| {
            cluster.replicas.iter().all(|server| {
                tell(server.port(), "INFO replication").contains("master_link_status:up")
            })
        });
        self.wait_until("every server can start again from its files", |cluster| {
            let servers = cluster.all().count();
            cluster.all().all(|server| server.can_start_from_its_files(servers))
        });
    }

    /// Waits until the servers have reached a state by themselves.
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + WAIT_MAX;
        while !holds(self) {
            assert!(Instant::now() < until, "timed out waiting until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Copies the present data of all masters, as snapshots of their disks would.
    pub fn copy_data(&self, to: &Path) {
        for (place, master) in self.masters.iter().enumerate() {
            master.copy_data(&to.join(place.to_string()));
        }
    }

    /// Kills all masters, which have no replicas, and starts them with a copy from [`Self::copy_data`].
    pub fn restore_data(&mut self, from: &Path) {
        self.masters.iter_mut().for_each(Server::kill);
        for (place, master) in self.masters.iter_mut().enumerate() {
            master.restore_data(&from.join(place.to_string()));
            master.start_again();
        }
        self.wait_until_whole();
    }

    /// Removes all keys of all masters.
    pub fn empty(&self) {
        for master in &self.masters {
            assert_eq!(tell(master.port(), "FLUSHALL"), "+OK");
        }
    }
}

/// A slot that moves from one master to another, key by key.
#[derive(Debug)]
pub struct SlotMove<'a> {
    slot: u16,
    /// The master that has the slot.
    pub from: &'a Server,
    /// The master that gets the slot.
    pub to: &'a Server,
}

impl<'a> SlotMove<'a> {
    /// Returns the move of the slot of a key that exists.
    pub fn of(cluster: &'a Cluster, key: &str) -> Self {
        let slot = tell(cluster.masters[0].port(), &format!("CLUSTER KEYSLOT {key}"));
        let slot = slot.strip_prefix(':').and_then(|slot| slot.parse().ok()).expect("a slot");
        let has_keys = |server: &&Server| count(server, slot) > 0;
        let from = cluster.masters.iter().find(has_keys).expect("a master has the slot");
        let to = cluster.masters.iter().find(|server| server.port() != from.port());
        Self { slot, from, to: to.expect("another master") }
    }

    /// Returns all keys of the slot.
    pub fn keys(&self) -> Vec<String> {
        let Self { slot, from, .. } = self;
        list(from.port(), &format!("CLUSTER GETKEYSINSLOT {slot} {}", count(from, *slot)))
    }

    /// Begins the move: both masters know of it.
    pub fn begin(&self) {
        self.set(self.to, &format!("IMPORTING {}", tell(self.from.port(), "CLUSTER MYID")));
        self.set(self.from, &format!("MIGRATING {}", tell(self.to.port(), "CLUSTER MYID")));
    }

    /// Moves one key.
    pub fn take(&self, key: &str) {
        let to = self.to.port();
        let moved = tell(self.from.port(), &format!("MIGRATE 127.0.0.1 {to} {key} 0 5000"));
        assert_eq!(moved, "+OK", "{key}");
    }

    /// Ends the move: the new master has the slot.
    pub fn end(&self) {
        let to = tell(self.to.port(), "CLUSTER MYID");
        for server in [self.to, self.from] {
            self.set(server, &format!("NODE {to}"));
        }
    }

    fn set(&self, server: &Server, state: &str) {
        let slot = self.slot;
        assert_eq!(tell(server.port(), &format!("CLUSTER SETSLOT {slot} {state}")), "+OK");
    }
}

/// Returns the number of keys that a server has in a slot.
fn count(server: &Server, slot: u16) -> u64 {
    let count = tell(server.port(), &format!("CLUSTER COUNTKEYSINSLOT {slot}"));
    count.strip_prefix(':').and_then(|count| count.parse().ok()).expect("a number")
}
