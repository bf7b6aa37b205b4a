//! Every key of the configuration, once: name, kind, default, meaning.
//!
//! The file, the environment, the flags, `config show`, the reference page and the example file all
//! read this table. The environment variable of `server.listen` is `DULY_SERVER__LISTEN`.

use duly_core::Millis;
use duly_store_redis::Check;

use super::value::Kind;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Names of settings of Redis that lose timers.
const REDIS_CHECKS: &[&str] = &[
    Check::NoAppendOnly.as_str(),
    Check::Eviction.as_str(),
    Check::NoFsync.as_str(),
    Check::Unknown.as_str(),
    Check::NoReplicas.as_str(),
];

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Section and name: `server.listen`.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// Its default, as text.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
}

impl Key {
    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("DULY_{}", self.name.replace('.', "__").to_uppercase())
    }

    /// Its section.
    pub fn section(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// Its name within its section.
    pub fn bare_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, name)| name)
    }
}

/// The sections, in order.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KEYS.iter().map(Key::section).collect();
    sections.dedup();
    sections
}

/// The key with this name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Keys that had another name before 0.2.0, and the name that they have.
const RENAMED: [(&str, &str); 5] = [
    ("delivery.bytes_max", "delivery.memory_max"),
    ("drain.within", "drain.timeout"),
    ("server.bodies_bytes_max", "server.request_memory_max"),
    ("store.replicas_within", "store.replication_timeout"),
    ("webhook.answer_bytes_max", "webhook.response_bytes_max"),
];

/// Returns the key that had this name before 0.2.0.
pub(super) fn renamed(name: &str) -> Option<&'static Key> {
    let (_, new) = RENAMED.iter().find(|(old, _)| *old == name)?;
    find(new)
}

