//! Options that an operator can set.

use std::{fmt, path::PathBuf, time::Duration};

use duly_store::namespaces::NAMESPACES_MAX;

/// Action of a node that finds an empty database. It cannot tell a new database from a lost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// The node creates a deployment.
    #[default]
    WhenEmpty,
    /// The node refuses to start.
    Never,
}

/// Action when a shard comes back with data older than it had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnRollback {
    /// The nodes report it and continue.
    #[default]
    Warn,
    /// The shard takes no calls until an operator confirms it.
    Pause,
}

duly_core::named_enum! {
    /// A server setting that would lose timers silently, unless it is allowed by name.
    pub enum Check {
        /// `appendonly no`: a crash or a restart loses everything since the last snapshot.
        NoAppendOnly = "no_append_only",
        /// A `maxmemory-policy` that evicts: at the limit, timers disappear without an error.
        Eviction = "eviction",
        /// `appendfsync no`: power loss loses about half a minute of changes.
        NoFsync = "no_fsync",
        /// `CONFIG GET` is refused: the settings are unknown.
        Unknown = "unknown_settings",
        /// `min_replicas` is 0 on a Cluster: a failover loses acknowledged changes.
        NoReplicas = "no_replicas",
    }
}

/// Options of the connection to Redis, and requirements on it.
#[derive(Clone)]
pub struct Options {
    /// `redis://`, `rediss://` (TLS) for one server, `redis-cluster://`, `rediss-cluster://` for a
    /// Cluster; with `user:password@` if needed, and several `host:port` separated by commas.
    pub url: String,
    /// Location of the servers for people, without secrets.
    pub location: String,
    /// Password, if it is not in the URL.
    pub password: Option<String>,
    /// PEM file of the CA certificates to trust instead of those of the system.
    pub tls_ca: Option<PathBuf>,
    /// Name of the deployment. A new deployment gets it; an existing one with another name is refused.
    /// Without a name, any deployment is joined.
    pub deployment: Option<String>,
    /// Number of shards of a new deployment, 1 to 256. An existing deployment keeps its number.
    pub shards: u16,
    /// Action for an empty database.
    pub create: Create,
    /// Action when a shard comes back with older data.
    pub on_rollback: OnRollback,
    /// Replicas that must have a change before the call returns; 0: none.
    pub min_replicas: u32,
    /// `true`: a call returns only when its change is on the disks of the master and of `min_replicas`
    /// replicas (`WAITAOF`, Redis 7.2 or newer). `false`: their memories suffice (`WAIT`).
    pub on_disk: bool,
    /// Longest wait for the replicas and disks.
    pub replication_timeout: Duration,
    /// Connections to each server. A wait for replicas blocks a connection, so there are several, and
    /// one more for requests that do not wait.
    pub connections: usize,
    /// Longest wait for a connection.
    pub connect_within: Duration,
    /// Longest wait for a reply.
    pub answer_within: Duration,
    /// Time without a reply after which a server is silent: calls end, and are not sent to it until it replies.
    pub silence_timeout: Duration,
    /// Most namespaces; one more is refused.
    pub namespaces_max: u64,
    /// Unsafe server settings that are allowed, by name; each would otherwise lose timers silently.
    pub allow: Vec<Check>,
    /// Text of the clock that scripts use instead of the server's clock, for tests.
    #[doc(hidden)]
    pub clock: Option<String>,
}

impl Options {
    /// Returns the default options for a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            location: "Redis".to_owned(),
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
            silence_timeout: Duration::from_millis(750),
            namespaces_max: NAMESPACES_MAX,
            allow: Vec::new(),
            clock: None,
        }
    }
}

/// Leaves out the URL and the password: both may be secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("shards", &self.shards).finish_non_exhaustive()
    }
}
