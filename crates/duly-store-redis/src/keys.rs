//! Names of keys, and so the shard of a key and its slot in a Cluster.
//!
//! All keys of a shard begin with `duly:{tag}:`, so they are in one slot and one script may use them
//! all. The tags are a table, not a computation: it is part of the storage format.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `seq` | string | counts the scripts that wrote; every script declares it |
//! | `deployment` | hash | the record of the deployment (1) |
//! | `marker` | hash | the marker of the shard (2) |
//! | `access` | hash | `key:` and id → key of a caller, as JSON (`access.rs`) |
//! | `access_log` | list | state NUL id of the last 1,000 changes of keys (`access/state.rs`) |
//! | `audit` | zset | id NUL line of the audit log (at coordinator shards of the members) |
//! | `nn`, `vers`, `nums` | hash, hash, string | name → number; name → version; last number |
//! | `names` | zset | names in order |
//! | `n:<num>` | hash | what is fixed for a namespace, with its quotas and its deletion lock (3) |
//! | `c:<num>` | hash | counts; at the coordinator shard also the state of `schedule_per_second` (4) |
//! | `q:<num>:pending`, `q:<num>:dead` | hash | transfers of the limit, and its allocation (5) |
//! | `implicit` | zset | names of implicit namespaces, in order (at their coordinator shard) (3) |
//! | `todo` | zset | unfinished changes of namespaces (at their coordinator shard) |
//! | `ends` | hash | number → version NUL name of its end record (at its coordinator shard; for a day) |
//! | `ended` | zset | number by when every shard had confirmed its end, or it was last seen unfinished |
//! | `over` | zset | names by when one ended here: their versions go a day later |
//! | `r:<num>` | hash | id → record; `id NUL inc16 NUL occ8` → record of a dead letter |
//! | `p:<num>` | hash | the same keys → payloads that are stored apart |
//! | `x:<num>` | hash | id → lease |
//! | `d:<num>:<lane>:r` | zset | claimable at → id: retries |
//! | `d:<num>:<lane>:f` | zset | directory of the first attempts: due at → id NUL block, where each begins |
//! | `d:<num>:<lane>:f:<block>` | zset | due at → id, at most 64 |
//! | `d:<num>:<lane>:f:last` | string | last number of a block |
//! | `b:<num>` | zset | due at → id: retried timers, waiting or leased |
//! | `bx:<num>` | zset, TTL | due at → id: leased first attempts, while lists need them |
//! | `nl:<num>` | hash | origin → lane and lane → origin |
//! | `lanes`, `leased` | zset | heads of lanes; ends of consumers' leases |
//! | `exp`, `resume` | zset | expiries; ends of pauses |
//! | `own:<run>` | zset | leases of a node, by its member id |
//! | `runs` | hash | member ids that claimed here |
//! | `gone` | zset | member ids that were released in the last day |
//! | `u:<nonce>` | list, TTL | number NUL id of what a claim granted |
//! | `void:<nonce>` | string, TTL | a claim that was taken back |
//! | `s:<num>` | hash, TTL | id → tombstone |
//! | `sl:<num>` | list, TTL | tombstones in order of ending |
//! | `sd:<num>:F`, `:C` | zsets, TTL | due at → id: tombstones, while lists need them |
//! | `ix:<num>:l`, `:s` | string, TTL | how far `bx`, or `sd`, has been made |
//! | `dead:<num>`, `di:<num>` | zset, zset | dead letters by due time; by id and order of ending |
//! | `dx:<num>` | hash | dead letters by delivery id |
//! | `allot:<lane>` | hash | member id → what the node has of a lane's limits, and wants of them |
//! | `allots:<run>` | set | lanes of whose limits a node has something |
//! | `heartbeats` | hash | member id → its last heartbeat (in coordinator shards of the members) |
//! | `evicted` | zset | member ids that were evicted in the last day (there too) |
//! | `members` | string | `sealed`: nodes of older builds cannot act; before that their hash (shard 0) |
//! | `wake` | channel | something became claimable, a namespace to pull from, or a changed marker |
//!
//! 1. In shard 0: format, number of shards, name, deployment id, first list of coordinator shards, and
//!    whether every shard has its marker.
//! 2. The same except for the last, with the present list and the one before it, the progress, and by
//!    how much the shard was rolled back until an operator confirms that (`marker.rs`).
//! 3. Of `max_pending` and `max_dead`: the even split (`a_`), what transfers changed (`m_`, `-` until
//!    the limit is allocated), and the version of the allocation (`deal_`). The field `gate` is the
//!    deletion lock. For an implicit namespace also since when it is idle.
//!    `over` is the time by which timers had ended whose tombstones are over, since the retention was
//!    raised.
//! 4. The time until which the rate is used up (`spoken`).
//! 5. `>shard`, `<shard` → total that was sent to and received from that shard in this allocation; `=` →
//!    the amounts that the coordinator shard has settled for all shards.

use duly_core::{Incarnation, TimerId, shard::ShardId};

