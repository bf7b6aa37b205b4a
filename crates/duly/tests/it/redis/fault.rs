//! The faults of a master of a Cluster.

use std::path::Path;

use duly_redis_testkit::{
    cluster::{Cluster, SlotMove},
    server::{self, list, tell},
};
use rustix::process::{Pid, Signal, kill_process};

/// The silence time-out of production.
pub(crate) const SILENCE: [(&str, &str); 1] = [("DULY_STORE__SILENCE_TIMEOUT", "750ms")];

/// A fault of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Empty,
    Down,
    Hung,
    RolledBack,
    HalfMoved,
    /// Its only replica is lost, with the settings that the documentation recommends.
    NoReplica,
    /// It replies to probes and reads, and to no change.
    Paused,
    /// It refuses the scripts of the user.
    Denied,
    /// It runs a script without an end.
    Busy,
    /// The slot of one of its shards has no owner.
    NoOwner,
}

impl Fault {
    /// Gives a master the fault. `before` has its data from before the last changes.
    pub(crate) fn make(self, cluster: &mut Cluster, place: usize, before: &Path) {
        let master = &mut cluster.masters[place];
        match self {
            Self::Empty => {
                master.kill();
                master.lose_data();
                master.start_again();
            }
            Self::Down => master.kill(),
            Self::Hung => signal(master, Signal::STOP),
            Self::NoReplica => cluster.replicas[place].kill(),
            Self::Paused => {
                assert_eq!(tell(master.port(), "CLIENT PAUSE 3600000 WRITE"), "+OK");
            }
            Self::RolledBack => {
                master.kill();
                master.restore_data(before);
                master.start_again();
            }
            Self::Denied => {
                assert_eq!(tell(master.port(), "ACL SETUSER default -@scripting"), "+OK");
            }
            Self::Busy => {
                let port = master.port();
                assert_eq!(tell(port, "CONFIG SET busy-reply-threshold 50"), "+OK");
                std::thread::spawn(move || tell(port, "EVAL \"while true do end\" 0"));
            }
            Self::NoOwner => {
                let keys = list(master.port(), "KEYS duly:*:marker");
                let key = keys.first().expect("a shard");
                let slot = tell(master.port(), &format!("CLUSTER KEYSLOT {key}"));
                let remove = format!("CLUSTER DELSLOTS {}", slot.trim_start_matches(':'));
                cluster.all().for_each(|server| assert_eq!(tell(server.port(), &remove), "+OK"));
            }
            Self::HalfMoved => {
                let keys = list(master.port(), "KEYS duly:*:marker");
                let moving = SlotMove::of(cluster, keys.first().expect("a shard"));
                moving.begin();
                // A tool moves the oldest key of a slot last, so an interrupted move leaves it behind.
                let is_text = |key: &String| key.bytes().all(|byte| byte.is_ascii_graphic());
                let others = moving.keys().into_iter().filter(is_text);
                others.filter(|key| !key.ends_with(":marker")).for_each(|key| moving.take(&key));
            }
        }
    }

    /// Returns the reason that a node gives for the missing shards.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Empty => "no marker, so the data is lost",
            Self::Down | Self::Hung => "does not reply",
            Self::RolledBack => "older data than before, so the shard is held",
            Self::HalfMoved => "redis-cli --cluster fix",
            Self::NoReplica => "start the replicas of the master",
            Self::Paused => "CLIENT UNPAUSE",
            Self::Denied => "it refuses the commands of the user",
            Self::Busy => "it refuses or postpones every call",
            Self::NoOwner => "its slot has no master",
        }
    }

    /// Returns the reason of the gauge of missing shards.
    pub(crate) fn gauge(self) -> &'static str {
        match self {
            Self::Empty => "missing",
            Self::Down | Self::Hung | Self::Paused => "silent",
            Self::RolledBack => "rolled_back",
            Self::HalfMoved => "open_slot",
            Self::NoReplica => "no_replicas",
            Self::Denied => "denied",
            Self::Busy => "not_serving",
            Self::NoOwner => "no_owner",
        }
    }

    /// Returns `true` if the shards of the master can be read.
    pub(crate) fn has_reads(self) -> bool {
        matches!(self, Self::NoReplica | Self::Paused)
    }

    /// Returns the number of replicas of each master that the fault needs.
    pub(crate) fn replicas(self) -> u32 {
        u32::from(self == Self::NoReplica)
    }

    /// Returns the settings of a node, and gives the servers theirs.
    pub(crate) fn settings(self, cluster: &Cluster) -> Vec<(&'static str, &'static str)> {
        let mut settings = vec![SILENCE[0], ("DULY_STORE__ON_ROLLBACK", "pause")];
        if self == Self::NoReplica {
            for server in cluster.all() {
                let set = "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 5";
                assert_eq!(tell(server.port(), set), "+OK");
            }
            settings.push(("DULY_STORE__MIN_REPLICAS", "1"));
        }
        settings
    }
}

pub(crate) fn signal(server: &server::Server, signal: Signal) {
    let pid = server.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    kill_process(pid.expect("it runs"), signal).expect("it is there");
}
