//! Every key of the configuration, once: its field is its name, the type its check and default, the
//! doc comment its documentation.
//!
//! Numbers have their lower bound, upper bound and default in the type. Optional values and lists are
//! empty by default. Attributes that a field adds to its schema:
//!
//! * `unit`: the unit of an integer.
//! * `absent`: the word for "no value" where it is not an empty text.
//! * `store`: the kind of store that alone uses the key, `embedded` or `shared`.

use duly_store_embedded::{OnClockJump, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use duly_store_redis::{Create, OnRollback, SHARDS_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    numbers::{Bytes, GIB, Integer, KIB, MIB, TIB, TimeSpan},
    store_url::StoreUrl,
    texts::{
        AbsolutePath, DataDir, DeploymentName, GroupsClaim, Host, Instant, KeysUrl, ListenAddress,
        ListenAddresses, LogFilter, Network, NonEmpty, PortRange, ProxyUrl, Risk, WebOrigin,
    },
};
use crate::telemetry::logging;

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
    /// Connections at once; further ones get 503 and are closed. Each can hold 64 KiB for the head
    /// of a request: if an eighth of the memory that the process may take has no space for 20,000
    /// heads (below 10 GiB), the default is the number that fits (1,024 for 512 MiB). Each
    /// connection needs an open file (`ulimit -n`). The store and attempts get theirs first: if the
    /// limit leaves fewer, the server takes fewer connections, at least a quarter of the limit, and
    /// logs it at the start. Lease calls that wait leave a quarter free
    /// (`delivery.pull_waiters_max`).
    #[schemars(extend("unit" = "connections"))]
    pub connections_max: Integer<1, 1_000_000, 20_000>,
    /// Time for a call, with the body of its request and without the `wait` of a lease call; of a
    /// stream of lines, time until more of it must come. A connection whose caller reads nothing
    /// of its response for this time is closed.
    pub request_timeout: TimeSpan<100, { 10 * MINUTE }, { 30 * SECOND }>,
    /// Time for the head of the next request on an HTTP/1.1 connection; an idle connection, and
    /// one that never sends anything, is closed after it. An HTTP/2 connection without a call under
    /// way is closed after it as well (`GOAWAY`), and gets a `PING` at this interval.
    pub header_timeout: TimeSpan<SECOND, { 10 * MINUTE }, MINUTE>,
}

/// `[auth]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Means by which callers prove who they are: `keys`, `mtls`, `jwt`. With one, no other caller is
    /// admitted, even if the store has no keys yet. Without one, callers need a key as soon as the
    /// store has had one.
    pub mode: Vec<AuthMode>,
    /// A file with one key, as `duly key generate` prints it. The key has every right until the store
    /// has a valid administrator key; use it to create that.
    pub root_key_file: Option<AbsolutePath>,
    /// `true`: a proxy or service mesh in front of the server encrypts connections and checks
    /// callers. Only then may `server.listen` and `server.admin_listen` be addresses that other
    /// machines reach without a certificate (`[tls]`) and `auth.mode`.
    pub external: bool,
    /// Keys of the store that were created before this time are refused, whatever the store says: for use
    /// after an incident. All of them are without it.
    pub not_before: Option<Instant>,
    /// Time for which a node admits the keys that it knows while it reaches no majority of the shards
    /// of Redis, and so does not learn of changes. After it calls with a key get 503.
    pub cache: TimeSpan<SECOND, DAY, MINUTE>,
}

/// A means by which callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// A key in the header `authorization`.
    Keys,
    /// A certificate of an authority of `tls.client_ca_file`.
    Mtls,
    /// A token (JWT) in the header `authorization` that the issuer of `[jwt]` has signed.
    Jwt,
}

