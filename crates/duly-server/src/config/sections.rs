//! Every key of the configuration, once: its field is its name, the type its check and default, the
//! doc comment its documentation.
//!
//! Numbers have their lower bound, upper bound and default in the type. Optional values and lists are
//! empty by default. Attributes that a field adds to its schema:
//!
//! * `unit`: the unit of an integer.
//! * `absent`: the word for "no value" where it is not an empty text.
//! * `store`: the kind of store that alone uses the key, `embedded` or `shared`.

use std::path::Path;

use duly_api::namespace::PER_SECOND_MAX;
use duly_store_embedded::{OnClockJump, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use duly_store_redis::{Create, OnRollback, SHARDS_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    numbers::{Bytes, GIB, Integer, KIB, MIB, TIB, TimeSpan},
    texts::{
        AbsolutePath, DataDir, DeploymentName, Host, ListenAddress, ListenAddresses, LogFilter,
        Namespaces, Network, PortRange, ProxyUrl, Risk, WebOrigin,
    },
    urls::{CollectorUrl, StoreUrl},
};
use crate::telemetry::logging;
pub use crate::{audit::AuditLevel, serve::TlsVersion};

pub use access::{Audit, Auth, AuthMode, Jwt, JwtAlgorithm, Tls};

mod access;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;

/// `[server]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Addresses to listen on; port 0 takes a free one. A Unix socket is open to the user and the
    /// group of the server. Addresses that other machines reach need a certificate (`[tls]`) and
    /// `auth.mode`, or `auth.external`.
    pub listen: ListenAddresses,
    /// Address of its own for `/healthz`, `/readyz` and `/metrics`, which callers of
    /// `server.listen` cannot keep busy; port 0 takes a free one. An address that other machines
    /// reach needs what `server.listen` needs; metrics then need a key.
    pub admin_listen: Option<ListenAddress>,
    /// Further names that the `Host` of a request may have, without port. `localhost`, loopback
    /// addresses and the listen address are always allowed. If it is set, webhooks do not go to
    /// loopback addresses.
    pub allowed_hosts: Vec<Host>,
    /// Web origins that may call, as `https://name:port`; CORS tells browsers so. The server's own
    /// origin is always allowed, every other origin is refused.
    pub allowed_origins: Vec<WebOrigin>,
    /// Networks of proxies whose `X-Forwarded-For` is believed: the address of a caller is the last one
    /// there that is none of them. Without them it is that of the connection. With one, callers of a
    /// Unix socket are proxies too. Networks of keys and the audit log use that address.
    pub trusted_proxies: Vec<Network>,
    /// Largest body of a request. A batch is at most 32 MiB even if this is more.
    pub body_bytes_max: Bytes<KIB, { 256 * MIB }, { 32 * MIB }>,
    /// Memory for all requests and responses together: of a request until its call is done, of a
    /// response from before its timers are read until it has been written. Past it requests are
    /// refused with 429, and pages of lists are shorter; the last quarter is kept for bodies up to
    /// 64 KiB, the last sixteenth for those up to 4 KiB. `auto` is an eighth of the machine's
    /// memory, or of the limit of the control group if that is less; at least 32 MiB and at most
    /// 256 MiB.
    #[schemars(extend("absent" = "auto"))]
    pub request_memory_max: Option<Bytes<MIB, TIB>>,
    /// Connections at once. When all are in use, a new one gets the place of the oldest that has not
    /// shown a valid key, or else of one without a call under way; if every connection has a call, it
    /// gets 503 and is closed. Each can hold 64 KiB for the head of a request: if an eighth of the memory
    /// that the process may take has no space for 20,000 heads (below 10 GiB), the default is the
    /// number that fits (1,024 for 512 MiB). Each connection needs an open file (`ulimit -n`). The
    /// store and attempts get theirs first: if the limit leaves fewer, the server takes fewer
    /// connections, at least a quarter of the limit, and logs it at the start. Lease calls that wait
    /// leave a quarter free (`delivery.pull_waiters_max`).
    #[schemars(extend("unit" = "connections"))]
    pub connections_max: Integer<1, 1_000_000, 20_000>,
    /// Connections from one address at once, of IPv6 from one network of 64 bits; past it one of them
    /// makes way, as for `server.connections_max`. It does not hold for `server.trusted_proxies` and Unix
    /// sockets. `auto` is seven eighths of `server.connections_max`.
    #[schemars(extend("unit" = "connections", "absent" = "auto"))]
    pub connections_per_address_max: Option<Integer<1, 1_000_000>>,
    /// Time for a call, with the body of its request and without the `wait` of a lease call; of a
    /// stream of lines, time until more of it must come. A connection whose caller reads nothing
    /// of its response for this time is closed.
    pub request_timeout: TimeSpan<100, { 10 * MINUTE }, { 30 * SECOND }>,
    /// Time for the head of the next request on an HTTP/1.1 connection; an idle connection, and
    /// one that never sends anything, is closed after it. An HTTP/2 connection without a call under
    /// way is closed after it as well (`GOAWAY`), and gets a `PING` at this interval.
    pub header_timeout: TimeSpan<SECOND, { 10 * MINUTE }, MINUTE>,
}