/// Every key, section by section.
pub const KEYS: &[Key] = &[
    Key {
        name: "server.listen",
        kind: Kind::LoopbackAddress,
        default: "127.0.0.1:3859",
        doc: "Address and port to listen on; port 0 takes a free one. Addresses other than loopback are refused until there are API keys.",
    },
    Key {
        name: "server.admin_listen",
        kind: Kind::LoopbackAddressOrNone,
        default: "",
        doc: "Address and port of their own for `/healthz`, `/readyz` and `/metrics`, which callers of `server.listen` cannot keep busy; port 0 takes a free one. Loopback only, until there are API keys.",
    },
    Key {
        name: "server.allowed_hosts",
        kind: Kind::Hosts,
        default: "",
        doc: "Further names that the `Host` of a request may have, without port. `localhost`, loopback addresses and the listen address are always allowed. Where it is set, webhooks do not go to loopback addresses.",
    },
    Key {
        name: "server.allowed_origins",
        kind: Kind::Origins,
        default: "",
        doc: "Web origins that may call, as `https://name:port`: browsers are told so by CORS. The server's own origin is always allowed, every other refused.",
    },
    Key {
        name: "server.body_bytes_max",
        kind: Kind::Bytes { low: KIB, high: 256 * MIB },
        default: "32MiB",
        doc: "Largest body of a request. A batch is at most 32 MiB whatever this says.",
    },
    Key {
        name: "server.request_memory_max",
        kind: Kind::BytesOrAuto { low: MIB, high: 1024 * GIB },
        default: "auto",
        doc: "Memory for all requests and answers together: of a request until what it asks for is done, of an answer from before its timers are read until it has been written. Past it requests are refused with 429, and pages of lists are shorter; the last quarter is kept for bodies up to 64 KiB, the last sixteenth for those up to 4 KiB. `auto` is an eighth of the machine's memory, or of what the control group allows if that is less; at least 32 MiB and at most 256 MiB.",
    },
    Key {
        name: "server.connections_max",
        kind: Kind::Integer { low: 1, high: 1_000_000, unit: "connections" },
        default: "20000",
        doc: "Connections at once; further ones are answered 503 and closed. Each can hold 64 KiB for the head of a request: where an eighth of the memory that the process may take has room for fewer, so below 10 GiB, the default is that number (1,024 for 512 MiB). Each needs an open file (`ulimit -n`). The store and attempts get theirs first: where the limit leaves fewer, the server takes fewer connections, at least a quarter of the limit, and says so at the start. A quarter is kept from lease calls that wait (`delivery.pull_waiters_max`).",
    },
    Key {
        name: "server.request_timeout",
        kind: Kind::Duration { low: Millis::from_ms(100), high: Millis::from_secs(600) },
        default: "30s",
        doc: "Time to answer a request, its body included and the `wait` of a lease call excluded; of a stream of lines, time until more of it must come. A connection whose caller takes none of its answer for so long is closed.",
    },
    Key {
        name: "server.header_timeout",
        kind: Kind::Duration { low: Millis::from_secs(1), high: Millis::from_secs(600) },
        default: "1m",
        doc: "Time for the head of the next request on an HTTP/1.1 connection; an idle one, and one that never says anything, is closed after it. An HTTP/2 connection without a call under way is closed after it as well (`GOAWAY`), and asked for a sign of life at this interval.",
    },
    Key {
        name: "store.data",
        kind: Kind::Path,
        default: "./duly-data",
        doc: "Data directory; made if it is not there. With `store.url` there is none.",
    },
    Key {
        name: "store.backup_dir",
        kind: Kind::PathOrNone,
        default: "",
        doc: "Directory below which `POST /v1/store/backup` may make backups, by its absolute path; without one, it makes none. On the file system of `store.data` most of a backup is hard links.",
    },
    Key {
        name: "store.backups_max",
        kind: Kind::Integer { low: 1, high: 10_000, unit: "backups" },
        default: "30",
        doc: "Backups below `store.backup_dir`; a further one is refused until one is removed there. Each holds the room of files that the store has let go of.",
    },
    Key {
        name: "store.backup_interval",
        kind: Kind::Duration { low: Millis::ZERO, high: Millis::from_secs(86_400) },
        default: "1m",
        doc: "Time from the beginning of a backup to that of the next; one that is asked for earlier is refused.",
    },
    Key {
        name: "store.segment_bytes",
        kind: Kind::Bytes {
            low: duly_store_embedded::SEGMENT_BYTES_MIN,
            high: duly_store_embedded::SEGMENT_BYTES_MAX,
        },
        default: "64MiB",
        doc: "Bytes of a journal segment, a multiple of 4 KiB.",
    },
    Key {
        name: "store.checkpoint_bytes",
        kind: Kind::Bytes { low: 64 * 1024, high: 64 * GIB },
        default: "128MiB",
        doc: "A checkpoint is taken when the journal has grown by so much, or by the size of the last checkpoint (24 bytes for each timer) if that is more. Less makes a start after a crash faster and writes more.",
    },
    Key {
        name: "store.young_bytes",
        kind: Kind::Bytes { low: 64 * 1024, high: 64 * GIB },
        default: "512MiB",
        doc: "The newest part of the journal, which is left as it is: timers that are cancelled or fire while they are in it are written only once.",
    },
    Key {
        name: "store.index_memory_max",
        kind: Kind::BytesOrAuto { low: MIB, high: 1024 * GIB },
        default: "auto",
        doc: "New timers are refused when the index (about 30 bytes for each pending timer and each tombstone, 60 for a dead letter) takes more memory than this; `auto` is 60 % of the machine's memory, or of what the control group allows if that is less.",
    },
    Key {
        name: "store.on_clock_jump",
        kind: Kind::Choice(&["fire", "hold"]),
        default: "fire",
        doc: "What comes when the machine's wall clock has stepped more than a minute ahead since the start, which can make very much due at once: `fire` delivers it, `hold` goes on by the time as it was, and is not ready, until the clock is back, or the server is started again, which takes the clock as right.",
    },
    Key {
        name: "store.min_free_bytes",
        kind: Kind::Bytes { low: 0, high: 1024 * GIB },
        default: "2GiB",
        doc: "New timers are refused when less than this is free on the disk; so is a backup that would leave less on the one that it goes to.",
    },
    Key {
        name: "store.min_free_percent",
        kind: Kind::Integer { low: 0, high: 90, unit: "percent" },
        default: "5",
        doc: "New timers are refused when less than this share of the disk is free; so is a backup that would leave less on the one that it goes to.",
    },
    Key {
        name: "store.url",
        kind: Kind::StoreUrlOrNone,
        default: "",
        doc: "Where timers are kept that several nodes share, on Redis or Valkey 7.0 or newer: `redis://host:port` for one server, `redis-cluster://host:port,host:port` for a Cluster, of which some servers are enough; `rediss` in their places is TLS. A user goes in front as `user@`; the password into `store.password_file`. Empty: the embedded store in `store.data`. With one, none of the keys from `store.data` to `store.min_free_percent` is used.",
    },
    Key {
        name: "store.password_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "File with the password for `store.url`, one line. Read at the start; never shown.",
    },
    Key {
        name: "store.ca_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "PEM file of the certificate authorities that the servers of `store.url` are trusted by, in place of those of the system. Read at the start.",
    },
    Key {
        name: "store.deployment",
        kind: Kind::NameOrNone,
        default: "",
        doc: "Name of the deployment behind `store.url`: a new one gets it, and one that has another is refused, so that nobody joins the wrong one. Without a name a new one gets one by chance, and any is joined.",
    },
    Key {
        name: "store.shards",
        kind: Kind::Integer { low: 1, high: duly_store_redis::SHARDS_MAX as u64, unit: "shards" },
        default: "64",
        doc: "Shards of a new deployment behind `store.url`; one that is there keeps its number. All timers of a shard are on one master, so there should be several times as many as there will ever be masters.",
    },
    Key {
        name: "store.create",
        kind: Kind::Choice(&["when_empty", "never"]),
        default: "when_empty",
        doc: "What a node does that finds an empty database behind `store.url`: `when_empty` creates a deployment, `never` refuses to start. A node cannot tell a new database from one that was lost, so set `never` after the first start.",
    },
    Key {
        name: "store.on_rollback",
        kind: Kind::Choice(&["warn", "pause"]),
        default: "warn",
        doc: "What follows when a shard behind `store.url` comes back with data that is more than 5 s older than what was in it, as after a restart from an old copy: `warn` reports it and goes on, `pause` makes calls for the shard `unavailable` until `duly store repair` confirms it. A rollback while no node runs cannot be noticed.",
    },
    Key {
        name: "store.min_replicas",
        kind: Kind::Integer { low: 0, high: 16, unit: "replicas" },
        default: "0",
        doc: "Replicas of a master of `store.url` that must have a change before it is answered (`WAIT`). With 0 a failover loses what was answered and had not reached a replica yet, so a Cluster takes at least 1 unless `store.allow` names `no_replicas`. A node waits at its start while all masters have fewer replicas.",
    },
    Key {
        name: "store.on_disk",
        kind: Kind::Flag,
        default: "false",
        doc: "Whether a change is answered only when it is on the disks of its master and of `store.min_replicas` replicas (`WAITAOF`, Redis or Valkey 7.2 or newer), and not in their memories alone.",
    },
    Key {
        name: "store.replication_timeout",
        kind: Kind::Duration { low: Millis::from_ms(10), high: Millis::from_secs(4) },
        default: "1s",
        doc: "Time for what `store.min_replicas` and `store.on_disk` ask for. A change that takes longer is answered `aborted`: it was made, and nobody vouches for it.",
    },
    Key {
        name: "store.connections",
        kind: Kind::Integer { low: 1, high: 64, unit: "connections" },
        default: "4",
        doc: "Connections to each server of `store.url`. A wait for replicas holds one up.",
    },
    Key {
        name: "store.allow",
        kind: Kind::Words(REDIS_CHECKS),
        default: "",
        doc: "Settings of the servers of `store.url` that lose timers without a word, and with which the server does not start unless they are named here: `no_append_only` (`appendonly no`), `eviction` (a `maxmemory-policy` other than `noeviction` with a `maxmemory`), `no_fsync` (`appendfsync no`), `unknown_settings` (`CONFIG GET` is refused), `no_replicas` (`store.min_replicas` is 0 on a Cluster).",
    },
    Key {
        name: "delivery.workers_max",
        kind: Kind::Integer { low: 1, high: 100_000, unit: "attempts" },
        default: "1024",
        doc: "Push attempts under way at once, over all lanes.",
    },
    Key {
        name: "delivery.memory_max",
        kind: Kind::BytesOrAuto { low: MIB, high: 1024 * GIB },
        default: "auto",
        doc: "Memory for payloads and headers of push attempts under way. When it is full no attempt begins; one payload may go past it, and with `store.url` one for each shard. `auto` is an eighth of the machine's memory, or of what the control group allows if that is less; at least 32 MiB and at most 256 MiB.",
    },
    Key {
        name: "delivery.pull_waiters_max",
        kind: Kind::Integer { low: 1, high: 1_000_000, unit: "calls" },
        default: "10000",
        doc: "Lease calls that wait at once, over all namespaces; at most three quarters of `server.connections_max`, as each may hold a connection. The default gives way to that by itself.",
    },
    Key {
        name: "delivery.allow_loopback",
        kind: Kind::Choice(&["auto", "always", "never"]),
        default: "auto",
        doc: "Whether webhooks may go to loopback addresses; `auto`: while the server itself listens on loopback and `server.allowed_hosts` is empty. With `server.allowed_hosts` set, which is for a proxy in front, `always` is refused: name single addresses in `delivery.allow_networks` if receivers are on this machine. Where the server itself listens is never a target.",
    },
    Key {
        name: "delivery.allow_networks",
        kind: Kind::Networks,
        default: "",
        doc: "Networks that webhooks may go to although they are private, link-local or the like: `10.1.0.0/16`.",
    },
    Key {
        name: "webhook.connect_timeout",
        kind: Kind::Duration { low: Millis::from_ms(100), high: Millis::from_secs(60) },
        default: "10s",
        doc: "Time to make a connection to a receiver: name look-up, TCP, proxy and TLS together. An attempt that ends here was not sent.",
    },
    Key {
        name: "webhook.header_timeout",
        kind: Kind::Duration { low: Millis::from_ms(100), high: Millis::from_secs(600) },
        default: "10m",
        doc: "Time from sending a request to the head of its answer. The destination's `timeout` is for the whole attempt and counts as well, so the default adds nothing to it.",
    },
    Key {
        name: "webhook.body_timeout",
        kind: Kind::Duration { low: Millis::from_ms(1), high: Millis::from_secs(60) },
        default: "500ms",
        doc: "Time for the body of an answer whose status is known. The status counts in any case; a slower body costs its connection.",
    },
    Key {
        name: "webhook.response_bytes_max",
        kind: Kind::Bytes { low: 8 * KIB, high: 16 * MIB },
        default: "64KiB",
        doc: "Bytes read of one answer, head and body together; a longer one costs its connection, over HTTP/2 its stream.",
    },
    Key {
        name: "webhook.idle_timeout",
        kind: Kind::Duration { low: Millis::from_ms(100), high: Millis::from_secs(600) },
        default: "1m",
        doc: "How long an idle connection is kept for the next delivery, unless the receiver says less in `Keep-Alive`.",
    },
    Key {
        name: "webhook.idle_per_origin_max",
        kind: Kind::Integer { low: 0, high: 100_000, unit: "connections" },
        default: "256",
        doc: "Idle connections kept for one scheme, host and port.",
    },
    Key {
        name: "webhook.idle_max",
        kind: Kind::Integer { low: 0, high: 100_000, unit: "connections" },
        default: "1024",
        doc: "Idle connections kept in all; past it the one that was idle longest is closed. Open connections are at most these and one for each attempt under way (`delivery.workers_max`).",
    },
    Key {
        name: "webhook.allow_ports",
        kind: Kind::Ports,
        default: "",
        doc: "Ports that receivers may have: `443`, `8000-8999`. Empty: every port.",
    },
    Key {
        name: "webhook.ca_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "PEM file of certificate authorities to trust besides those of the system. Read at the start.",
    },
    Key {
        name: "webhook.client_certificate_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "PEM file of the certificate that is shown to every receiver that asks for one, followed by those that lead to its authority. Goes with `webhook.client_key_file`. Read at the start.",
    },
    Key {
        name: "webhook.client_key_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "PEM file of the private key of `webhook.client_certificate_file`. Read at the start.",
    },
    Key {
        name: "webhook.proxy",
        kind: Kind::ProxyOrNone,
        default: "",
        doc: "HTTP proxy that all webhooks go through, by `CONNECT` for `http://` receivers as well. Its own address may be any. The variables `HTTP_PROXY` and the like are not read.",
    },
    Key {
        name: "webhook.proxy_credentials_file",
        kind: Kind::PathOrNone,
        default: "",
        doc: "File with `user:password` for the proxy. Read at the start; never shown.",
    },
    Key {
        name: "webhook.proxy_resolves",
        kind: Kind::Flag,
        default: "false",
        doc: "Whether the proxy finds the addresses of receivers' names. `false`: this server does, checks them, and gives the proxy the address, so the address rules hold. `true`: the proxy gets the name and has to keep receivers out of the inner network itself; only hosts written as addresses are checked here.",
    },
    Key {
        name: "defaults.implicit_namespaces",
        kind: Kind::Flag,
        default: "true",
        doc: "Whether a namespace comes into being at its first schedule.",
    },
    Key {
        name: "limits.namespaces_max",
        kind: Kind::Integer { low: 1, high: 10_000_000, unit: "namespaces" },
        default: "100000",
        doc: "Namespaces that there may be; one more is refused. Each takes memory, up to 40 KiB with the longest settings. Nodes that share a store should have the same number.",
    },
    Key {
        name: "limits.implicit_namespaces_per_second",
        kind: Kind::Integer { low: 1, high: 1_000_000, unit: "namespaces" },
        default: "20",
        doc: "Namespaces that come into being at their first schedule, in a second and on this node, and ten times as many at once; more are refused. Those that are made by `PUT` do not count.",
    },
    Key {
        name: "log.level",
        kind: Kind::LogFilter,
        default: "info",
        doc: "What is logged: a level, or a filter such as `info,duly_node=debug`.",
    },
    Key {
        name: "log.format",
        kind: Kind::Choice(&["text", "json"]),
        default: "text",
        doc: "How log lines look.",
    },
    Key {
        name: "drain.timeout",
        kind: Kind::Duration { low: Millis::ZERO, high: Millis::from_secs(600) },
        default: "25s",
        doc: "How long a stop lets requests and attempts finish.",
    },
];
