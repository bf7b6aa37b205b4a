//! What an operator can set.

use std::{fmt, path::PathBuf, time::Duration};

use duly_store::namespaces::NAMESPACES_MAX;

use crate::checks::Check;

/// What a node does that finds an empty database. It cannot tell a new database from a lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// It creates a deployment.
    #[default]
    WhenEmpty,
    /// It refuses to start.
    Never,
}

/// What follows when a shard comes back with data that is older than what was in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRollback {
    /// The nodes report it and go on.
    #[default]
    Warn,
    /// The shard takes no calls until an operator confirms it.
    Pause,
}

/// How to reach Redis, and what to ask of it.
#[derive(Clone)]
pub struct Options {
    /// `redis://`, `rediss://` (TLS) for one server, `redis-cluster://`, `rediss-cluster://` for a
    /// Cluster; with `user:password@` if need be, several `host:port` with commas between.
    pub url: String,
    /// The password, where it is not in the URL.
    pub password: Option<String>,
    /// PEM file of the authorities that servers are trusted by, in place of those of the system.
    pub tls_ca: Option<PathBuf>,
    /// Name of the deployment: a new one gets it, one of another name is refused. Without one any is
    /// joined.
    pub deployment: Option<String>,
    /// Shards of a new deployment, 1 to 256; one that is there keeps its own.
    pub shards: u16,
    /// Whether an empty database gets a new deployment.
    pub create: Create,
    /// What follows when a shard comes back with older data.
    pub on_rollback: OnRollback,
    /// Replicas that must have a change before it is answered; 0 asks for none.
    pub min_replicas: u32,
    /// Whether a change is answered only when it is on the disks of the master and of so many
    /// replicas (`WAITAOF`, Redis 7.2 or newer); otherwise it is in their memories (`WAIT`).
    pub on_disk: bool,
    /// How long to wait for them.
    pub replication_timeout: Duration,
    /// Connections to each server. A wait for replicas holds a connection up, so there are several,
    /// and one more for what waits for none.
    pub connections: usize,
    /// Longest wait for a connection.
    pub connect_within: Duration,
    /// Longest wait for an answer.
    pub answer_within: Duration,
    /// Namespaces that there are at most; one more is refused.
    pub namespaces_max: u64,
    /// Settings of the server that would lose timers silently, and are allowed by name.
    pub allow: Vec<Check>,
    /// Text of the clock that scripts use instead of the server's own, for tests.
    #[doc(hidden)]
    pub clock: Option<String>,
}

impl Options {
    /// Options that ask for nothing special.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            tls_ca: None,
            deployment: None,
            shards: 64,
            create: Create::default(),
            on_rollback: OnRollback::default(),
            min_replicas: 0,
            on_disk: false,
            replication_timeout: Duration::from_secs(1),
            connections: 4,
            connect_within: Duration::from_secs(5),
            answer_within: Duration::from_secs(10),
            namespaces_max: NAMESPACES_MAX,
            allow: Vec::new(),
            clock: None,
        }
    }
}

/// Without the URL and the password: both may be secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("shards", &self.shards).finish_non_exhaustive()
    }
}