/// `[store]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Data directory; created if it does not exist. With `store.url` there is none.
    #[schemars(extend("store" = "embedded"))]
    pub data: DataDir,
    /// Directory below which `POST /v1/store/backup` may make backups, by its absolute path;
    /// without one, it makes none. On the file system of `store.data` most of a backup is hard
    /// links.
    #[schemars(extend("store" = "embedded"))]
    pub backup_dir: Option<AbsolutePath>,
    /// Backups below `store.backup_dir`; a further one is refused until one is removed there. Each
    /// keeps the disk space of files that the store has deleted since.
    #[schemars(extend("store" = "embedded", "unit" = "backups"))]
    pub backups_max: Integer<1, 10_000, 30>,
    /// Time from the beginning of a backup to that of the next; an earlier one is refused.
    #[schemars(extend("store" = "embedded"))]
    pub backup_interval: TimeSpan<0, DAY, MINUTE>,
    /// Time between two backups that the server makes by itself, below `store.backup_dir` with the
    /// name `scheduled-` and the time. The first is made at the start, if the newest is older.
    #[schemars(extend("store" = "embedded", "absent" = "off"))]
    pub backup_every: Option<TimeSpan<{ 10 * MINUTE }, { 365 * DAY }>>,
    /// Backups of `store.backup_every` that are kept; after a further one was made, the oldest is
    /// removed. Backups with other names are never removed.
    #[schemars(extend("store" = "embedded", "unit" = "backups"))]
    pub backup_keep: Integer<1, 10_000, 7>,
    /// Bytes of a journal segment, a multiple of 4 KiB.
    #[schemars(extend("store" = "embedded"))]
    pub segment_bytes: Bytes<SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX, { 64 * MIB }>,
    /// Growth of the journal after which a checkpoint is taken, or the size of the last checkpoint
    /// (24 bytes for each timer) if that is more. Less makes a start after a crash faster and
    /// writes more.
    #[schemars(extend("store" = "embedded"))]
    pub checkpoint_bytes: Bytes<{ 64 * KIB }, { 64 * GIB }, { 128 * MIB }>,
    /// Size of the newest part of the journal, which is not rewritten: timers that are cancelled or
    /// fire while they are in it are written only once.
    #[schemars(extend("store" = "embedded"))]
    pub young_bytes: Bytes<{ 64 * KIB }, { 64 * GIB }, { 512 * MIB }>,
    /// Memory of the index (about 30 bytes for each pending timer and each tombstone, 60 for a dead
    /// letter); past it new timers are refused. `auto` is 60 % of the machine's memory, or of the
    /// limit of the control group if that is less.
    #[schemars(extend("store" = "embedded", "absent" = "auto"))]
    pub index_memory_max: Option<Bytes<MIB, TIB>>,
    /// Reaction when the machine's wall clock has stepped more than a minute ahead since the start,
    /// which can make many timers due at once: `fire` delivers them, `hold` continues by the time
    /// before the step and is not ready, until the clock is back or the server is started again,
    /// which takes the clock as right.
    #[serde(with = "OnClockJumpWords")]
    #[schemars(extend("store" = "embedded"))]
    pub on_clock_jump: OnClockJump,
    /// Free space on the disk below which new timers are refused; so is a backup that would leave
    /// less on the disk that it goes to. `auto` is 2 GiB, or a fifth of a disk of less than 10 GiB.
    #[schemars(extend("store" = "embedded", "absent" = "auto"))]
    pub min_free_bytes: Option<Bytes<0, TIB>>,
    /// Free share of the disk below which new timers are refused; so is a backup that would leave
    /// less on the disk that it goes to.
    #[schemars(extend("store" = "embedded", "unit" = "percent"))]
    pub min_free_percent: Integer<0, 90, 5>,
    /// Address of the store that several nodes share, on Redis or Valkey 7.0 or newer:
    /// `redis://host:port` for one server, `redis-cluster://host:port,host:port` for a Cluster, of
    /// which some servers are enough; `rediss` in their places is TLS. A user goes in front as
    /// `user@`; the password into `store.password_file`. Empty: the embedded store in `store.data`.
    /// With a URL, none of the keys from `store.data` to `store.min_free_percent` is used.
    pub url: Option<StoreUrl>,
    /// File with the password for `store.url`, one line. Read at the start; never shown.
    #[schemars(extend("store" = "shared"))]
    pub password_file: Option<AbsolutePath>,
    /// PEM file of the certificate authorities that the servers of `store.url` are trusted by, in
    /// place of those of the system. Read at the start.
    #[schemars(extend("store" = "shared"))]
    pub ca_file: Option<AbsolutePath>,
    /// Name of the deployment behind `store.url`: a new deployment gets it, and one that has
    /// another name is refused, so that no node joins the wrong one. Without a name a new
    /// deployment gets a random one, and any deployment is joined.
    #[schemars(extend("store" = "shared"))]
    pub deployment: Option<DeploymentName>,
    /// Shards of a new deployment behind `store.url`; an existing one keeps its number. All timers
    /// of a shard are on one master, so there should be several times as many shards as there will
    /// ever be masters.
    #[schemars(extend("store" = "shared", "unit" = "shards"))]
    pub shards: Integer<1, { SHARDS_MAX as u64 }, 64>,
    /// Reaction of a node that finds an empty database behind `store.url`: `when_empty` creates a
    /// deployment, `never` refuses to start. A node cannot tell a new database from a lost one, so
    /// set `never` after the first start.
    #[serde(with = "CreateWords")]
    #[schemars(extend("store" = "shared"))]
    pub create: Create,
    /// Reaction when a shard behind `store.url` comes back with data that is more than 5 s older
    /// than its last state, as after a restart from an old copy: `warn` reports it and continues,
    /// `pause` makes calls for the shard `unavailable` until `duly store repair` confirms it. A
    /// rollback while no node runs cannot be noticed.
    #[serde(with = "OnRollbackWords")]
    #[schemars(extend("store" = "shared"))]
    pub on_rollback: OnRollback,
    /// Replicas of a master of `store.url` that must have a change before it is acknowledged
    /// (`WAIT`). With 0 a failover loses acknowledged changes that had not reached a replica yet, so
    /// a Cluster takes at least 1 unless `store.allow` names `no_replicas`. A node waits at its
    /// start while all masters have fewer replicas.
    #[schemars(extend("store" = "shared", "unit" = "replicas"))]
    pub min_replicas: Integer<0, 16, 0>,
    /// `true`: a change is acknowledged only when it is on the disks of its master and of
    /// `store.min_replicas` replicas (`WAITAOF`, Redis or Valkey 7.2 or newer), and not in their
    /// memories alone.
    #[schemars(extend("store" = "shared"))]
    pub on_disk: bool,
    /// Time for what `store.min_replicas` and `store.on_disk` ask for. If the replicas do not
    /// confirm within it, the call returns `aborted`: the change was made but may be lost in a
    /// failover.
    #[schemars(extend("store" = "shared"))]
    pub replication_timeout: TimeSpan<10, { 4 * SECOND }, SECOND>,
    /// Time without a reply after which a server of `store.url` is silent: a call that waits for it
    /// ends, with `aborted` if the server may have executed it, and later calls for its shards are
    /// `unavailable` at once, until it replies again. The other servers continue. Raise it for
    /// servers that stop for longer now and then, such as those on slow disks.
    #[schemars(extend("store" = "shared"))]
    pub silence_timeout: TimeSpan<100, { 10 * SECOND }, 750>,
    /// Connections to each server of `store.url`. A wait for replicas blocks one.
    #[schemars(extend("store" = "shared", "unit" = "connections"))]
    pub connections: Integer<1, 64, 4>,
    /// Settings of the servers of `store.url` that lose timers silently, and with which the server
    /// does not start unless they are named here: `no_append_only` (`appendonly no`), `eviction` (a
    /// `maxmemory-policy` other than `noeviction` with a `maxmemory`), `no_fsync` (`appendfsync
    /// no`), `unknown_settings` (`CONFIG GET` is refused), `no_replicas` (`store.min_replicas` is 0
    /// on a Cluster).
    #[schemars(extend("store" = "shared"))]
    pub allow: Vec<Risk>,
}