/// `[audit]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// A file that gets one line of JSON for each change and each refusal, with key, address, operation
    /// and namespace; created for its owner alone. `/dev/stdout` works too.
    pub file: Option<AbsolutePath>,
    /// Calls that get a line: `changes` (and refusals for want of a key or a right), `denied` (only
    /// these refusals), or `all`.
    pub level: AuditLevel,
    /// `true`: a call is refused with 503 if its line cannot be queued. Otherwise the line is dropped
    /// and counted.
    pub required: bool,
    /// Size at which the file is renamed to `FILE.1` and a new one begins.
    pub file_bytes_max: Bytes<KIB, TIB, { 100 * MIB }>,
    /// Files that are kept, with the present one.
    #[schemars(extend("unit" = "files"))]
    pub files_max: Integer<1, 1_000, 10>,
}

/// Calls that get a line in the audit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    /// Changes, and refusals for want of a valid key or a right.
    #[default]
    Changes,
    /// These refusals.
    Denied,
    /// Every call that needs a key.
    All,
}

/// `[jwt]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// The issuer of tokens, exactly as in their claim `iss`. For `auth.mode = ["jwt"]`.
    pub issuer: Option<NonEmpty>,
    /// The audience that tokens must name in their claim `aud`.
    pub audience: Option<NonEmpty>,
    /// URL of the issuer's keys (JWKS).
    pub jwks_url: Option<KeysUrl>,
    /// File of the issuer's keys (JWKS), instead of a URL.
    pub jwks_file: Option<AbsolutePath>,
    /// Algorithms of signatures: `RS256`, `ES256`, `EdDSA`; all of them if it is empty.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Claim with the groups of the caller, a list of texts.
    pub groups_claim: GroupsClaim,
    /// Interval at which the keys are read again; a token with an unknown key has them read at once.
    pub reload: TimeSpan<{ 10 * SECOND }, DAY, { 5 * MINUTE }>,
}

/// An algorithm of signatures of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JwtAlgorithm {
    /// RSA with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA with P-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// `[tls]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate in PEM, followed by those that lead to its authority. With it, every
    /// IP address of `server.listen` takes HTTPS only, and `server.admin_listen` too if other machines
    /// reach it.
    pub certificate_file: Option<AbsolutePath>,
    /// The private key of the certificate, in PEM.
    pub key_file: Option<AbsolutePath>,
    /// Authorities of the certificates of callers, in PEM, for `auth.mode = ["mtls"]`.
    pub client_ca_file: Option<AbsolutePath>,
    /// Oldest version of TLS that callers may use.
    pub min_version: TlsVersion,
    /// Interval at which the files are read again, and those of `[webhook]` too; SIGHUP reads them at once. Files that cannot be
    /// used are logged, and leave the present certificate in use.
    pub reload: TimeSpan<SECOND, DAY, { 30 * SECOND }>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V1_3,
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
    /// less on the disk that it goes to.
    #[schemars(extend("store" = "embedded"))]
    pub min_free_bytes: Bytes<0, TIB, { 2 * GIB }>,
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
    /// PEM file of the certificate that is shown to every receiver that asks for one, followed by
    /// those that lead to its authority. Goes with `webhook.client_key_file`. Read at the start.
    pub client_certificate_file: Option<AbsolutePath>,
    /// PEM file of the private key of `webhook.client_certificate_file`. Read at the start.
    pub client_key_file: Option<AbsolutePath>,
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
    #[schemars(extend("unit" = "timers"))]
    pub max_pending: Option<Integer<1, 1_000_000_000_000>>,
    /// `limits.namespace.max_dead` of a namespace that does not set it.
    #[schemars(extend("unit" = "dead letters"))]
    pub max_dead: Integer<1, 1_000_000_000_000, 1_000_000>,
    /// `limits.namespace.schedule_per_second` of a namespace that does not set it; no limit without it.
    #[schemars(extend("unit" = "a second"))]
    pub schedule_per_second: Option<Integer<1, 1_000_000_000>>,
    /// `limits.namespace.deliver_per_second` of a namespace that does not set it; no limit without it.
    #[schemars(extend("unit" = "a second"))]
    pub deliver_per_second: Option<Integer<1, 1_000_000_000>>,
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

/// `[drain]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// Time that a stop gives requests and attempts to finish.
    pub timeout: TimeSpan<0, { 10 * MINUTE }, { 25 * SECOND }>,
}
