//! Every key of the configuration, once: name, kind, default, meaning.
//!
//! The file, the environment, the flags, `config show` and the reference page all read this
//! table. The environment variable of `server.listen` is `DULY_SERVER__LISTEN`.

use duly_core::Millis;

use super::value::Kind;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

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
}

/// The key with this name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
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
        name: "server.allowed_hosts",
        kind: Kind::Texts,
        default: "",
        doc: "Further names that the `Host` of a request may have, without port. `localhost`, loopback addresses and the listen address are always allowed.",
    },
    Key {
        name: "server.allowed_origins",
        kind: Kind::Texts,
        default: "",
        doc: "Web origins that may call, as `https://name:port`. The server's own origin is always allowed.",
    },
    Key {
        name: "server.body_bytes_max",
        kind: Kind::Bytes { low: KIB, high: 256 * MIB },
        default: "32MiB",
        doc: "Largest body of a request. A batch is at most 32 MiB whatever this says.",
    },
    Key {
        name: "server.bodies_bytes_max",
        kind: Kind::Bytes { low: MIB, high: 1024 * GIB },
        default: "256MiB",
        doc: "Memory for all bodies together: of requests until they have been read and checked, of answers until they have been written. Past it requests are refused with 429; the last quarter is kept for bodies up to 64 KiB.",
    },
    Key {
        name: "server.connections_max",
        kind: Kind::Integer { low: 1, high: 1_000_000 },
        default: "10000",
        doc: "Connections at once; further ones are answered 503 and closed.",
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
        doc: "Time for the head of the next request on an HTTP/1.1 connection; an idle one, and one that never says anything, is closed after it. An HTTP/2 connection is asked for a sign of life at this interval and stays open as long as it answers.",
    },
    Key {
        name: "store.data",
        kind: Kind::Path,
        default: "./duly-data",
        doc: "Data directory; made if it is not there.",
    },
    Key {
        name: "store.backup_dir",
        kind: Kind::PathOrNone,
        default: "",
        doc: "Directory below which `POST /v1/store/backup` may make backups, by its absolute path; without one, it makes none. On the file system of `store.data` most of a backup is hard links.",
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
        doc: "New timers are refused when the index (about 30 bytes for each pending timer and each stub, 60 for a dead letter) takes more memory than this; `auto` is 60 % of the machine's memory, or of what the control group allows if that is less.",
    },
    Key {
        name: "store.min_free_bytes",
        kind: Kind::Bytes { low: 0, high: 1024 * GIB },
        default: "2GiB",
        doc: "New timers are refused when less than this is free on the disk.",
    },
    Key {
        name: "store.min_free_percent",
        kind: Kind::Integer { low: 0, high: 90 },
        default: "5",
        doc: "New timers are refused when less than this share of the disk is free.",
    },
    Key {
        name: "delivery.workers_max",
        kind: Kind::Integer { low: 1, high: 100_000 },
        default: "1024",
        doc: "Push attempts under way at once, over all lanes.",
    },
    Key {
        name: "delivery.pull_waiters_max",
        kind: Kind::Integer { low: 1, high: 1_000_000 },
        default: "10000",
        doc: "Lease calls that wait at once, over all namespaces.",
    },
    Key {
        name: "delivery.allow_loopback",
        kind: Kind::Choice(&["auto", "always", "never"]),
        default: "auto",
        doc: "Whether webhooks may go to loopback addresses; `auto`: while the server itself listens on loopback.",
    },
    Key {
        name: "delivery.allow_networks",
        kind: Kind::Networks,
        default: "",
        doc: "Networks that webhooks may go to although they are private, link-local or the like: `10.1.0.0/16`.",
    },
    Key {
        name: "defaults.implicit_namespaces",
        kind: Kind::Flag,
        default: "true",
        doc: "Whether a namespace comes into being at its first schedule.",
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
        name: "drain.within",
        kind: Kind::Duration { low: Millis::ZERO, high: Millis::from_secs(600) },
        default: "25s",
        doc: "How long a stop lets requests and attempts finish.",
    },
];