impl Store {
    /// Returns the data directory; `None` for a store that keeps nothing on this machine.
    pub fn data_dir(&self) -> Option<&Path> {
        self.url.is_none().then_some(&*self.data)
    }
}

/// Words for [`OnClockJump`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "OnClockJump", rename_all = "snake_case")]
enum OnClockJumpWords {
    Fire,
    Hold,
}

/// Words for [`Create`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Create", rename_all = "snake_case")]
enum CreateWords {
    WhenEmpty,
    Never,
}

/// Words for [`OnRollback`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "OnRollback", rename_all = "snake_case")]
enum OnRollbackWords {
    Warn,
    Pause,
}

/// `[delivery]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Delivery {
    /// Push attempts under way at once, over all lanes.
    #[schemars(extend("unit" = "attempts"))]
    pub workers_max: Integer<1, 100_000, 1_024>,
    /// Memory for payloads and headers of push attempts under way. When it is full no attempt
    /// begins; one payload may go past it, and with `store.url` one for each shard. `auto` is an
    /// eighth of the machine's memory, or of the limit of the control group if that is less; at
    /// least 32 MiB and at most 256 MiB.
    #[schemars(extend("absent" = "auto"))]
    pub memory_max: Option<Bytes<MIB, TIB>>,
    /// Lease calls that wait at once, over all namespaces; at most three quarters of
    /// `server.connections_max`, as each may hold a connection. The default is lowered to that.
    #[schemars(extend("unit" = "calls"))]
    pub pull_waiters_max: Integer<1, 1_000_000, 10_000>,
    /// Permission for webhooks to loopback addresses; `auto`: while other machines cannot reach
    /// the server and `server.allowed_hosts` is empty. With `server.allowed_hosts` set, which is for
    /// a proxy in front, `always` is refused: name single addresses in `delivery.allow_networks` if
    /// receivers are on this machine. The server's own addresses are never a target.
    pub allow_loopback: AllowLoopback,
    /// Networks that webhooks may go to although they are private, link-local or otherwise not
    /// public: `10.1.0.0/16`.
    pub allow_networks: Vec<Network>,
}