/// Most shards of a deployment.
pub const SHARDS_MAX: u16 = 256;

/// Tag `i` hashes into the `i`-th of 256 equal ranges of the 16,384 slots.
const TAGS: [&str; 256] = [
    "17q", "8f", "17u", "8b", "9t", "d7", "9p", "d3", "6l", "1cq", "6h", "1cu", "18i", "mt", "j9",
    "7z", "ae", "14x", "aa", "1nv", "15j", "22n", "y8", "22j", "3eu", "5e", "3eq", "5a", "4w",
    "i4", "4s", "i0", "1jv", "ea", "10x", "ee", "ds", "90", "dw", "94", "1a", "2d1", "1e", "1dx",
    "m0", "jy", "m4", "28d", "fh", "f", "fl", "b", "12g", "gz", "12c", "25g", "1gu", "2h", "1gq",
    "2l", "3z", "43", "it", "47", "18q", "7f", "18u", "7b", "6t", "k7", "6p", "19", "9l", "1lq",
    "9h", "1lu", "17i", "bt", "e9", "8z", "4o", "1ar", "4k", "1av", "24", "ow", "20", "5y", "15r",
    "1h1", "15v", "1h5", "23d", "f4", "ay", "f0", "1ev", "ja", "1er", "je", "1y", "60", "kw", "64",
    "dk", "11v", "do", "11r", "b0", "ey", "b4", "27d", "3b", "2f2", "3f", "1xy", "59", "2p", "o7",
    "2t", "1hu", "gb", "1hq", "gf", "fp", "a9", "ft", "z", "8d", "17s", "bj", "17w", "d5", "9v",
    "d1", "9r", "19y", "6n", "1cw", "6j", "mv", "18k", "7x", "t9", "14z", "ag", "1nt", "ac", "22l",
    "15h", "22h", "g8", "5g", "3ew", "5c", "3es", "i6", "4u", "38", "4q", "ec", "1jt", "eg", "10z",
    "92", "dq", "96", "du", "2d3", "1c", "1dz", "1g", "ty", "78", "28f", "m6", "d", "fj", "13s",
    "fn", "gx", "12e", "25e", "12a", "2j", "1gw", "2n", "1gs", "41", "3x", "45", "iv", "7d", "18s",
    "mj", "18w", "k5", "6v", "k1", "6r", "16y", "9n", "1lw", "9j", "bv", "17k", "8x", "17o", "1ap",
    "4m", "1at", "4i", "ou", "26", "oq", "22", "129", "15p", "1h7", "15t", "f6", "8", "f2", "23b",
    "jc", "1et", "jg", "1ep", "62", "kq", "66", "ku", "11t", "di", "11p", "dm", "27b", "88", "27f",
    "b6", "2f0", "ij", "1fy", "3d", "2r", "o1", "2v", "o5", "yb", "1hw", "gd", "12y", "13o", "fr",
    "x", "fv",
];

/// Returns `KEYS[1]` of every script of a shard, one of `shards`.
pub(crate) fn seq(shard: ShardId, shards: u16) -> String {
    format!("duly:{{{}}}:seq", tag(shard, shards))
}

/// Returns another key of the same shard.
pub(crate) fn key(seq: &str, name: &str) -> String {
    format!("{}{name}", seq.strip_suffix("seq").unwrap_or(seq))
}

/// Returns the tag of a shard. Any number of shards is spread evenly over the slots.
fn tag(shard: ShardId, shards: u16) -> &'static str {
    TAGS[usize::from(place(shard, shards).0)]
}

/// Returns the shard with the same keys in a deployment of [`SHARDS_MAX`] shards.
pub(crate) fn place(shard: ShardId, shards: u16) -> ShardId {
    let place = u32::from(shard.0) * u32::from(SHARDS_MAX) / u32::from(shards.max(1));
    ShardId(u16::try_from(place).unwrap_or(u16::MAX).min(SHARDS_MAX - 1))
}

/// Returns the key of a dead letter among the records of its namespace.
pub(crate) fn firing_key(id: &TimerId, incarnation: Incarnation, occurrence: u32) -> Vec<u8> {
    format!("{id}\0{:016x}\0{occurrence:08x}", incarnation.0).into_bytes()
}

/// Parses a firing key into id, incarnation and occurrence. A plain id has incarnation and occurrence 0.
pub(crate) fn parse_firing_key(key: &[u8]) -> Option<(TimerId, Incarnation, u32)> {
    let text = str::from_utf8(key).ok()?;
    let mut parts = text.split('\0');
    let id = TimerId::new(parts.next()?).ok()?;
    let Some(incarnation) = parts.next() else {
        return Some((id, Incarnation(0), 0));
    };
    let incarnation = u64::from_str_radix(incarnation, 16).ok()?;
    let occurrence = u32::from_str_radix(parts.next()?, 16).ok()?;
    Some((id, Incarnation(incarnation), occurrence))
}

/// Returns the slot of a key: CRC-16/XMODEM of its tag, as the Cluster specification says.
pub(crate) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests;