/// Permission for webhooks to loopback addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllowLoopback {
    /// Given while the server itself listens on loopback addresses and Unix sockets only.
    #[default]
    Auto,
    /// Given.
    Always,
    /// Not given.
    Never,
}

/// `[webhook]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// Time to make a connection to a receiver: name look-up, TCP, proxy and TLS together. An
    /// attempt that ends here was not sent.
    pub connect_timeout: TimeSpan<100, MINUTE, { 10 * SECOND }>,
    /// Time from sending a request to the head of its response. The destination's `timeout` is for
    /// the whole attempt and counts as well, so the default adds nothing to it.
    pub header_timeout: TimeSpan<100, { 10 * MINUTE }, { 10 * MINUTE }>,
    /// Time for the body of a response whose status is known. The status counts in any case; a
    /// slower body costs its connection.
    pub body_timeout: TimeSpan<1, MINUTE, 500>,
    /// Bytes read of one response, head and body together; a longer one costs its connection, over
    /// HTTP/2 its stream.
    pub response_bytes_max: Bytes<{ 8 * KIB }, { 16 * MIB }, { 64 * KIB }>,
    /// Time that an idle connection is kept for the next delivery, unless the receiver says less in
    /// `Keep-Alive`.
    pub idle_timeout: TimeSpan<100, { 10 * MINUTE }, MINUTE>,
    /// Age from which a connection gets no further delivery. The next one looks the name of the receiver
    /// up again, so a changed address takes effect within this time.
    pub connection_age_max: TimeSpan<SECOND, { 24 * 60 * MINUTE }, { 2 * MINUTE }>,
    /// Idle connections kept for one scheme, host and port.
    #[schemars(extend("unit" = "connections"))]
    pub idle_per_origin_max: Integer<0, 100_000, 256>,
    /// Idle connections kept in all; past it the one that was idle longest is closed. Open
    /// connections are at most these and one for each attempt under way (`delivery.workers_max`).
    #[schemars(extend("unit" = "connections"))]
    pub idle_max: Integer<0, 100_000, 1_024>,
    /// Ports that receivers may have: `443`, `8000-8999`. Empty: every port.
    pub allow_ports: Vec<PortRange>,
    /// PEM file of certificate authorities to trust besides those of the system. Read at the start.
    pub ca_file: Option<AbsolutePath>,
    /// PEM file of the certificate that is shown to receivers that ask for one, followed by those that
    /// lead to its authority. Goes with `webhook.client_key_file` and
    /// `webhook.client_certificate_namespaces`.
    pub client_certificate_file: Option<AbsolutePath>,
    /// PEM file of the private key of `webhook.client_certificate_file`.
    pub client_key_file: Option<AbsolutePath>,
    /// Namespaces whose deliveries show the certificate: names, beginnings of names with `*`, or `*`.
    /// Who may schedule in one of them chooses the receiver and the body, so name those of callers who
    /// may speak for the owner of the certificate.
    pub client_certificate_namespaces: Vec<Namespaces>,
    /// HTTP proxy that all webhooks go through, by `CONNECT` for `http://` receivers as well. Its
    /// own address may be any. Variables such as `HTTP_PROXY` are not read.
    pub proxy: Option<ProxyUrl>,
    /// File with `user:password` for the proxy. Read at the start; never shown.
    pub proxy_credentials_file: Option<AbsolutePath>,
    /// Part that looks up the addresses of receivers' names. `false`: this server looks them up,
    /// checks them, and gives the proxy the address, so the address rules hold. `true`: the proxy
    /// gets the name and has to keep receivers out of the inner network itself; only hosts written
    /// as addresses are checked here.
    pub proxy_resolves: bool,
}

/// `[defaults]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// `true`: the first schedule into a namespace creates it.
    pub implicit_namespaces: bool,
    /// `limits.namespace.max_pending` of a namespace that does not set it; no limit without it.
    #[schemars(extend("unit" = "timers", "absent" = "unlimited"))]
    pub max_pending: Option<Integer<1, 1_000_000_000_000>>,
    /// `limits.namespace.max_dead` of a namespace that does not set it.
    #[schemars(extend("unit" = "dead letters"))]
    pub max_dead: Integer<1, 1_000_000_000_000, 1_000_000>,
    /// `limits.namespace.schedule_per_second` of a namespace that does not set it; no limit without it.
    #[schemars(extend("unit" = "a second", "absent" = "unlimited"))]
    pub schedule_per_second: Option<Integer<1, { PER_SECOND_MAX as u64 }>>,
    /// `limits.namespace.deliver_per_second` of a namespace that does not set it; no limit without it.
    #[schemars(extend("unit" = "a second", "absent" = "unlimited"))]
    pub deliver_per_second: Option<Integer<1, { PER_SECOND_MAX as u64 }>>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            implicit_namespaces: true,
            max_pending: None,
            max_dead: Integer::default(),
            schedule_per_second: None,
            deliver_per_second: None,
        }
    }
}

/// `[limits]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Namespaces in all; one more is refused. Each takes memory, up to 40 KiB with the longest
    /// settings. Nodes that share a store should have the same number.
    #[schemars(extend("unit" = "namespaces"))]
    pub namespaces_max: Integer<1, 10_000_000, 100_000>,
    /// Namespaces that a first schedule creates, in a second and on this node, and ten times as
    /// many at once; more are refused. Those that `PUT` creates do not count.
    #[schemars(extend("unit" = "namespaces"))]
    pub implicit_namespaces_per_second: Integer<1, 1_000_000, 20>,
}

/// `[log]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Lines that are logged: a level, or a filter such as `info,duly_node=debug`.
    pub level: LogFilter,
    /// Format of log lines.
    pub format: logging::Format,
}

/// `[tracing]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tracing {
    /// Address of an OpenTelemetry collector (OTLP over HTTP) that gets the spans of timers, as
    /// `http://127.0.0.1:4318`. A URL without a path gets `/v1/traces`. Without a collector no spans
    /// are created, and the trace context of a schedule call is passed on unchanged. Variables such
    /// as `HTTP_PROXY` are not read.
    pub otlp_endpoint: Option<CollectorUrl>,
    /// Share of the schedule calls without a trace context that are traced. A call with one is traced
    /// if its caller has sampled it.
    #[schemars(extend("unit" = "percent"))]
    pub sample_percent: Integer<0, 100, 0>,
}

/// `[drain]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// Time that a stop gives requests and attempts to finish.
    pub timeout: TimeSpan<0, { 10 * MINUTE }, { 25 * SECOND }>,
}
